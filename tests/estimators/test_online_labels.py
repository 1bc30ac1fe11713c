"""Batches that arrive later change calibration and thresholds only when they hold enough bags of each label."""

from functools import cache

import numpy as np
import pytest

from psimil import HyperbolicSecant
from psimil.inference import online
from psimil.inference.online import ENOUGH, Online
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision
from psimil.model.bags import Bags
from tiny import problem, quick


@cache
def model():
    bags, y, _ = problem()
    return quick(tol=1.0, calibrate=False).fit(bags, y).model_


@pytest.mark.parametrize(
    ("negative", "positive", "teaches"),
    [
        (ENOUGH, ENOUGH, True),
        (ENOUGH, ENOUGH - 1, False),
        (ENOUGH - 1, ENOUGH, False),
        (ENOUGH - 1, 3 * ENOUGH, False),
        (3 * ENOUGH, 0, False),
    ],
)
def test_enough_bags_of_both_labels_teach(monkeypatch, negative, positive, teaches):
    called = []
    monkeypatch.setattr(online, "taught", lambda model, unseen, options: called.append(len(unseen.T)) or model)
    T = np.repeat([0, 1], [negative, positive])
    bags = Bags.from_list(list(np.random.default_rng(0).normal(size=(len(T), 2, 3))))
    Online(model(), 24.0).learn(bags, Supervision(T, np.ones(len(T))), Options(HyperbolicSecant()))
    assert called == ([len(T)] if teaches else [])
