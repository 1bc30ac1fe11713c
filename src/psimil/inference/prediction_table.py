"""A prediction as tables: one row per bag, or one per instance in the caller's row order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit

if TYPE_CHECKING:
    import pandas as pd

    from psimil.inference.prediction import Prediction
    from psimil.inference.thresholds import InstanceRecalibration


def bag_table(found: Prediction) -> pd.DataFrame:
    """(B rows) what :meth:`psimil.inference.prediction.Prediction.to_frame` gives for bags."""
    import pandas as pd

    columns = {
        "bag": found.ids,
        "prob": found.prob,
        "std": found.std,
        "lower": found.lower,
        "upper": found.upper,
        "log_odds": found.log_odds,
        "label": found.label,
        "refer": found.refer,
        "reason": found.reason.astype(np.object_),
        "novelty": found.novelty,
        "joint_std": found.joint_std,
    }
    return pd.DataFrame({name: values for name, values in columns.items() if values is not None})


def instance_table(found: Prediction, recalibration: InstanceRecalibration | None = None) -> pd.DataFrame:
    """(N rows) the same for instances, with their probabilities and intervals through ``recalibration``, if given."""
    import pandas as pd

    sizes = np.diff(found.offsets)
    columns = {
        "bag": np.repeat(found.ids, sizes),
        "instance": np.concatenate([np.arange(n) for n in sizes]),
        "prob": found.instance_prob,
        "std": found.instance_std,
        "lower": found.instance_lower,
        "upper": found.instance_upper,
        "log_odds": found.instance_log_odds,
        "label": found.instance_label,
        "latent_mean": found.latent_mean,
        "latent_variance": found.latent_variance,
    }
    if found.instance_novelty is not None:
        columns["novelty"] = found.instance_novelty
    if recalibration is not None:
        ends = {name: recalibration.apply(logit(columns[name])) for name in ("lower", "upper")}
        columns |= {"prob": recalibration.apply(found.instance_log_odds), **ends}
    frame = pd.DataFrame(columns)
    return frame if found.rows is None else frame.iloc[np.argsort(found.rows)].reset_index(drop=True)
