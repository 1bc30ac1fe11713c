"""Where figures are drawn and how they are saved; colours that colour-blind readers can tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psimil.figures.lettering import figure_of
from psimil.files.atomic import atomic_write
from psimil.files.csv_table import write_table
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import is_number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Okabe and Ito's palette
BLACK, BLUE, ORANGE, GREEN, RED, PURPLE, SKY = (
    "#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, "#666666")
LINES = ("-", "--", "-.", ":")  # with seven colours: 28 pairs before one comes again
DOTS_PER_INCH = 150


def new_figure(width: float = 6.0, height: float = 4.0) -> Axes:
    """Axes of a figure that pyplot does not know: nothing to close, no window, no backend.

    Parameters
    ----------
    width, height : in inches.

    Examples
    --------
    >>> new_figure().figure.get_size_inches().tolist()
    [6.0, 4.0]
    """
    from matplotlib.figure import Figure

    for name, value in (("width", width), ("height", height)):
        if not is_number(value) or not 0 < value < inf:
            raise InputError(f"{name} must be a number of inches > 0, got {value!r}.")
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def axes_or_new(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The given axes, or those of a new pyplot figure of that size in inches."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise InputError(f"ax must be matplotlib Axes or None, got {type(ax).__name__}. Write ax=new_figure().")
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def check_columns(table: Any, columns: Iterable[str], source: str) -> None:
    """Refuse what is not a data frame with these columns.

    Examples
    --------
    >>> check_columns(None, ["error"], "referral_curve")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the table must be that of referral_curve, got NoneType.
    """
    if not hasattr(table, "columns"):
        raise InputError(f"the table must be that of {source}, got {type(table).__name__}.")
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(f"the table has no column {', '.join(missing)}. Give the table of {source}.")


def save_figure(ax: Axes, path: str | Path, data: pd.DataFrame) -> None:
    """Write the figure as PNG and as PDF and, beside them, the table behind it as CSV; each atomically.

    The same figure gives the same bytes: no file holds the time of its making.

    Parameters
    ----------
    ax : any axes of the figure.
    path : ends in ``.png``; the others have the same name with ``.pdf`` and ``.csv``.
    data : the table.

    Examples
    --------
    >>> from psimil.figures import plot_theta, theta_table
    >>> save_figure(plot_theta(ax=new_figure()), "theta.png", theta_table())
    >>> sorted(p.name for p in Path().iterdir())
    ['theta.csv', 'theta.pdf', 'theta.png']
    """
    path = as_path(path)
    if path.suffix.lower() != ".png":
        raise InputError(f"figures are named .png (the .pdf and .csv go beside it), got {path.name}.")
    if not hasattr(ax, "get_figure"):
        raise InputError(f"ax must be matplotlib Axes, got {type(ax).__name__}. Give what a plot_ function returned.")
    figure = figure_of(ax)
    write_table(data, path.with_suffix(".csv"))
    atomic_write(path, lambda stream: figure.savefig(stream, format="png", dpi=DOTS_PER_INCH))
    timeless = {"CreationDate": None}
    atomic_write(path.with_suffix(".pdf"), lambda stream: figure.savefig(stream, format="pdf", metadata=timeless))
