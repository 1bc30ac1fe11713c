"""A scan as a strip of slices, with the probability of each and its uncertainty below."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from psimil.figures.canvas import BLUE, RED, axes_or_new
from psimil.figures.digits import bag_words, digits_table
from psimil.figures.lettering import axes_points, fitting_size, folded, legend_below, titled
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from psimil.predictive.prediction import Prediction

FLAT = 5.0  # width of a new figure's strip by height of the band of probabilities
FEWEST = 8  # slices there is room for
WIDEST = 16.0  # inches of a new figure
GAP = 0.1  # between band and slices, in units of probability


def strip_table(prediction: Prediction, bag: Any, truth: ArrayLike | None = None) -> pd.DataFrame:
    """One row per slice in the order of the bag: probability, standard deviation, interval, call, truth if given.

    Parameters
    ----------
    prediction : of ``predict_dist``.
    bag : position of the bag, or its id in text; its instances are in axial order.
    truth : (n,) slice labels, -1 for unknown.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> len(strip_table(prediction, 3))
    4
    """
    return digits_table(prediction, [bag], None if truth is None else [truth])


def plot_strip(
    prediction: Prediction,
    bag: Any,
    truth: ArrayLike | None = None,
    images: ArrayLike | None = None,
    *,
    edges: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Slices in a row above the band of their probabilities; slices known to be positive are framed red.

    Parameters
    ----------
    prediction, bag, truth : see :func:`strip_table`.
    images : (n, height, width) grey or (n, height, width, 3) colour slices; None draws cells that are the brighter, the
        more probable the slice.
    edges : which side of the patient is at which edge of the images, see :func:`psimil.results.edges.edge_words`.
    ax : where to draw; a new figure when None, wide enough for the slices.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> from psimil.figures import new_figure
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> len(plot_strip(prediction, 3, ax=new_figure()).images)
    4
    """
    table = strip_table(prediction, bag, truth)
    n = len(table)
    width = min(max(8.0, 0.3 * n), WIDEST)
    ax = axes_or_new(ax, (width, (width - 0.8) / FLAT * (1.0 + GAP + 1.2 * FLAT / max(n, FEWEST)) + 2.4))
    room = axes_points(ax)[0]
    size = fitting_size(room / max(n, FEWEST), 2, largest=8.0)
    broad = max(n, FEWEST)
    step = max(1.35, 0.66 * len(str(n)) + 0.5) * size * broad / room
    every = range(0, n, math.ceil(step))  # slices that have a number: those there is room for
    prob, std = table["prob"].to_numpy(), table["std"].to_numpy()
    low, high = np.maximum(prob - std, 0.0), np.minimum(prob + std, 1.0)
    ax.bar(range(n), high - low, 1.0, low, color=BLUE, alpha=0.3, linewidth=0, label="± one standard deviation")
    ax.plot(range(n), prob, color=BLUE, marker="o", markersize=3, label="probability")
    limit = f"instance threshold {prediction.instance_threshold:.3g}"
    ax.axhline(prediction.instance_threshold, color="grey", linestyle="--", linewidth=1, label=limit)
    ax.set_xticks(every, [f"{prob[k]:.2f} ± {std[k]:.2f}" for k in every], rotation=90, fontsize=size)
    for tick, place in zip(ax.get_xticklabels(), every, strict=True):
        tick.set_fontweight("bold" if table["predicted"].iloc[place] else "normal")
    ax.set_yticks([0.0, 0.5, 1.0])
    edge = max(0.6, 3.0 * broad / room)  # room for a marker
    ax.set(xlim=((n - broad) / 2 - edge, (n + broad) / 2 - 1 + edge))
    words = "slices in axial order: probability ± standard deviation, bold when called positive"
    words += f"; {edges}" if edges else ""
    ax.set_xlabel(folded(words, room, 9.0), fontsize=9.0)
    ax.set_ylabel("probability")
    title = f"Scan {bag_words(table)}" + (" (cells: the brighter, the more probable)" if images is None else "")
    titled(ax, title, pad=1.5 * size + 3)
    legend_below(ax)  # first of all for its room: slices are square in what it leaves
    _slices(ax, table, images)
    legend_below(ax)
    for place in every:
        ax.annotate(str(table["instance"].iloc[place] + 1), (place, 1.0), (0, 1), ("data", "axes fraction"),
                    textcoords="offset points", ha="center", va="bottom", fontsize=size)  # fmt: skip
    return ax


def _slices(ax: Axes, table: pd.DataFrame, images: ArrayLike | None) -> None:
    """Slices above the band, square where the axes have room for that."""
    from matplotlib.patches import Rectangle

    n, bottom = len(table), 1.0 + GAP
    shown = table["prob"].to_numpy()[:, None, None] if images is None else np.asarray(images)
    if shown.ndim not in (3, 4) or len(shown) != n:
        raise InputError(f"images have shape {shown.shape}, expected ({n}, height, width) or ({n}, height, width, 3).")
    side = _room(ax, max(n, FEWEST))
    limits = (0.0, 1.0) if images is None else (float(shown.min()), float(shown.max()))
    colours = "cividis" if images is None else "gray"
    for place, picture in enumerate(shown):
        extent = (place - 0.47, place + 0.47, bottom + 0.03 * side, bottom + 0.97 * side)
        ax.imshow(picture, cmap=colours, vmin=limits[0], vmax=limits[1], extent=extent, aspect="auto")
    known = table["truth"] if "truth" in table else [-1] * n
    positives = [place for place, label in enumerate(known) if label == 1]
    for place in positives:
        label = "known positive" if place == positives[0] else None
        frame = Rectangle((place - 0.46, bottom + 0.04 * side), 0.92, 0.92 * side, fill=False, edgecolor=RED,
                          linewidth=2, label=label)  # fmt: skip
        ax.add_patch(frame)


def _room(ax: Axes, n: int) -> float:
    """Make room for square slices, n of them side by side, above the band; their height in units of probability."""
    width, height = axes_points(ax)
    share = min(width / (n + 0.2) / height, 0.5)  # of the axes' height
    below = 1.0 + GAP + 0.04
    side = share * below / (1.0 - share)
    ax.set_ylim(-0.04, 1.0 + GAP + side)
    return float(side)
