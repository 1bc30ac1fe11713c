"""The instances of one bag: probability, uncertainty and, where known, the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from psimil.figures.canvas import BLUE, RED, axes_or_new
from psimil.figures.lettering import axes_points, legend_below, titled
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from psimil.predictive.prediction import Prediction


NUMBERS = ("prob", "std", "lower", "upper", "novelty")
MANY = 25  # instances above which error bars have no caps and not every instance has a number


def bag_table(prediction: Prediction, bag: Any, truth: ArrayLike | None = None) -> pd.DataFrame:
    """One row per instance of the bag, in the order of the bag.

    Parameters
    ----------
    prediction : of ``predict_dist``.
    bag : position of the bag, or its id in text.
    truth : (n,) instance labels, -1 for unknown.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> bag_table(prediction, 3).columns.tolist()
    ['bag', 'instance', 'prob', 'std', 'lower', 'upper', 'novelty']
    """
    import pandas as pd

    b = bag_position(prediction.ids, bag)
    rows = prediction.instances_of(b)
    n = rows.stop - rows.start
    numbers = {name: prediction.instance_numbers[name][rows] for name in NUMBERS if name in prediction.instance_numbers}
    frame = pd.DataFrame({"bag": [prediction.ids[b]] * n, "instance": range(n)} | numbers)
    if truth is not None:
        known = np.asarray(truth)
        if known.shape != (n,):
            raise InputError(f"bag {prediction.ids[b]} has {n} instances but truth has shape {known.shape}.")
        frame["truth"] = known
    return frame


def plot_bag(prediction: Prediction, bag: Any, truth: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """Probability of each instance with its credible interval; instances known to be positive are framed red.

    Parameters
    ----------
    prediction : of ``predict_dist``.
    bag : position of the bag, or its id in text.
    truth : (n,) instance labels, -1 for unknown.
    ax : where to draw; a new figure when None.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> from psimil.figures import new_figure
    >>> bags, y, y_instances = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> plot_bag(prediction, 3, y_instances[12:16], ax=new_figure()).get_ylabel()
    'probability'
    """
    table = bag_table(prediction, bag, truth)
    ax = axes_or_new(ax)
    ax.bar(table["instance"], table["prob"], color=BLUE, alpha=0.55, width=0.8, label="probability")
    gaps = [np.maximum(table["prob"] - table["lower"], 0.0), np.maximum(table["upper"] - table["prob"], 0.0)]
    few = len(table) <= MANY
    middle, half = (len(table) - 1) / 2, max(len(table), 4) / 2 + 0.1
    ax.errorbar(table["instance"], table["prob"], gaps, fmt="none", ecolor="black", capsize=3 if few else 0,
                linewidth=1.2 if few else 0.5, label=f"{prediction.level:.0%} interval")  # fmt: skip
    ax.axhline(prediction.instance_threshold, color="grey", linestyle="--", linewidth=1, label="instance threshold")
    b = bag_position(prediction.ids, bag)
    title = f"Bag {prediction.ids[b]}: probability {prediction.prob[b]:.3f}, standard deviation {prediction.std[b]:.3f}"
    title += f"; to refer: {prediction.reason[b]}" if prediction.refer[b] else ""
    ax.set(xlabel="instance", ylabel="probability", xlim=(middle - half, middle + half), ylim=(-0.03, 1.03))
    if truth is not None:
        _frame(ax, [n for n, known in zip(table["instance"], table["truth"], strict=True) if known == 1])
    if few:
        ax.set_xticks(range(len(table)))
    titled(ax, title)
    legend_below(ax)
    return ax


def _frame(ax: Axes, positives: Sequence[int]) -> None:
    low, high = ax.get_xlim()
    broad = max(0.4, min(2.0, 0.12 * axes_points(ax)[0] / (high - low)))
    for n in positives:
        label = "positive" if n == positives[0] else None
        ax.bar(n, 1.0, width=0.92, fill=False, edgecolor=RED, linewidth=broad, label=label)


def bag_position(ids: Any, bag: Any) -> int:
    """The position of a bag among the ids (B,), from a position, also a negative one, or from its id in text."""
    if isinstance(bag, str):
        places = np.flatnonzero(np.asarray(ids).astype(str) == bag)
        if len(places) != 1:
            raise InputError(f"the prediction has no bag {bag!r}.")
        return int(places[0])
    if isinstance(bag, bool) or not isinstance(bag, (int, np.integer)):
        raise InputError(f"bag must be a position or an id in text, got {bag!r}.")
    if not -len(ids) <= int(bag) < len(ids):
        raise InputError(f"bag {bag} asked but the prediction has {len(ids)} bags.")
    return int(bag) % len(ids)
