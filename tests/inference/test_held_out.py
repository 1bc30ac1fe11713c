"""When a fit holds bags out by refits, and which inducing points a fold has."""

from dataclasses import replace

import numpy as np
import pytest

from fits import BALANCED, fit_of
from psimil.inference import training
from psimil.inference.ascent import ascend
from psimil.inference.prediction import BagLayout


@pytest.fixture
def held_out(monkeypatch):
    """Whether out-of-bag moments come from refits, and the sparse GP of a fold."""

    def held_out(**choices):
        fit, state = fit_of(**choices)
        record, shard = next(ascend(fit.shards, state)), fit.shards
        N, unseen, rebuilt = len(shard.X), [], []
        part = replace(shard, X=shard.X[:8], labels=shard.labels.chunk(0, 4), weights=shard.weights[:4])

        def cross_fit(given, rebuild):
            assert given is shard
            rebuilt.append(rebuild(part))
            return np.full(N, 2.0), np.full(N, 3.0)

        monkeypatch.setattr(training, "cross_fit", cross_fit)
        monkeypatch.setattr(training, "taught", lambda model, latent, options: unseen.append(latent))
        layout = BagLayout(np.arange(N // 2), shard.labels.offsets)
        found, [latent] = fit.finish(record, layout, None), unseen
        assert (latent.mean == 2.0).all() == (latent.variance == 3.0).all() == bool(rebuilt)
        assert not (found.loo.latent.mean == 2.0).any()  # what is told of the training bags is leave-one-out
        assert fit._is_refitted(shard.labels.T) == bool(rebuilt)
        return rebuilt[0] if rebuilt else None, record.gp

    return held_out


NOTHING = {"calibrate": False, "threshold": 0.5, "false_positive_rate": None}


@pytest.mark.parametrize(
    "learned", [{"calibrate": True}, {"calibrate": "auto"}, {"threshold": None}, {"false_positive_rate": 0.1}]
)
def test_bags_are_held_out_by_refits_where_something_is_learned_from_them(held_out, learned):
    assert held_out(**{**NOTHING, **learned})[0] is not None
    assert held_out(**NOTHING)[0] is None


def test_nothing_is_held_out_where_a_label_is_rare(held_out):
    assert held_out(T=(0, 1, 0, 1, 1, 1))[0] is None
    assert held_out(T=(0, 1, 0, 1, 0, 0))[0] is None
    assert held_out(T=BALANCED)[0] is not None


def test_many_bags_are_not_refitted(held_out, monkeypatch):
    monkeypatch.setattr(training, "SMALL", len(BALANCED))
    assert held_out()[0] is not None
    monkeypatch.setattr(training, "SMALL", len(BALANCED) - 1)
    assert held_out()[0] is None


def test_a_fold_chooses_its_own_inducing_points_unless_they_are_given(held_out):
    rebuilt, gp = held_out()
    assert rebuilt.kernel == gp.kernel
    assert rebuilt.Z.shape == gp.Z.shape
    assert not np.array_equal(rebuilt.Z, gp.Z)
    rebuilt, gp = held_out(inducing_points=np.ones((5, 2)))
    assert rebuilt is gp
