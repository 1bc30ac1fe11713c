"""Batches that arrive later: the model goes on learning, and calibration and thresholds with enough of each label."""

from functools import cache

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from psimil import VGPMIL, HyperbolicSecant
from psimil.datasets import make_bags
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


@pytest.mark.parametrize("posterior", ["variational", "augmented"])
def test_bags_that_arrive_over_time_do_no_harm(posterior):
    bags, y, _ = make_bags(n_bags=500, n_features=3, seed=0)
    held, held_y, _ = make_bags(n_bags=500, n_features=3, seed=5)
    model = VGPMIL(n_inducing=20, posterior=posterior, calibrate=False, random_state=0)
    scores = []
    for first in range(0, 500, 100):
        prob = model.partial_fit(bags[first : first + 100], y[first : first + 100]).predict_proba(held)[:, 1]
        scores.append((roc_auc_score(held_y, prob), -log_loss(held_y, prob)))
    assert (np.array(scores[1:]) > np.array(scores[0]) - 0.02).all()
    assert scores[-1][1] > scores[0][1]


@pytest.mark.parametrize(
    ("posterior", "batch_bags"),
    [
        ("variational", 60),
        ("augmented", 10),
        pytest.param("variational", 10, marks=pytest.mark.slow),
        pytest.param("augmented", 60, marks=pytest.mark.slow),
    ],
)
def test_minibatches_come_near_the_bound_of_whole_passes(posterior, batch_bags):
    bags, y, _ = make_bags(n_bags=300, n_features=3, seed=0)
    settings = {"n_inducing": 20, "posterior": posterior, "random_state": 0}
    whole = VGPMIL(**settings).fit(bags, y)
    some = VGPMIL(max_iter=6, tol=0.0, **settings).fit(bags, y, batch_bags=batch_bags)
    assert some.elbo_ > whole.elbo_ - 0.05 * len(bags)
    assert np.abs(some.predict_proba(bags) - whole.predict_proba(bags)).mean() < 0.05
