"""Every estimator of the package keeps the contract of psimil.testing."""

import pickle
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

from psimil import GVGPMIL, RBF, VGPMIL, GammaMixture, HyperbolicSecant, PsiVGPMIL
from psimil.paper.baselines import AttentionMIL, BagForest, BagSVM, MeanPooling, Smoothing
from psimil.testing import check_mil_estimator, mil_checks

pytestmark = pytest.mark.usefixtures("one_torch_thread")

POINTS = np.array(
    [[0, 0, 0], [0, 0, 4], [1, -1, 0], [-1, 1, 4], [1, 1, 2], [-1, -1, 2], [0.5, -0.5, 5], [-0.5, 0.5, -1]], dtype=float
)
QUICK = {
    "n_inducing": 8,
    "max_iter": 3,
    "tol": 0.0,
    "kernel": RBF(4.0),
    "hyperparameters": None,
    "calibrate": False,
    "threshold": 0.5,
    "false_positive_rate": None,
    "random_state": 0,
}
# The two densities that press latent means together need calibration for noisy-or to rank by more than bag size.
DENSITIES = {
    "secant": (HyperbolicSecant(), "noisy_or"),
    "gamma(.5,1)": (GammaMixture(0.5, 1.0), "max"),
    "gamma(1,1)": (GammaMixture(1.0, 1.0), "max"),
    "gamma(1,4)": (GammaMixture(1.0, 4.0), "noisy_or"),
}
OURS = {
    f"{name}-{dtype}-{'points' if points is not None else 'kmeans'}": PsiVGPMIL(
        density=density, aggregate=aggregate, dtype=dtype, inducing_points=points, **QUICK
    )
    for name, (density, aggregate) in DENSITIES.items()
    for dtype in ("float64", "float32")
    for points in (None, POINTS)
}
OFTEN = ("gamma(.5,1)-float64-points",)
AT_ONCE = "gamma(1,4)-float32-points"  # with OFTEN and NAMED every density, dtype and choice
NAMED = {
    "VGPMIL": VGPMIL(aggregate="noisy_or", **QUICK),
    "GVGPMIL": GVGPMIL(aggregate="max", inducing_points=POINTS, **QUICK),
}
BASELINES = {
    "BagSVM": BagSVM(random_state=0),
    "BagForest": BagForest(n_estimators=10, random_state=0),
    "MeanPooling": MeanPooling(),
    "AttentionMIL": AttentionMIL(hidden=8, attention=4, epochs=5, learning_rate=0.05, random_state=0),
}
ORDERED = {"smooth AttentionMIL": clone(BASELINES["AttentionMIL"]).set_params(smoothing=Smoothing(), epochs=30)}
RARER = {  # what a user gets without choosing, and the other ways to learn and to stream
    "VGPMIL as it comes": VGPMIL(n_inducing=6, max_iter=4, tol=0.0, random_state=0),
    "GVGPMIL as it comes": GVGPMIL(n_inducing=6, max_iter=4, tol=0.0, random_state=0),
    "streamed": PsiVGPMIL(**QUICK, chunk_size=5, aggregate="max", residual="full", posterior="augmented"),
    "mean field": PsiVGPMIL(**QUICK, posterior="augmented", label_posterior="mean_field", H=100.0),
    "greedy": PsiVGPMIL(**QUICK, inducing="greedy_variance", mean="zero"),
}
BESIDE = {
    "in context": PsiVGPMIL(**QUICK, context="bag"),
    "judged": VGPMIL(n_inducing=6, max_iter=4, tol=0.0, context="auto", random_state=0),
}
LOST_IN_CONTEXT = "check_more_instances_never_lower_a_bag"  # one more instance changes what the others are seen beside


def needs_torch(name):
    missing = name.endswith("AttentionMIL") and find_spec("torch") is None
    return [pytest.mark.skipif(missing, reason="needs torch")]


def cases(estimators, *marks, **flags):
    return [
        pytest.param(check, id=f"{kind}-{name}", marks=[*marks, *needs_torch(kind)])
        for kind, estimator in estimators.items()
        for name, check in mil_checks(estimator, **flags)
    ]


@pytest.mark.parametrize("check", cases({name: OURS[name] for name in OFTEN}))
def test_our_estimators(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("check", cases({name: OURS[name] for name in OURS if name not in OFTEN}))
def test_our_other_estimators(check):
    check()


@pytest.mark.parametrize("check", cases(NAMED))
def test_named_estimators(check):
    check()


@pytest.mark.parametrize("check", cases(BASELINES, instances=False, uncertainty=False))
def test_baselines(check):
    check()


SMOOTHED = "order one_instance single duplicate large_bag permutation matter determinism".split()
IN_ORDER = [
    case
    for case in cases(ORDERED, instances=False, uncertainty=False)
    if not case.id.endswith("check_instance_order_invariance")
]


@pytest.mark.parametrize("check", [case for case in IN_ORDER if any(word in case.id for word in SMOOTHED)])
def test_all_but_one_rule_hold_in_order(check):
    check()


@pytest.mark.slow  # rules on how bags are given and read, which it keeps as AttentionMIL among the baselines does
@pytest.mark.parametrize("check", [case for case in IN_ORDER if not any(word in case.id for word in SMOOTHED)])
def test_the_other_rules_hold_in_order(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("check", cases(RARER))
def test_rarer_settings(check):
    check()


@pytest.mark.slow
@pytest.mark.parametrize("check", [case for case in cases(BESIDE) if not case.id.endswith(LOST_IN_CONTEXT)])
def test_all_but_one_rule_hold_in_context(check):
    check()


@pytest.mark.parametrize("kind", ["secant-float64-points", "gamma(1,1)-float32-kmeans"])
def test_pickles_of_our_estimators(kind):
    bags, y = [np.eye(3)[:2] + k for k in range(4)], [0, 1, 0, 1]
    model = clone(OURS[kind]).fit(bags, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict_proba(bags), model.predict_proba(bags))
    np.testing.assert_array_equal(copy.predict_dist(bags).std, model.predict_dist(bags).std)


def test_the_contract_is_as_large_as_it_says():
    full = check_mil_estimator(OURS[AT_ONCE])
    assert len(full) >= 60
    bags_only = [name for name, _ in mil_checks(BASELINES["BagSVM"], instances=False, uncertainty=False)]
    assert 60 <= len(bags_only) < len(full)
