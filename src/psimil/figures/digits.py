"""Bags of small images in rows, with what the model says under each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.figures.bag import bag_position, bag_table
from psimil.figures.canvas import RED, axes_or_new
from psimil.figures.lettering import axes_points, figure_of, fitting_size, folded, titled
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from psimil.predictive.prediction import Prediction

ROW = 1.75  # height of a row in widths of an image: image and three lines of text
HEAD = 0.4  # and of a line of words above a bag
BROADEST = 12  # images side by side in a new figure
CELL, LARGEST = 40.0, 80.0  # points of an image: at least, for the text under it, and at most
LETTERS = 9.0  # points of the words above a bag
GAP = 0.12  # between images


def digits_table(prediction: Prediction, bags: Sequence[Any], truth: Sequence[ArrayLike] | None = None) -> pd.DataFrame:
    """One row per image: probability, standard deviation, interval, call, and those of its bag.

    Parameters
    ----------
    prediction : of ``predict_dist``.
    bags : positions of bags, or their ids in text.
    truth : per bag (n,) instance labels, -1 for unknown.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> digits_table(prediction, [0, 3]).columns.tolist()
    ['bag', 'instance', 'prob', 'std', 'lower', 'upper', 'novelty', 'predicted', 'bag_prob', 'bag_std', 'bag_reason']
    """
    import pandas as pd

    if not len(bags) or (truth is not None and len(truth) != len(bags)):
        raise InputError(f"{len(bags)} bags but truth for {0 if truth is None else len(truth)}; name at least one bag.")
    frames = []
    for place, bag in enumerate(bags):
        frame = bag_table(prediction, bag, None if truth is None else truth[place])
        b = bag_position(prediction.ids, bag)
        frame["predicted"] = prediction.instance_label[prediction.instances_of(b)]
        of_bag = {"bag_prob": prediction.prob[b], "bag_std": prediction.std[b], "bag_reason": str(prediction.reason[b])}
        frames.append(frame.assign(**of_bag))
    return pd.concat(frames, ignore_index=True)


def plot_digits(
    images: Sequence[ArrayLike],
    prediction: Prediction,
    bags: Sequence[Any],
    truth: Sequence[ArrayLike] | None = None,
    *,
    ax: Axes | None = None,
) -> Axes:
    """Bags below each other, images side by side; true positives are framed red, called ones say "positive".

    A bag with more images than fit side by side goes on in the next row. A figure that holds nothing else grows in
    height until every text can be read.

    Parameters
    ----------
    images : per bag (n, height, width), the larger a value, the brighter.
    prediction, bags, truth : see :func:`digits_table`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> from psimil.figures import new_figure
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> len(plot_digits(np.zeros((2, 4, 8, 8)), prediction, [0, 3], ax=new_figure()).images)
    8
    """
    table = digits_table(prediction, bags, truth)
    groups = [group for _, group in table.groupby(np.cumsum(table["instance"] == 0), sort=False)]
    stacks = [np.asarray(stack) for stack in images]
    if [stack.shape[:1] for stack in stacks] != [(len(group),) for group in groups] or {s.ndim for s in stacks} != {3}:
        sizes = ", ".join(str(len(group)) for group in groups)
        raise InputError(
            f"images have shapes {[s.shape for s in stacks]}, expected (n, height, width) for n = {sizes}."
        )
    most, fresh = max(len(group) for group in groups), ax is None
    ax = axes_or_new(ax, (max(5.0, 0.95 * min(most, BROADEST) + 0.4), 2.0))
    width = axes_points(ax)[0]
    columns = min(most, BROADEST if fresh else max(1, int(width / CELL)))
    rows = [-(-len(group) // columns) for group in groups]
    words = [folded(f"Bag {bag_words(group)}", width, LETTERS) for group in groups]
    height = sum(rows) * ROW + HEAD * sum(text.count("\n") + 1 for text in words)
    cell = _cell(ax, min(width / columns, LARGEST), height, fresh)
    size, top = fitting_size(0.95 * cell, 8), 0.0
    for stack, group, needed, text in zip(stacks, groups, rows, words, strict=True):
        top -= HEAD * (text.count("\n") + 1)
        ax.text(0.0, top + 0.08, text, fontsize=min(LETTERS, 1.2 * size), va="bottom", parse_math=False)
        for row in range(needed):
            shown = slice(row * columns, (row + 1) * columns)
            _row(ax, stack[shown], group[shown], top - ROW * row, size, (float(stack.min()), float(stack.max())))
        top -= ROW * needed
    ax.set(xlim=(-0.05, max(columns, width / cell)), ylim=(top, 0.0), aspect="equal")
    ax.set_axis_off()
    titled(ax, "Probability ± standard deviation per instance; red frame: truly positive", size=LETTERS)
    return ax


def _cell(ax: Axes, broad: float, height: float, fresh: bool) -> float:
    """Points per image, ``broad`` at most, when ``height`` of them above each other are to fit; a figure may grow."""
    figure = figure_of(ax)
    room = axes_points(ax)[1] - 2 * LETTERS  # a title comes
    wanted = broad if fresh else min(broad, CELL)
    if (fresh or room / height < wanted) and len(figure.axes) == 1:
        inches = figure.get_size_inches()
        figure.set_size_inches(inches[0], inches[1] + (wanted * height - room) / 72)
        room = wanted * height
    return float(min(broad, room / height))


def bag_words(group: pd.DataFrame) -> str:
    """Id, probability and standard deviation of the bag whose rows these are, and why it is to be referred."""
    bag, prob, std, why = (group[name].iloc[0] for name in ("bag", "bag_prob", "bag_std", "bag_reason"))
    return f"{bag}: probability {prob:.3f} ± {std:.3f}" + (f"; to refer: {why}" if why else "")


def _row(
    ax: Axes, stack: NDArray[Any], group: pd.DataFrame, top: float, size: float, limits: tuple[float, float]
) -> None:
    from matplotlib.patches import Rectangle

    known = group["truth"] if "truth" in group else [-1] * len(group)
    lines = zip(stack, group["prob"], group["std"], group["predicted"], known, strict=True)
    for n, (image, prob, std, predicted, label) in enumerate(lines):
        left, right, bottom = n, n + 1 - GAP, top - 1 + GAP
        ax.imshow(image, cmap="gray", vmin=limits[0], vmax=limits[1], extent=(left, right, bottom, top), aspect="auto")
        if label == 1:
            ax.add_patch(Rectangle((left, bottom), 1 - GAP, 1 - GAP, fill=False, edgecolor=RED, linewidth=3))
        text = f"{prob:.3f}\n± {std:.3f}" + ("\npositive" if predicted else "")
        weight = "bold" if predicted else "normal"
        ax.text((left + right) / 2, bottom - 0.07, text, ha="center", va="top", fontsize=size, weight=weight)
