"""Letters of figures: titles that fit, legends that hide nothing, Greek set as Greek, notes with room of their own."""

from __future__ import annotations

import re
from textwrap import wrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALLEST = 7.0  # points: what can be read in print
WIDTH = 0.62  # of a letter by its size
GREEK = re.compile(r"\b(alpha|beta|gamma|delta|theta|lambda|mu|nu|psi|rho|sigma|tau|omega)\b(?:\s*=\s*(-?[\d.]+))?")


def literal(text: Any) -> str:
    r"""Text in which a dollar is a dollar and no beginning of mathematics.

    Examples
    --------
    >>> literal("scan $1")
    'scan \\$1'
    """
    return str(text).replace("$", r"\$")


def typeset(text: Any) -> str:
    r"""Names of Greek letters, and what they are equal to, as mathematics.

    Examples
    --------
    >>> typeset("Gamma, alpha=1, beta=2")
    'Gamma, $\\alpha=1$, $\\beta=2$'
    """
    return GREEK.sub(lambda m: f"$\\{m[1]}" + (f"={m[2]}$" if m[2] else "$"), literal(text))


def figure_of(ax: Axes) -> Figure:
    """The figure that axes belong to."""
    figure = ax.get_figure(root=True)
    assert figure is not None  # axes that are drawn on have a figure
    return figure


def axes_points(ax: Axes) -> tuple[float, float]:
    """Width and height of the axes in points, as the layout settles them."""
    figure = figure_of(ax)
    figure.draw_without_rendering()
    box = ax.get_window_extent()
    return 72 * box.width / figure.dpi, 72 * box.height / figure.dpi


def fitting_size(points: float, characters: int, largest: float = 9.0) -> float:
    """Font size at which so many characters fit into so many points; never below what can be read.

    Examples
    --------
    >>> fitting_size(62.0, 10, largest=12.0), fitting_size(10.0, 10)
    (10.0, 7.0)
    """
    return float(min(largest, max(SMALLEST, points / (WIDTH * characters))))


def folded(text: str, points: float, size: float) -> str:
    r"""The text in lines that fit into so many points at this font size; words that are too long are broken.

    Examples
    --------
    >>> folded("one two three", 60.0, 10.0)
    'one two\nthree'
    """
    characters = max(1, len(text))
    while characters > 8:
        lines = wrap(text, characters)
        widest = max(_width(line, size) for line in lines)
        if widest <= 0.96 * points:  # hinting may widen letters
            return "\n".join(lines)
        characters = min(characters - 1, int(characters * 0.96 * points / widest))
    return "\n".join(wrap(text, 8))


def _width(line: str, size: float) -> float:
    """Width of a line in points; outlines of letters, which take a hundred times as long to measure, are not made."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    return float(text_to_path.get_text_width_height_descent(line, FontProperties(size=size), ismath=False)[0])


def titled(ax: Axes, text: str, size: float = 11.0, **how: Any) -> None:
    """A title that is no wider than the axes."""
    ax.set_title(folded(text, axes_points(ax)[0], size), fontsize=size, parse_math=False, **how)


def legend_below(ax: Axes) -> None:
    """A legend under the axes and their labels, in as many columns as fit; it never lies on the data."""
    handles, labels = ax.get_legend_handles_labels()
    size = 9.0
    width = axes_points(ax)[0]
    figure = figure_of(ax)
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
    box = ax.xaxis.get_tightbbox(renderer)
    below = 0.0 if box is None else 72 * max(0.0, ax.get_window_extent().y0 - box.y0) / figure.dpi
    lines = [folded(label, width - 5 * size, size) for label in labels]
    for columns in range(min(len(lines), 4), 0, -1):
        legend = ax.legend(handles, lines, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0), fontsize=size,
                           borderaxespad=(below + 3) / size, ncols=columns, columnspacing=1.5)  # fmt: skip
        if 72 * legend.get_window_extent(renderer).width / figure.dpi <= width:
            break


def noted(ax: Axes, text: str) -> None:
    """A line of small print under everything else; the layout keeps room for it.

    Examples
    --------
    >>> from psimil.figures import new_figure
    >>> ax = new_figure()
    >>> noted(ax, "Research use only.")
    >>> ax.figure.get_supxlabel()
    'Research use only.'
    """
    figure_of(ax).supxlabel(text, x=0.01, ha="left", fontsize=SMALLEST)
