"""Bags of small images in rows, with what the model says under each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.figures.bag import bag_table
from psimil.figures.canvas import RED, axes_or_new, fitting_size
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from psimil.inference.prediction import Prediction

ROW = 2.0  # height of a bag in widths of an image: title, image, three lines of text
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
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> digits_table(prediction, [0, 3]).columns.tolist()
    ['bag', 'instance', 'prob', 'std', 'lower', 'upper', 'predicted', 'bag_prob', 'bag_std']
    """
    import pandas as pd

    if not len(bags) or (truth is not None and len(truth) != len(bags)):
        raise InputError(f"{len(bags)} bags but truth for {0 if truth is None else len(truth)}; name at least one bag.")
    frames = []
    for place, bag in enumerate(bags):
        frame = bag_table(prediction, bag, None if truth is None else truth[place])
        b = int(np.flatnonzero(prediction.ids == frame["bag"].iloc[0])[0])
        frame["predicted"] = (frame["prob"] >= prediction.instance_threshold).astype(int)
        frames.append(frame.assign(bag_prob=prediction.prob[b], bag_std=prediction.std[b]))
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

    Parameters
    ----------
    images : per bag (n, height, width), the larger a value, the brighter.
    prediction, bags, truth : see :func:`digits_table`.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> from psimil.figures import new_figure
    >>> bags, y, _ = make_bags(n_bags=10, bag_size=(4, 4), seed=0)
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
    columns = max(len(group) for group in groups)
    ax = axes_or_new(ax, (0.95 * columns + 0.4, 0.95 * ROW * len(groups) + 0.4))
    size = fitting_size(ax, columns, 8)
    for row, (stack, group) in enumerate(zip(stacks, groups, strict=True)):
        top = -row * ROW
        _row(ax, stack, group, top, size)
        ax.text(0.0, top + 0.08, f"Bag {bag_words(group)}", fontsize=1.2 * size, va="bottom", parse_math=False)
    ax.set(xlim=(-0.05, columns), ylim=(-ROW * (len(groups) - 1) - ROW + 0.3, 0.38), aspect="equal")
    ax.set_title("Probability ± standard deviation per instance; red frame: truly positive", fontsize=1.2 * size)
    ax.set_axis_off()
    return ax


def bag_words(group: pd.DataFrame) -> str:
    """Id, probability and standard deviation of the bag whose rows these are."""
    bag, prob, std = (group[name].iloc[0] for name in ("bag", "bag_prob", "bag_std"))
    return f"{bag}: probability {prob:.3f} ± {std:.3f}"


def _row(ax: Axes, stack: NDArray[Any], group: pd.DataFrame, top: float, size: float) -> None:
    from matplotlib.patches import Rectangle

    darkest, brightest = float(stack.min()), float(stack.max())
    known = group["truth"] if "truth" in group else [-1] * len(group)
    lines = zip(stack, group["prob"], group["std"], group["predicted"], known, strict=True)
    for n, (image, prob, std, predicted, label) in enumerate(lines):
        left, right, bottom = n, n + 1 - GAP, top - 1 + GAP
        ax.imshow(image, cmap="gray", vmin=darkest, vmax=brightest, extent=(left, right, bottom, top), aspect="auto")
        if label == 1:
            ax.add_patch(Rectangle((left, bottom), 1 - GAP, 1 - GAP, fill=False, edgecolor=RED, linewidth=3))
        text = f"{prob:.3f}\n± {std:.3f}" + ("\npositive" if predicted else "")
        weight = "bold" if predicted else "normal"
        ax.text((left + right) / 2, bottom - 0.07, text, ha="center", va="top", fontsize=size, weight=weight)
