"""The functions theta(c) of densities, as in the paper's figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from psimil.figures.canvas import BLACK, COLOURS, axes_or_new
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

    Examples
    --------
    >>> theta_table().iloc[0].round(3).tolist()
    [0.0, 0.25, 1.0, 0.5, 0.25, 0.125]
    """
    import pandas as pd

    c = np.linspace(0.0, largest, 201)
    chosen = PAPER if densities is None else densities
    return pd.DataFrame({"c": c} | {name: density.theta(c) for name, density in chosen.items()})


def plot_theta(densities: Mapping[str, Density] | None = None, *, ax: Axes | None = None) -> Axes:
    """Curves of theta(c); the hyperbolic secant, alias PG, in black.

    Parameters
    ----------
    densities : by name; None takes those of the paper's figure.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from psimil import StudentT
    >>> from psimil.figures import new_figure
    >>> plot_theta({"Student": StudentT(4.0)}, ax=new_figure()).get_xlabel()
    'c'
    """
    ax = axes_or_new(ax)
    chosen = PAPER if densities is None else densities
    table = theta_table(chosen)
    colours = iter(COLOURS * len(chosen))
    for name, density in chosen.items():
        colour = BLACK if isinstance(density, HyperbolicSecant) else next(colours)
        ax.plot(table["c"], table[name], label=name, color=colour)
    ax.set(xlabel="c", ylabel="theta(c)", title="Precision that each density gives to an instance")
    ax.legend(frameon=False)
    return ax
