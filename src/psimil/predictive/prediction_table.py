"""The numbers that a prediction gives for bags and for instances, in one list, and the tables made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

if TYPE_CHECKING:
    import pandas as pd

    from psimil.predictive.prediction import Prediction
    from psimil.predictive.thresholds import InstanceRecalibration

OF_BOTH = ("prob", "std", "lower", "upper", "log_odds", "label")
OF_BAGS = (*OF_BOTH, "refer", "reason", "novelty", "novel")
OF_INSTANCES = (*(f"instance_{name}" for name in OF_BOTH), "latent_mean", "latent_variance", "instance_novelty",
                "instance_novel")  # fmt: skip


def numbers_of(found: Prediction, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """The columns of these names, without "instance_"; a reader of one row takes the same element of each."""
    columns = {name.removeprefix("instance_"): getattr(found, name) for name in names}
    return {name: column for name, column in columns.items() if column is not None}


def estimate(found: Prediction, bag: int, instance: int | None = None) -> dict[str, Any]:
    """The numbers of one bag, or of one of its instances, by name: what worklists, reports and pages show.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=8, seed=1)
    >>> found = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).predict_dist(bags)
    >>> estimate(found, 3)["prob"] == float(found.prob[3]), "reason" in estimate(found, 3, instance=0)
    (True, False)
    """
    if instance is None:
        return {name: column[bag].item() for name, column in found.bag_numbers.items()}
    row = int(found.offsets[bag]) + instance
    return {name: column[row].item() for name, column in found.instance_numbers.items()}


def bag_table(found: Prediction) -> pd.DataFrame:
    """(B rows) what :meth:`psimil.predictive.prediction.Prediction.to_frame` gives for bags."""
    import pandas as pd

    columns = {"bag": found.ids} | found.bag_numbers
    columns["reason"] = columns["reason"].astype(np.object_)
    del columns["novel"]
    return pd.DataFrame(columns if found.joint_std is None else columns | {"joint_std": found.joint_std})


def instance_table(found: Prediction, recalibration: InstanceRecalibration | None = None) -> pd.DataFrame:
    """(N rows) the same for instances, with their probabilities and intervals through ``recalibration``, if given."""
    import pandas as pd

    sizes = np.diff(found.offsets)
    columns = {"bag": np.repeat(found.ids, sizes), "instance": np.concatenate([np.arange(n) for n in sizes])}
    columns |= found.instance_numbers
    del columns["novel"]
    if recalibration is not None:
        ends = {name: recalibration.apply(logit(columns[name])) for name in ("lower", "upper")}
        columns |= {"prob": recalibration.apply(found.instance_log_odds), **ends}
    frame = pd.DataFrame(columns)
    return frame if found.rows is None else frame.iloc[np.argsort(found.rows)].reset_index(drop=True)
