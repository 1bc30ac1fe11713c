"""skops keeps fitted models; the list of our types is all that it needs to be told, and nothing else is let in."""

from importlib import import_module

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from psimil import GVGPMIL, VGPMIL, PsiVGPMIL, instancewise
from psimil.estimators.multilabel import MultiLabelMIL
from psimil.export.trusted_types import TRUSTED_TYPES
from psimil.model.densities import SmoothLaplace, StudentT
from psimil.model.kernels.base import Constant, Linear
from psimil.model.kernels.stationary import Matern32, Matern52
from tiny import problem

io = pytest.importorskip("skops.io")
HOW = {"n_inducing": 5, "max_iter": 2, "tol": 0.0, "random_state": 0}
MODELS = {
    "default": VGPMIL(**HOW),
    "gamma": GVGPMIL(**HOW),
    "student": PsiVGPMIL(density=StudentT(), **HOW),
    "laplace": PsiVGPMIL(density=SmoothLaplace(), **HOW),
    "sampled": VGPMIL(posterior="sampled", **HOW),
    "chain": VGPMIL(labels="chain", **HOW),
    "context": VGPMIL(context="bag", **HOW),
    "calibrated": VGPMIL(calibrate=True, **HOW),
    "referred": VGPMIL(referral="error=0.1", **HOW),
    "Matern 3/2": VGPMIL(kernel=Matern32() + Linear(1.0), **HOW),
    "Matern 5/2": VGPMIL(kernel=Matern52() + Constant(1.0), **HOW),
    "paper": GVGPMIL.preset("paper", n_inducing=5, max_iter=2),
    "published": GVGPMIL.preset("published", n_inducing=5, max_iter=2),
    "pipeline": make_pipeline(instancewise(StandardScaler()), VGPMIL(**HOW)),
    "several labels": MultiLabelMIL(VGPMIL(**HOW)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_is_kept_by_skops(name):
    bags, y, _ = problem()
    model = MODELS[name].fit(bags, np.column_stack([y, 1 - y]) if name == "several labels" else y)
    data = io.dumps(model)
    assert set(io.get_untrusted_types(data=data)) <= set(TRUSTED_TYPES)
    again = io.loads(data, trusted=TRUSTED_TYPES)
    assert np.array_equal(again.predict_proba(bags), model.predict_proba(bags))


def test_models_that_learned_online_are_kept():
    bags, y, _ = problem()
    model = VGPMIL(**HOW).partial_fit(bags, y)
    again = io.loads(io.dumps(model), trusted=TRUSTED_TYPES)
    assert np.array_equal(again.predict_proba(bags), model.predict_proba(bags))


def test_other_types_are_let_in_by_nobody():
    class Own(VGPMIL):
        pass

    bags, y, _ = problem()
    data = io.dumps(Own(**HOW).fit(bags, y))
    with pytest.raises(Exception, match="Own"):
        io.loads(data, trusted=TRUSTED_TYPES)


@pytest.mark.parametrize("name", TRUSTED_TYPES)
def test_the_list_names_types_that_are_there(name):
    module, _, kind = name.rpartition(".")
    assert isinstance(getattr(import_module(module), kind), type)
