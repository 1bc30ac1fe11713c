"""q(f*) against dense algebra; invariances of the whole prediction; joint uncertainty against dense sampling."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from problems import dense, make, offsets_of, random_posterior, unwhitened
from psimil.model.bags import Bags
from psimil.model.kernels import RBF
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP, latent_moments
from psimil.paper.ascent import ascend
from psimil.predictive.moments import IDENTITY, Calibration
from psimil.predictive.trained import TrainedModel, joint_std

SETTINGS = [(r, b) for r in ("full", "projected") for b in (0.0, 1.7)]


def sigma(f):
    return 1 / (1 + np.exp(-f))


def model_of(problem, gp, q, **options):
    return TrainedModel(Scaling.identity(problem.X.shape[1]), gp, q, **options)


@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
def test_latent_moments_equal_dense_algebra_at_new_points(residual, bias):
    problem, gp = make(2, residual=residual, bias=bias, M=7)
    q = random_posterior(gp.size, 1)
    X = np.random.default_rng(9).normal(size=(33, 2))
    mu, s2 = latent_moments(gp, q, X)
    assert mu.shape == s2.shape == (33,)
    expected = dense(problem, gp, X).moments(*unwhitened(gp, q))
    np.testing.assert_allclose(mu, expected[0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(s2, expected[1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
def test_prediction_at_training_points_is_what_training_saw(residual, bias):
    """I13; also when K_zz is so badly conditioned that explicit inverses would lose the digits."""
    for lengthscale in (1.0, 6.0):
        problem, gp = make(3, (4,) * 20, residual=residual, bias=bias, M=12, lengthscale=lengthscale)
        record = list(islice(ascend(problem, KernelState(gp, Posterior.prior(gp.size))), 5))[-1]
        mu, s2 = latent_moments(gp, record.posterior, problem.X)
        tolerance = 1e-12 if gp.well_conditioned(8) else 1e-7
        np.testing.assert_allclose(mu, record.local.mu, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(s2, record.local.s2, rtol=tolerance, atol=tolerance)


def test_far_from_the_inducing_points():
    """The full residual returns to the prior; the projected model keeps only its constant mean."""
    far = np.full((1, 2), 1e3)
    for residual, expected in (("full", 1.5), ("projected", 0.0)):
        _, gp = make(0, residual=residual)
        mu, s2 = latent_moments(gp, random_posterior(gp.size), far)
        assert mu[0] == pytest.approx(0.0, abs=1e-12)
        assert s2[0] == pytest.approx(expected, abs=1e-12)
        _, gp = make(0, residual=residual, bias=2.0)
        q = random_posterior(gp.size)
        mu, s2 = latent_moments(gp, q, far)
        assert mu[0] == pytest.approx(2.0 * q.m[-1])
        assert s2[0] == pytest.approx(expected + 4.0 * np.linalg.inv(q.R @ q.R.T)[-1, -1])


def test_prediction_of_many_bags_is_that_of_each():
    problem, gp = make(1, bias=1.0)
    model = model_of(problem, gp, random_posterior(gp.size))
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 2)) for n in (1, 4, 2, 9)]
    together = model.predict(Bags.from_list(parts))
    assert together.prob.shape == (4,)
    assert together.instance_prob.shape == (16,)
    for b, part in enumerate(parts):
        alone = model.predict(Bags.from_list([part]))
        for field in ("prob", "std", "lower", "upper", "log_odds"):
            np.testing.assert_allclose(getattr(together, field)[b], getattr(alone, field)[0], rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(together.split(together.instance_prob)[b], alone.instance_prob, rtol=1e-12)
    twice = model.predict(Bags.from_list([np.repeat(parts[1], 2, axis=0)]))
    np.testing.assert_allclose(twice.instance_prob[::2], twice.instance_prob[1::2], rtol=1e-12)


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_shift_and_rotation_of_all_points_change_nothing(bias):
    problem, gp = make(4, D=3, bias=bias, residual="full")
    q = random_posterior(gp.size)
    X = np.random.default_rng(3).normal(size=(20, 3))
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    moved = SparseGP.build(gp.kernel, gp.Z @ rotation + 2.0, bias=bias, residual="full")
    np.testing.assert_allclose(
        latent_moments(moved, q, X @ rotation + 2.0), latent_moments(gp, q, X), rtol=1e-9, atol=1e-10
    )
    assert problem.X.shape[1] == 3


def test_scaling_is_applied_and_undone():
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, [1.0, 50.0, 1e-3], size=(200, 3))
    scaling = Scaling.fit(X)
    np.testing.assert_allclose(scaling.apply(X), (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(scaling.invert(scaling.apply(X)), X, rtol=1e-12)
    affine = X * [2.0, 1e-3, -7.0] + [1.0, -5.0, 100.0]
    np.testing.assert_allclose(Scaling.fit(affine).apply(affine), scaling.apply(X) * [1, 1, -1], rtol=1e-8, atol=1e-9)


def dense_joint(problem, gp, q, X, offsets, calibration, aggregate, samples, seed):
    """Bag probabilities (B, samples) from the joint Gaussian of each bag's f, k~ kept as a diagonal."""
    rng = np.random.default_rng(seed)
    model = dense(problem, gp, X)
    m, S = unwhitened(gp, q)
    mean, cov = model.A @ m, model.A @ S @ model.A.T + np.diag(model.k)
    bags = []
    for start, stop in pairwise(offsets):
        part = slice(start, stop)
        deviation = rng.multivariate_normal(np.zeros(stop - start), cov[part, part], size=samples)
        f = calibration.scale * mean[part] + calibration.shift + calibration.spread * deviation
        p = sigma(f)
        bags.append(1 - np.prod(1 - p, axis=1) if aggregate == "noisy_or" else p.max(axis=1))
    return np.array(bags)


