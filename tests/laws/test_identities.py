"""Identities that only a correct implementation satisfies, run through whole fits."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from problems import DENSITIES, dense, make, name, offsets_of, rbf, unwhitened
from psimil.compute.numpy_backend import available_threads, single_threaded_blas
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import GammaMixture, HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP, latent_moments
from psimil.paper.ascent import ascend
from psimil.paper.label_posteriors import RULES


def fit(problem, gp, passes=60, **options):
    """The record after plain coordinate ascent: over-relaxed steps are taken or not by the last digits of the bound."""
    state = KernelState(gp, Posterior.prior(gp.size))
    return next(islice(ascend(problem, state, accelerate=False, **options), passes - 1, passes))


def polya_gamma_svgp(X, y, Z, variance, lengthscale, passes):
    """Wenzel et al. 2019, full batch, dense and unwhitened, labels -1 / +1: q(u) after the given number of passes."""
    K, A = (
        rbf(Z, Z, variance, lengthscale),
        rbf(X, Z, variance, lengthscale) @ np.linalg.inv(rbf(Z, Z, variance, lengthscale)),
    )
    k = variance - (A * rbf(X, Z, variance, lengthscale)).sum(axis=1)
    m, S = np.zeros(len(Z)), K
    for _ in range(passes):
        c = np.sqrt(k + np.einsum("nm,mk,nk->n", A, S, A) + (A @ m) ** 2)
        omega = np.tanh(c / 2) / (2 * c)  # E PG(1, c)
        S = np.linalg.inv(np.linalg.inv(K) + (A * omega[:, None]).T @ A)
        m = S @ (A.T @ (y / 2))
    return m, S


@pytest.mark.parametrize("H", [1e2, 1e4, 1e8, 1e16, np.inf])
def test_bags_of_one_are_polya_gamma_classification(H):
    """I11: equal at H = inf, and the error is O(1 / H) before."""
    problem, gp = make(1, (1,) * 40, M=10, H=H, variance=1.5)
    record = fit(problem, gp, 30)
    m, S = unwhitened(gp, record.next_posterior)
    expected_m, expected_S = polya_gamma_svgp(problem.X, 2 * problem.labels.T - 1, gp.Z, 1.5, 1.2, 30)
    tolerance = 1e-8 + 10 / H
    np.testing.assert_allclose(m, expected_m, atol=tolerance)
    np.testing.assert_allclose(S, expected_S, atol=tolerance)
    if H < 1e5:
        assert np.abs(m - expected_m).max() > 1e-3 / H


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_inducing_points_at_the_instances_are_the_dense_gp(density):
    """I7: k~ = 0, S = K - K (Theta^-1 + K)^-1 K, m = S (pi - 1/2)."""
    problem, gp = make(2, (2, 3, 1, 4), density=density, H=100.0, variance=0.8, lengthscale=0.7)
    gp = SparseGP.build(gp.kernel, problem.X, residual="full")
    assert gp.jitter == 0.0
    record = fit(problem, gp, 10)
    K = rbf(problem.X, problem.X, 0.8, 0.7)
    m, S = unwhitened(gp, record.next_posterior)
    expected = K - K @ np.linalg.solve(np.diag(1 / record.local.theta) + K, K)
    np.testing.assert_allclose(S, expected, atol=1e-9)
    np.testing.assert_allclose(m, expected @ (record.local.pi - 0.5), atol=1e-9)
    assert problem.rows_of_V(gp, problem.blocks[0].rows)[1].max() <= 1e-10
    dense_moments = latent_moments(gp, record.next_posterior, problem.X)
    np.testing.assert_allclose(dense_moments[0], m, atol=1e-8)
    np.testing.assert_allclose(dense_moments[1], np.diag(expected), atol=1e-8)


@pytest.mark.parametrize("rule", ["exact", "mean_field"])
@pytest.mark.parametrize("H", [100.0, 1e12, np.inf])
def test_permutations_permute(rule, H):
    """I10: order of bags and of instances inside bags; mean field must break ties by the rows, not by their order."""
    sizes = np.array([1, 3, 2, 5, 4, 2])
    problem, gp = make(3, sizes, rule=rule, H=H, bias=1.0, weights=[1, 2, 1, 3, 1, 1])
    passes = 300 if (rule, H) == ("mean_field", 100.0) else 25  # one fixed point, reached on different ways
    record = fit(problem, gp, passes)
    rng = np.random.default_rng(0)
    bags = rng.permutation(6)
    offsets = problem.labels.offsets
    rows = np.concatenate([rng.permutation(np.arange(offsets[b], offsets[b + 1])) for b in bags])
    labels = Labels(problem.labels.T[bags], offsets_of(sizes[bags]), problem.labels.log_H)
    shuffled = replace(problem, X=problem.X[rows], labels=labels, weights=problem.weights[bags])
    other = fit(shuffled, gp, passes)
    assert other.bound.total == pytest.approx(record.bound.total, rel=1e-11)
    np.testing.assert_allclose(other.posterior.m, record.posterior.m, atol=1e-10)
    np.testing.assert_allclose(other.local.pi, record.local.pi[rows], atol=1e-10)
    np.testing.assert_allclose(other.local.mu, record.local.mu[rows], atol=1e-10)


def test_order_of_inducing_points_does_not_matter():
    problem, gp = make(4, bias=1.0)
    order = np.random.default_rng(1).permutation(5)
    other = SparseGP.build(gp.kernel, gp.Z[order], bias=1.0, residual="full")
    first, second = fit(problem, gp), fit(problem, other)
    assert second.bound.total == pytest.approx(first.bound.total, rel=1e-10)
    np.testing.assert_allclose(second.local.mu, first.local.mu, atol=1e-9)
    np.testing.assert_allclose(second.local.s2, first.local.s2, atol=1e-9)


@pytest.mark.parametrize(
    ("seed", "density"), [(0, HyperbolicSecant()), pytest.param(1, GammaMixture(1.0, 1.0), marks=pytest.mark.slow)]
)
def test_acceleration_arrives_where_plain_ascent_does(seed, density):
    problem, gp = make(seed, density=density, bias=1.0)
    plain = fit(problem, gp, 1500)
    fast = next(islice(ascend(problem, KernelState(gp, Posterior.prior(gp.size)), accelerate=True), 300, 301))
    assert fast.bound.total == pytest.approx(plain.bound.total, rel=1e-9)
    np.testing.assert_allclose(fast.local.mu, plain.local.mu, atol=1e-4)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("H", [100.0, np.inf])
def test_flipped_labels_of_bags_of_one_flip_the_latents(density, bias, H):
    """I22."""
    problem, gp = make(5, (1,) * 20, density=density, bias=bias, H=H)
    flipped = replace(problem, labels=replace(problem.labels, T=1 - problem.labels.T))
    first, second = fit(problem, gp, 15), fit(flipped, gp, 15)
    assert np.abs(first.local.mu).max() > 0.01
    np.testing.assert_allclose(second.local.mu, -first.local.mu, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(second.local.s2, first.local.s2, rtol=1e-9)
    np.testing.assert_allclose(second.local.pi, 1 - first.local.pi, atol=1e-11)
    assert second.bound.total == pytest.approx(first.bound.total, rel=1e-10)


@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_uninformative_bag_labels_teach_nothing(rule):
    """I21: H = 1."""
    problem, gp = make(6, H=1.0, rule=rule, bias=1.0)
    flipped = replace(problem, labels=replace(problem.labels, T=1 - problem.labels.T))
    first, second = fit(problem, gp), fit(flipped, gp)
    np.testing.assert_allclose(first.local.mu, 0.0, atol=1e-12)
    np.testing.assert_allclose(first.local.pi, 0.5, atol=1e-12)
    np.testing.assert_array_equal(first.posterior.R, second.posterior.R)
    assert first.bound.total == pytest.approx(
        -len(problem.labels.T) * np.log(2) - first.posterior.kl + _secant_terms(first), rel=1e-9
    )


def _secant_terms(record):
    """N log 2 of entropy, sum log psi(c) and N log pi of log Z, by hand."""
    c = np.sqrt(record.local.mu**2 + record.local.s2)
    return np.sum(np.log(2) - np.log(2 * np.cosh(c / 2)))


@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.0)], ids=name)
@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_weight_two_is_the_bag_twice_and_weight_zero_its_absence(density, rule):
    sizes = (2, 3, 1, 4)
    problem, gp = make(7, sizes, density=density, rule=rule, H=100.0, bias=1.0, weights=[1.0, 2.0, 1.0, 0.0])
    X, T = problem.X, problem.labels.T
    labels = Labels(T[[0, 1, 1, 2]], offsets_of((2, 3, 3, 1)), problem.labels.log_H)
    doubled = Shard(np.concatenate([X[:5], X[2:5], X[5:6]]), labels, np.ones(4), density, RULES[rule])
    first, second = fit(problem, gp, 40), fit(doubled, gp, 40)
    assert second.bound.total == pytest.approx(first.bound.total, rel=1e-10)
    np.testing.assert_allclose(second.posterior.m, first.posterior.m, atol=1e-10)
    np.testing.assert_allclose(second.local.pi[:5], first.local.pi[:5], atol=1e-10)


def test_known_labels_of_every_instance_make_bags_irrelevant():
    """With all instance labels known the fit is that of bags of one with those labels."""
    sizes = (3, 2, 4)
    y = np.array([0, 1, 0, 0, 0, 1, 1, 0, 0])
    problem, gp = make(8, sizes, T=[1, 0, 1], known=y, bias=1.0)
    single = Shard(problem.X, Labels(y, np.arange(10), np.inf), np.ones(9), problem.density)
    first, second = fit(problem, gp), fit(single, gp)
    np.testing.assert_allclose(first.local.mu, second.local.mu, atol=1e-11)
    np.testing.assert_array_equal(first.local.pi, y)
    assert first.bound.total == pytest.approx(second.bound.total, rel=1e-11)


@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.0)], ids=name)
def test_noise_free_is_the_limit_of_the_fit(density):
    records = [fit(*make(9, density=density, H=H, bias=1.0)) for H in (1e300, np.inf)]
    assert records[0].bound.total == pytest.approx(records[1].bound.total, rel=1e-9)
    np.testing.assert_allclose(records[0].local.pi, records[1].local.pi, atol=1e-10)


@pytest.mark.parametrize("residual", ["full", "projected"])
def test_chunks_and_streaming_do_not_change_the_fit(residual):
    """I14 and bounded memory: a different order of summation moves the result by rounding only."""
    sizes = np.random.default_rng(0).integers(1, 8, size=50)
    problem, gp = make(10, sizes, M=8, residual=residual, bias=1.0)
    first = fit(problem, gp, 12)
    for rows, keep, whole in ((1, True, True), (17, False, True), (17, False, False), (10**6, False, False)):
        other = fit(replace(problem, rows=rows, keep=keep, whole=whole), gp, 12)
        assert other.bound.total == pytest.approx(first.bound.total, rel=1e-9)
        np.testing.assert_allclose(other.local.pi, first.local.pi, atol=1e-7)


def test_number_of_threads_does_not_change_a_bit():
    """N8: fixed chunks, summed in order, and BLAS itself on one thread, as a fit has it."""
    sizes = np.random.default_rng(0).integers(1, 8, size=80)
    problem, gp = make(11, sizes, M=8, residual="full", bias=1.0, rows=20)
    assert len(problem.ranges) > 8
    found = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            if available_threads() != threads:
                pytest.skip(f"BLAS does not run {threads} threads here")
            with single_threaded_blas():
                passes = ascend(problem, KernelState(gp, Posterior.prior(gp.size)))
                record = next(islice(passes, 19, 20))
            found.append((record, latent_moments(record.gp, record.posterior, np.tile(problem.X, (40, 1)))))
    for record, moments in found[1:]:
        assert np.array_equal(record.posterior.m, found[0][0].posterior.m)
        assert np.array_equal(record.posterior.R, found[0][0].posterior.R)
        assert np.array_equal(record.local.pi, found[0][0].local.pi)
        assert record.bound == found[0][0].bound
        assert np.array_equal(moments, found[0][1])


@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.0)], ids=name)
@pytest.mark.parametrize("residual", ["full", "projected"])
def test_single_precision_stays_close(density, residual):
    """N3: fifty passes, M = 50: probabilities within 5e-4."""
    sizes = np.random.default_rng(0).integers(3, 12, size=60)
    found = []
    for dtype in (np.float64, np.float32):
        problem, gp = make(
            12, sizes, D=5, M=50, lengthscale=2.2, residual=residual, bias=3.0, density=density, dtype=dtype
        )
        record = fit(problem, gp, 50)
        found.append(1 / (1 + np.exp(-latent_moments(gp, record.posterior, problem.X)[0])))
    assert np.abs(found[0] - found[1]).max() <= 5e-4


RUNAWAY = {  # N copies of one negative instance, v = 0.5: I23
    HyperbolicSecant(): [(10, -1.19), (100, -2.83), (1000, -4.67), (10_000, -6.63)],
    GammaMixture(1.0, 1.0): [(10, -0.47), (100, -0.57), (1000, -0.58), (10_000, -0.59)],
    GammaMixture(1.0, 4.0): [(100, -20.1), (1000, -246.0), (10_000, -2496.0)],
}


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("density", RUNAWAY, ids=name)
def test_runaway_of_latents_with_the_number_of_instances(density, many):
    """A property of the model: sup c theta(c) < 1/2 lets |f| grow like v N / 2."""
    for N, mu in [(N, mu) for N, mu in RUNAWAY[density] if (N > 1000) == many]:
        problem = Shard(np.zeros((N, 1)), Labels(np.zeros(N, dtype=int), np.arange(N + 1)), np.ones(N), density)
        gp = SparseGP.build(RBF(0.5, 1.0), np.zeros((1, 1)), residual="full")
        record = next(islice(ascend(problem, KernelState(gp, Posterior.prior(1))), 199, 200))
        assert record.local.mu[0] == pytest.approx(mu, abs=0.015 if abs(mu) < 10 else 0.004 * abs(mu))
        if density == GammaMixture(1.0, 4.0):
            assert record.local.mu[0] == pytest.approx(-0.5 * N / 2 + 4, rel=0.05)


def test_dense_oracle_matches_the_prior():
    problem, gp = make(0, residual="full", bias=2.0)
    model = dense(problem, gp)
    _, s2 = model.moments(np.zeros(6), model.K)
    np.testing.assert_allclose(s2, 1.5 + 4.0, rtol=1e-12)  # q = prior gives back the prior variance
