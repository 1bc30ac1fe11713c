"""N2: no NaN and no infinity in any public output, whatever the data look like."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from problems import make, random_posterior
from psimil import GVGPMIL, VGPMIL, PsiVGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning
from psimil.model.densities import GammaMixture
from psimil.model.kernels import RBF, Linear, Matern32
from psimil.model.sparse_gp import SparseGP, latent_moments


def bags_of(sizes, D=3, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(len(sizes)) % 2
    return [scale * (rng.normal(size=(n, D)) + 1.5 * t) for n, t in zip(sizes, y, strict=True)], y


PLAIN = (3, 1, 4, 2, 5, 3, 2, 4)
ONE_POINT = np.zeros((6, 3))
CASES = {
    "duplicate inducing points": (bags_of(PLAIN), {"inducing_points": np.repeat(np.eye(3), 3, axis=0)}),
    "identical inducing points": (bags_of(PLAIN), {"inducing_points": ONE_POINT}),
    "constant features": (([np.ones((n, 3)) for n in PLAIN], np.arange(8) % 2), {}),
    "one constant feature": (([np.c_[b, np.ones(len(b))] for b in bags_of(PLAIN)[0]], np.arange(8) % 2), {}),
    "bags of one": (bags_of((1,) * 12), {}),
    "a bag of a thousand": (bags_of((1000, 3, 2, 4)), {}),
    "two bags": (bags_of((3, 2)), {}),
    "one bag of one": (([np.ones((1, 2))], np.array([1])), {}),
    "more inducing points than instances": (bags_of(PLAIN), {"n_inducing": 500}),
    "all positive": ((bags_of(PLAIN)[0], np.ones(8, dtype=int)), {}),
    "all negative": ((bags_of(PLAIN)[0], np.zeros(8, dtype=int)), {}),
    "features times 1e8": (bags_of(PLAIN, scale=1e8), {}),
    "features times 1e-8": (bags_of(PLAIN, scale=1e-8), {}),
    "features times 1e8, not standardised": (bags_of(PLAIN, scale=1e8), {"standardize": False}),
    "features times 1e-8, not standardised": (bags_of(PLAIN, scale=1e-8), {"standardize": False}),
    "variance 1e6": (bags_of(PLAIN), {"kernel": RBF(1e6)}),
    "variance 1e-6": (bags_of(PLAIN), {"kernel": RBF(1e-6)}),
    "H = 1": (bags_of(PLAIN), {"H": 1.0}),
    "H = 1e300": (bags_of(PLAIN), {"H": 1e300}),
    "mean field": (bags_of(PLAIN), {"posterior": "augmented", "label_posterior": "mean_field", "H": 1e12}),
    "separable": (bags_of(PLAIN, scale=20.0), {"kernel": RBF(1e4)}),
    "linear kernel of low rank": (bags_of(PLAIN), {"kernel": Linear(1.0), "n_inducing": 10}),
    "rough kernel": (bags_of(PLAIN), {"kernel": Matern32(1.0, 1e-3)}),
    "very smooth kernel": (bags_of(PLAIN), {"kernel": RBF(1.0, 1e4)}),
    "float32": (bags_of(PLAIN), {"dtype": "float32"}),
}
MODELS = {
    "secant": (VGPMIL, {}),
    "secant-full-zero": (
        VGPMIL,
        {"residual": "full", "mean": "zero", "hyperparameters": None, "posterior": "augmented"},
    ),
    "gamma": (GVGPMIL, {"hyperparameters": None}),
    "gamma-jensen-full": (GVGPMIL, {"residual": "full", "log_z": "jensen"}),
    "runaway": (PsiVGPMIL, {"density": GammaMixture(1.0, 4.0), "hyperparameters": None, "aggregate": "max"}),
}


def fitted(model, bags, y, options):
    kind, own = MODELS[model]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(**{"n_inducing": 8, "random_state": 0, "max_iter": 25, **own, **options}).fit(bags, y)


def assert_finite(estimator, bags):
    found = estimator.predict_dist(bags, joint=True, n_samples=50)
    names = ["prob", "std", "lower", "upper", "log_odds", "joint_std", "latent_mean", "latent_variance"]
    names += ["instance_prob", "instance_std", "instance_lower", "instance_upper", "instance_log_odds"]
    for prediction in (found, estimator.out_of_bag_.prediction, estimator.predict_dist(bags, raw=True)):
        for field in names:
            values = getattr(prediction, field)
            assert values is None or np.isfinite(values).all(), field
        for field in ("prob", "instance_prob", "lower", "upper", "instance_lower", "instance_upper"):
            values = getattr(prediction, field)
            assert ((values >= 0) & (values <= 1)).all(), field
        assert (prediction.latent_variance >= 0).all()
    for field in ("q_mean_", "q_cov_", "inducing_points_", "label_posterior_", "elbo_", "threshold_", "mean_"):
        assert np.isfinite(getattr(estimator, field)).all(), field
    assert np.isfinite(estimator.out_of_bag_.log_predictive).all()
    assert np.isfinite(estimator.decision_function(bags)).all()
    assert np.isfinite(estimator.kernel_.log_parameters).all()
    for row in estimator.history_:
        assert all(np.isfinite(v) for v in row.values() if isinstance(v, float)), row


@pytest.mark.parametrize(
    ("case", "model"),
    [
        pytest.param(case, model, marks=[pytest.mark.slow] * ((i + j) % 2))
        for i, case in enumerate(CASES)
        for j, model in enumerate(MODELS)
    ],
)
def test_every_output_is_finite(case, model):
    (bags, y), options = CASES[case]
    estimator = fitted(model, bags, y, options)
    assert_finite(estimator, bags)
    far = [b + 1e3 * (1 + np.abs(b).max()) for b in bags]
    assert np.isfinite(estimator.predict_dist(far).log_odds).all()


@pytest.mark.parametrize("preset", ["paper", "published"])
def test_presets_are_finite_on_plain_bags(preset):
    bags, y = bags_of(PLAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator = GVGPMIL.preset(preset, n_inducing=5, max_iter=2, random_state=0).fit(bags, y)
    assert_finite(estimator, bags)


@pytest.mark.parametrize("residual", ["full", "projected"])
def test_jitter_of_training_is_that_of_prediction(residual):
    """N7: with equal inducing points the same L serves both, so the training latents come back."""
    problem, gp = make(0, residual=residual, bias=1.0)
    gp = SparseGP.build(gp.kernel, np.repeat(gp.Z, 2, axis=0), bias=1.0, residual=residual)
    assert 0 < gp.jitter <= 1e-4 * 1.5
    q = random_posterior(gp.size)
    V = gp.features(problem.X)
    K = gp.kernel.gram(gp.Z, gp.Z) + gp.jitter * np.eye(10)
    np.testing.assert_allclose(gp.L @ gp.L.T, K, rtol=1e-10)
    mu, _ = latent_moments(gp, q, problem.X)
    np.testing.assert_allclose(mu, V @ q.m, rtol=1e-6, atol=1e-6)


def test_conditional_variance_is_not_negative_and_vanishes_at_the_inducing_points():
    """N6."""
    problem, gp = make(0, (4,) * 10, M=20, lengthscale=0.8)
    X = np.concatenate([problem.X, gp.Z])
    k = gp.residual_variance(X, gp.features(X))
    assert (k >= 0).all()
    np.testing.assert_allclose(k[-20:], 0.0, atol=1e-8)
    projected = replace(gp, residual="projected")
    np.testing.assert_array_equal(projected.residual_variance(X, projected.features(X)), 0.0)


def test_crowded_inducing_points_do_not_make_a_full_residual_fail():
    """Rounding of the conditional variance grows with the condition of K_zz, not only with its size."""
    bags, y, _ = make_bags(n_bags=60, n_features=1, separation=3.0, seed=0)
    clf = PsiVGPMIL(n_inducing=15, residual="full", posterior="augmented", random_state=0).fit(bags, y)
    assert (clf.predict_dist(bags).latent_variance > 0).all()
