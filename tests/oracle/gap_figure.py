"""What the variational posterior says against what the Gibbs oracle says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psimil.figures.canvas import COLOURS, axes_or_new, check_columns
from psimil.figures.lettering import legend_below, literal, titled
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P")


def plot_gap(table: pd.DataFrame, quantity: str = "latent mean", *, ax: Axes | None = None) -> Axes:
    """One quantity of the variational posterior against the oracle's; on the diagonal there is no gap.

    Horizontal bars are two standard errors of the oracle to each side.

    Parameters
    ----------
    table : of :func:`oracle.compare`; with a column ``problem`` each problem has a colour and a marker.
    quantity : which rows to draw.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import pandas as pd
    >>> from psimil.figures import new_figure
    >>> row = {"quantity": "latent mean", "item": 0, "variational": 1.0, "oracle": 1.5, "error": 0.01}
    >>> plot_gap(pd.DataFrame([row]), ax=new_figure()).get_xlabel()
    'Gibbs oracle'
    """
    check_columns(table, ("quantity", "variational", "oracle", "error"), "oracle.compare")
    rows = table[table["quantity"] == quantity]
    if rows.empty:
        known = ", ".join(dict.fromkeys(table["quantity"]))
        raise InputError(f'gap (quantity="{quantity}"): the table has no such row. Use one of {known}.')
    ax = axes_or_new(ax)
    both = rows[["variational", "oracle"]].to_numpy()
    ends = [both.min(), both.max()]
    ax.plot(ends, ends, color="grey", linestyle="--", linewidth=1, label="no gap")
    groups = rows.groupby("problem", sort=False) if "problem" in rows else [("variational", rows)]
    for k, (name, part) in enumerate(groups):
        ax.errorbar(
            part["oracle"], part["variational"], xerr=2 * part["error"], fmt=MARKERS[k % len(MARKERS)], markersize=4,
            color=COLOURS[k % len(COLOURS)], ecolor="grey", elinewidth=0.7, alpha=0.7, linestyle="none",
            label=literal(name),
        )  # fmt: skip
    ax.set(xlabel="Gibbs oracle", ylabel="variational posterior")
    titled(ax, quantity.capitalize())
    legend_below(ax)
    return ax
