"""Referral curves before and after: which bags a human reader sees first, and how many errors the others hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import logit

from psimil import VGPMIL
from psimil.datasets import load_cq500, load_rsna, make_bags
from psimil.model.bags import Bags
from psimil.predictive.prediction import Prediction
from psimil.results.referral_curve import area_under_referral, referral_curve

Array = NDArray[Any]

BEFORE, AFTER = "augmented, by interval", "variational, by log-odds"
SYNTHETIC, TRANSFER = "synthetic", "CQ500 to RSNA"


@dataclass(frozen=True)
class ReferralSettings:
    """Training and test bags of synthetic data, how many times, and the points of a curve."""

    training_bags: int = 100
    test_bags: int = 1200
    seeds: int = 5
    separation: float = 2.0
    inducing: int = 100
    shares: int = 50
    seed: int = 2026


def interval_uncertainty(found: Prediction) -> Array:
    """(B,) width of the interval over the distance of the probability from one half, the way of 1.0.0."""
    return (found.upper - found.lower) / np.maximum(np.abs(found.prob - 0.5), 1e-12)


def log_odds_uncertainty(found: Prediction) -> Array:
    """(B,) minus the distance of the log-odds from those of the threshold."""
    return -np.abs(found.log_odds - logit(found.threshold))


RANKINGS = {
    BEFORE: ({"posterior": "augmented", "referral": "interval"}, interval_uncertainty),
    AFTER: ({"posterior": "variational"}, log_odds_uncertainty),
}


def referral_rows(
    directory: str | None, settings: ReferralSettings
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Points of the curves, and one row for each fit: errors, bags that are referred, errors among them, area."""
    curves: list[dict[str, Any]] = []
    fits: list[dict[str, Any]] = []
    for repeat in range(settings.seeds):
        bags, y, _ = make_bags(settings.training_bags + settings.test_bags, separation=settings.separation,
                               seed=settings.seed + repeat)  # fmt: skip
        new = np.arange(len(y)) >= settings.training_bags
        _add(curves, fits, SYNTHETIC, repeat, (bags[~new], y[~new]), (bags[new], y[new]), settings)
    if directory is not None:
        given, new = load_cq500(directory), load_rsna(directory)
        _add(curves, fits, TRANSFER, 0, (given.bags, given.y), (new.bags, new.y), settings)
    return curves, fits


def _add(
    curves: list[dict[str, Any]], fits: list[dict[str, Any]], data: str, repeat: int, train: tuple[Bags, Array],
    test: tuple[Bags, Array], settings: ReferralSettings,
) -> None:  # fmt: skip
    shares = np.linspace(1.0 / settings.shares, 1.0, settings.shares)
    for name, (choices, uncertainty) in RANKINGS.items():
        model = VGPMIL(n_inducing=settings.inducing, random_state=settings.seed, **choices).fit(*train)
        found = model.predict_dist(test[0])
        given = (test[1], found.prob, uncertainty(found), found.threshold)
        wrong = found.label != test[1]
        common = {"data": data, "repeat": repeat, "model": name}
        curve = referral_curve(*given, fractions=shares)
        curves += [{**common, **row} for row in curve[["fraction_kept", "n_kept", "error"]].to_dict("records")]
        fits.append({**common, "test_bags": len(wrong), "errors": int(wrong.sum()), "referred": int(found.refer.sum()),
                     "errors_referred": int((wrong & found.refer).sum()),
                     "area": area_under_referral(*given)})  # fmt: skip


def referral_summary(curves: pd.DataFrame, shares: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3)) -> pd.DataFrame:
    """Mean error among the kept by data, model and share referred."""
    rows = []
    for (data, model), part in curves.groupby(["data", "model"], sort=False):
        mean = part.groupby("fraction_kept")["error"].mean()
        nearest = {share: mean.iloc[np.abs(mean.index.to_numpy() - (1.0 - share)).argmin()] for share in shares}
        rows.append({"data": data, "model": model, **{f"{100 * share:.0f}": nearest[share] for share in shares}})
    return pd.DataFrame(rows)
