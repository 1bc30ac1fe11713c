"""What a fit derives from its options."""

import numpy as np
import pytest

from psimil import GammaMixture, HyperbolicSecant
from psimil.inference import training
from psimil.inference.ascent import KernelState
from psimil.inference.execution import Execution
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision, prepare_in_memory, prepare_streamed
from psimil.inference.training import Fit
from tiny import problem


def fit_of(density=HyperbolicSecant(), **choices):  # noqa: B008 - frozen
    """A fit of the small problem that has only been prepared."""
    bags, y, _ = problem()
    options, rng = Options(density, n_inducing=4, max_iter=1, **choices), np.random.default_rng(0)
    prepared = prepare_in_memory(bags, Supervision(y, np.ones(len(y))), options, rng, None)
    return Fit(prepared, options, (), None, Execution(), rng, 0)


@pytest.mark.parametrize(("H", "log_H"), [(100.0, 4.605170185988092), (np.inf, np.inf)])
def test_only_the_logarithm_of_h_is_carried(H, log_H):
    assert fit_of(H=H).shards.labels.log_H == pytest.approx(log_H)
    bags, y, _ = problem()
    options = Options(HyperbolicSecant(), n_inducing=4, H=H)
    streamed = prepare_streamed(bags, Supervision(y, np.ones(len(y))), options, np.random.default_rng(0))
    assert streamed.shards.labels.log_H == pytest.approx(log_H)


@pytest.mark.parametrize(
    ("density", "hyperparameters", "log_z", "expected"),
    [
        (HyperbolicSecant(), "collapsed", "logistic", False),
        (GammaMixture(), "collapsed", "logistic", True),
        (GammaMixture(), "loo", "logistic", True),
        (GammaMixture(), "collapsed", "jensen", False),
        (GammaMixture(), None, "logistic", False),
    ],
)
def test_a_density_without_known_log_z_learns_its_kernel_on_the_logistic_model(
    monkeypatch, density, hyperparameters, log_z, expected
):
    original, begun = Fit._passes, []

    def passes(fit, shards, state, step, pi, stage):
        begun.append((stage, shards.density, step is not None))
        return original(fit, shards, state, step, pi, stage)

    monkeypatch.setattr(Fit, "_passes", passes)
    for rivals in ("guard_kernel", "search_kernel"):
        monkeypatch.setattr(training, rivals, lambda record, shard, aggregate: record.gp)
    fit = fit_of(density, hyperparameters=hyperparameters, log_z=log_z)
    fit.learn(KernelState.first(fit.prepared.gp), None)
    first = [("kernel", HyperbolicSecant(), True)] if expected else []
    assert begun == [*first, ("fit", density, hyperparameters is not None and not expected)]


def test_nothing_is_refitted_when_nothing_is_learned_from_it():
    fixed = {"calibrate": False, "threshold": 0.5, "false_positive_rate": None}
    _, y, _ = problem()
    assert not fit_of(**fixed)._is_refitted(y)
    for name, value in {"calibrate": "auto", "threshold": None, "false_positive_rate": 0.1}.items():
        assert fit_of(**{**fixed, name: value})._is_refitted(y)
