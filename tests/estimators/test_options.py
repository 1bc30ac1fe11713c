"""What a fit derives from its options."""

import numpy as np
import pytest

from fits import ALGORITHMS
from psimil import GammaMixture, HyperbolicSecant, SmoothLaplace
from psimil.inference import training
from psimil.inference.history import History
from psimil.inference.kernel_learning import learn_kernel
from psimil.inference.options import Execution, Options
from psimil.inference.preparation import Supervision, prepare_in_memory, prepare_streamed
from psimil.inference.training import Fit
from psimil.inference.variational import Iterate
from psimil.model.sparse_gp import KernelState
from psimil.paper.ascent import Pass
from tiny import problem

PASSES = Fit._passes


def fit_of(density=HyperbolicSecant(), **choices):  # noqa: B008 - frozen
    """A fit of the small problem that has only been prepared."""
    bags, y, _ = problem()
    algorithm, rng = ALGORITHMS[choices.get("posterior", "variational")], np.random.default_rng(0)
    options = Options(density, n_inducing=4, max_iter=1, algorithm=algorithm, **choices)
    prepared = prepare_in_memory(bags, Supervision(y, np.ones(len(y))), options, rng, None)
    return Fit(prepared, options, History((), []), None, Execution(), rng, 0)


@pytest.mark.parametrize(("H", "log_H"), [(100.0, 4.605170185988092), (np.inf, np.inf)])
def test_only_the_logarithm_of_h_is_carried(H, log_H):
    assert fit_of(H=H).shards.labels.log_H == pytest.approx(log_H)
    bags, y, _ = problem()
    options = Options(HyperbolicSecant(), n_inducing=4, H=H)
    streamed = prepare_streamed(bags, Supervision(y, np.ones(len(y))), options, np.random.default_rng(0))
    assert streamed.shards.labels.log_H == pytest.approx(log_H)


@pytest.mark.parametrize(
    ("density", "posterior", "hyperparameters", "learned"),
    [
        (HyperbolicSecant(), "variational", "bound", True),
        (SmoothLaplace(), "variational", "bound", True),
        (SmoothLaplace(), "variational", None, False),
        (GammaMixture(), "augmented", "bound", True),
        (GammaMixture(), "augmented", None, False),
    ],
)
def test_a_kernel_is_learned_on_the_logistic_model_before_the_passes_of_any_density(
    monkeypatch, density, posterior, hyperparameters, learned
):
    begun = []

    def learn(shard, gp, *rest, **choices):
        begun.append(("kernel", shard.density))
        return learn_kernel(shard, gp, *rest, **choices)

    def passes(fit, state, stage):
        begun.append((stage, fit.shards.density))
        assert fit.algorithm.last_move is None
        assert (state.gp is fit.prepared.gp) is not learned
        return PASSES(fit, state, stage)

    monkeypatch.setattr(training, "learn_kernel", learn)
    monkeypatch.setattr(Fit, "_passes", passes)
    bags, y, _ = problem()
    fit = fit_of(density, posterior=posterior, hyperparameters=hyperparameters)
    record = fit.rest(fit.begin(KernelState.first(fit.prepared.gp), bags, Supervision(y, np.ones(len(y)))))
    assert begun == [("kernel", HyperbolicSecant())] * learned + [("fit", density)]
    assert isinstance(record, Iterate if posterior == "variational" else Pass)
    assert {row["stage"] for row in fit.history.rows} == ({"kernel", "fit"} if learned else {"fit"})
