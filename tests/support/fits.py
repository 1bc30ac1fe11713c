"""One call of train before it begins, on a small problem."""

import numpy as np

from problems import make
from psimil import Bags, HyperbolicSecant, PsiVGPMIL
from psimil.estimators.parameters import options_of
from psimil.inference.algorithm import Variational
from psimil.inference.history import History
from psimil.inference.options import Execution
from psimil.inference.preparation import Prepared, Supervision
from psimil.inference.training import Fit
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState
from psimil.paper.augmented import Augmented

ALGORITHMS = {"augmented": Augmented, "variational": Variational}
BALANCED = (0, 1, 0, 1, 0, 1)


def fit_of(T=BALANCED, callbacks=(), M=5, seed=0, **choices):
    """A fit, and the state it begins with."""
    density = choices.pop("density", HyperbolicSecant())
    shard, gp = make(sizes=(2,) * len(T), T=T, M=M, density=density)
    options = options_of(PsiVGPMIL(**choices).get_params(deep=False) | {"density": density}, 2)
    prepared = Prepared(Scaling.identity(2), gp, shard)
    rng = np.random.default_rng(0)
    return Fit(prepared, options, History(callbacks, []), None, Execution(), rng, seed), KernelState.first(gp)


def learned(fit, state):
    """The record that ends kernel and passes."""
    labels = fit.shards.labels
    return fit.rest(fit.begin(state, Bags(fit.shards.X, labels.offsets), Supervision(labels.T, fit.shards.weights)))


def watched(fit, state):
    """The record that ends the passes of a kernel that is kept."""
    return fit._watch(fit._passes(state, "fit"), "fit")
