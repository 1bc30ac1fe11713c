"""The functions theta(c) of densities, as in the paper's figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from psimil.figures.canvas import BLACK, COLOURS, LINES, axes_or_new
from psimil.figures.lettering import legend_below, titled, typeset
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import above_zero
from psimil.model.densities import Density, GammaMixture, HyperbolicSecant

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PAPER: dict[str, Density] = {"PG": HyperbolicSecant()} | {
    f"Gamma, alpha=1, beta={beta}": GammaMixture(1.0, float(beta)) for beta in (1, 2, 4, 8)
}


def theta_table(densities: Mapping[str, Density] | None = None, largest: float = 10.0) -> pd.DataFrame:
    """theta(c) on [0, largest], one column per density.

    Parameters
    ----------
    densities : by name; None takes those of the paper's figure.
    largest : end of the range of c.

    Examples
    --------
    >>> theta_table().iloc[0].round(3).tolist()
    [0.0, 0.25, 1.0, 0.5, 0.25, 0.125]
    """
    import pandas as pd

    chosen = _chosen(densities)
    above_zero(largest=largest)
    c = np.linspace(0.0, largest, 201)
    return pd.DataFrame({"c": c} | {name: density.theta(c) for name, density in chosen.items()})


def plot_theta(densities: Mapping[str, Density] | None = None, *, ax: Axes | None = None) -> Axes:
    """Curves of theta(c); the hyperbolic secant, alias PG, in black.

    Parameters
    ----------
    densities : by name; None takes those of the paper's figure.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil import StudentT
    >>> from psimil.figures import new_figure
    >>> plot_theta({"Student": StudentT(4.0)}, ax=new_figure()).get_xlabel()
    '$c$'
    """
    chosen = _chosen(densities)
    table = theta_table(chosen)
    ax = axes_or_new(ax)
    k = 0
    for name, density in chosen.items():
        if isinstance(density, HyperbolicSecant):
            ax.plot(table["c"], table[name], label=typeset(name), color=BLACK, linewidth=2)
            continue
        ax.plot(table["c"], table[name], label=typeset(name), color=COLOURS[k % len(COLOURS)],
                linestyle=LINES[k % len(LINES)])  # fmt: skip
        k += 1
    ax.set(xlabel="$c$", ylabel=r"$\theta(c)$", ylim=(0.0, None))
    ax.set_ylim(-0.03 * ax.get_ylim()[1])
    titled(ax, "Precision that each density gives to an instance")
    legend_below(ax)
    return ax


def _chosen(densities: Mapping[str, Density] | None) -> Mapping[str, Density]:
    if densities is None:
        return PAPER
    if not isinstance(densities, Mapping) or not densities or not all(hasattr(d, "theta") for d in densities.values()):
        raise InputError(
            f'densities must be densities by name, got {type(densities).__name__}. Write {{"Student": StudentT(4.0)}}.'
        )
    return densities