@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
@pytest.mark.parametrize("aggregate", ["noisy_or", "max"])
@pytest.mark.parametrize(
    "calibration",
    [IDENTITY, Calibration(0.6, -0.4, 0.6), Calibration(0.5, -1.0, 1.5)],
    ids=["raw", "one-scale", "own-spread"],
)
def test_joint_std_equals_dense_sampling(residual, bias, aggregate, calibration):
    problem, gp = make(5, residual=residual, bias=bias)
    q = random_posterior(gp.size, 2, spread=0.5)
    X, offsets = np.random.default_rng(4).normal(size=(9, 2)), offsets_of((1, 3, 5))
    samples = 20_000
    found = joint_std(
        gp, q, X, offsets, aggregate=aggregate, calibration=calibration, rng=np.random.default_rng(0), samples=samples
    )
    assert found.shape == (3,)
    p = dense_joint(problem, gp, q, X, offsets, calibration, aggregate, samples, 1)
    s = p.std(axis=1)
    fourth = np.mean((p - p.mean(axis=1, keepdims=True)) ** 4, axis=1)
    error = np.sqrt((fourth - s**4) / samples) / (2 * s)  # of one standard deviation; two estimates differ
    assert (np.abs(found - s) <= 6 * np.sqrt(2) * error).all()


def test_joint_std_of_a_bag_of_one_is_its_marginal_std():
    problem, gp = make(5, bias=1.0)
    for calibration in (IDENTITY, Calibration(2.0, 0.3, 0.5)):
        model = replace(model_of(problem, gp, random_posterior(gp.size, 2, 0.5)), calibration=calibration)
        found = model.predict(Bags(problem.X, np.arange(13)), joint=True, n_samples=20_000)
        assert found.joint_std.shape == (12,)
        np.testing.assert_allclose(found.joint_std, found.std, rtol=0.05)


def test_raw_leaves_out_the_calibration():
    problem, gp = make(6)
    model = replace(model_of(problem, gp, random_posterior(gp.size)), calibration=Calibration(3.0, -1.0, 0.5))
    bags = Bags(problem.X, problem.labels.offsets)
    raw, calibrated = model.predict(bags, raw=True), model.predict(bags)
    np.testing.assert_allclose(calibrated.latent_mean, 3 * raw.latent_mean - 1, rtol=1e-12)
    np.testing.assert_allclose(calibrated.latent_variance, 0.25 * raw.latent_variance, rtol=1e-12)


def test_sampled_prediction_is_reproducible_and_close():
    problem, gp = make(7, bias=1.0)
    model = replace(model_of(problem, gp, random_posterior(gp.size)), seed=3)
    bags = Bags(problem.X, problem.labels.offsets)
    exact, sampled = model.predict(bags), model.predict(bags, expectation="sample", n_samples=20_000)
    again = model.predict(bags, expectation="sample", n_samples=20_000)
    assert np.array_equal(sampled.prob, again.prob)
    assert (
        np.abs(sampled.instance_prob - exact.instance_prob) <= 6 * exact.instance_std / np.sqrt(20_000) + 1e-12
    ).all()


def test_tables_keep_the_order_of_the_rows_given():
    problem, gp = make(8)
    model = model_of(problem, gp, random_posterior(gp.size))
    ids = np.array(list("cabacbbaccab"))
    bags = Bags.from_arrays(problem.X, ids)
    found = model.predict(bags)
    frame = found.to_frame("instance")
    assert frame["bag"].tolist() == ids.tolist()
    mu, s2 = latent_moments(gp, model.posterior, problem.X)
    np.testing.assert_allclose(frame["latent_mean"], mu, rtol=1e-12)
    np.testing.assert_allclose(frame["latent_variance"], s2, rtol=1e-12)
    table = found.to_frame()
    assert table["bag"].tolist() == ["c", "a", "b"]
    np.testing.assert_array_equal(table["prob"], found.prob)
    assert (table["label"] == (table["prob"] >= 0.5)).all()


@pytest.mark.parametrize(("residual", "bias"), SETTINGS)
def test_nearly_equal_inducing_points_use_the_stable_path(residual, bias):
    Z = np.linspace(0.0, 2.0, 150)[:, None]
    gp = SparseGP.build(RBF(1.0, 1.0), Z, bias=bias, residual=residual)
    assert gp.jitter > 0.0
    assert not gp.well_conditioned(8)
    X = np.linspace(-1, 3, 40)[:, None]
    q = random_posterior(gp.size)
    V = np.linalg.solve(gp.L, np.exp(-0.5 * (X - Z.T) ** 2).T).T
    k = 1 - (V**2).sum(axis=1) if residual == "full" else 0.0
    V = np.column_stack([V, np.full(40, bias)]) if bias else V
    mu, s2 = latent_moments(gp, q, X)
    np.testing.assert_allclose(mu, V @ q.m, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(s2, k + np.einsum("nm,mk,nk->n", V, np.linalg.inv(q.R @ q.R.T), V), rtol=1e-8, atol=1e-8)
