"""The bound never falls, and with the true log Z it lies below log p(T) <= 0."""

from collections import Counter
from itertools import islice, pairwise, product

import numpy as np
import pytest

from problems import DENSITIES, FOUR, dense, log_psi, make, name, normal_grid
from psimil.model.densities import GammaMixture, HyperbolicSecant
from psimil.model.kernels import RBF
from psimil.model.sparse_gp import KernelState, Posterior
from psimil.paper.ascent import ascend, start_from_labels
from psimil.paper.passes import Bound

COMBINATIONS = list(product(FOUR, [100.0, 1e12, np.inf], ["exact", "mean_field"]))
PASSES = 25


def random_problem(i, dtype=np.float64):
    """Problem i of an endless list that goes through all combinations, residuals and means."""
    density, H, rule = COMBINATIONS[i % len(COMBINATIONS)]
    residual, bias = list(product(["full", "projected"], [0.0, 3.0]))[(i // len(COMBINATIONS)) % 4]
    rng = np.random.default_rng([i, 7])
    sizes = rng.integers(1, 9, size=rng.integers(3, 13))
    return make(
        seed=i,
        sizes=sizes,
        D=int(rng.integers(1, 5)),
        M=int(rng.integers(2, 11)),
        density=density,
        H=H,
        rule=rule,
        residual=residual,
        bias=bias,
        variance=float(np.exp(rng.uniform(-1.5, 2.5))),
        lengthscale=float(np.exp(rng.uniform(-0.5, 1.5))),
        weights=rng.choice([0.5, 1.0, 2.0], size=len(sizes)) if i % 3 == 0 else None,
        dtype=dtype,
    )


def bounds(problem, gp, passes=PASSES, posterior=None, pi=None, accelerate=False):
    start = KernelState(gp, posterior or Posterior.prior(gp.size))
    records = ascend(problem, start, pi=pi, accelerate=accelerate)
    return np.array([record.bound.total for record in islice(records, passes)])


def test_every_combination_is_among_the_five_hundred():
    assert len(COMBINATIONS) == 24
    assert min(Counter(i % 24 for i in range(500)).values()) >= 20


def blocks(count, quick):
    """Numbers of blocks; those after the first few are slow."""
    return [pytest.param(i, marks=[pytest.mark.slow] * (i >= quick)) for i in range(count)]


@pytest.mark.parametrize("block", blocks(10, quick=2))
def test_bound_never_falls(block):
    """500 random problems in ten blocks of fifty; two blocks hold every combination with every residual and mean."""
    for i in range(50 * block, 50 * block + 50):
        L = bounds(*random_problem(i))
        assert L.shape == (PASSES,)
        assert np.isfinite(L).all()
        drop = (L[:-1] - L[1:]).max()
        assert drop <= 1e-9 * np.abs(L).max(), (i, COMBINATIONS[i % 24], drop)
        assert L[-1] > L[0]


@pytest.mark.parametrize("block", blocks(4, quick=1))
def test_bound_never_falls_with_over_relaxed_steps(block):
    for i in range(48 * block, 48 * block + 48):
        L = bounds(*random_problem(i), accelerate=True)
        assert (L[:-1] - L[1:]).max() <= 1e-9 * np.abs(L).max(), (i, COMBINATIONS[i % 24])


@pytest.mark.slow
def test_bound_falls_by_rounding_only_in_single_precision():
    for i in range(0, 480, 5):
        L = bounds(*random_problem(i, np.float32))
        assert (L[:-1] - L[1:]).max() <= 1e-4 * np.abs(L).max()


@pytest.mark.parametrize("start", [0.1, 1.0])
def test_bound_never_falls_from_random_labels(start):
    for i in range(48):
        problem, gp = random_problem(i)
        pi = np.random.default_rng(i).uniform(0.0, start, len(problem.X))
        L = bounds(problem, gp, 10, start_from_labels(gp, problem, pi), pi)
        assert (L[:-1] - L[1:]).max() <= 1e-9 * np.abs(L).max()


def test_secant_bound_is_below_zero_at_any_size():
    """log Z = -N log pi is exact, so L <= log p(T) <= 0."""
    checked = 0
    for i in range(500):
        if isinstance(COMBINATIONS[i % 24][0], HyperbolicSecant) and i % 3:  # unweighted: weights are not a model
            problem, gp = random_problem(i)
            record = next(islice(ascend(problem, KernelState(gp, Posterior.prior(gp.size))), 9, 10))
            assert record.bound.log_z == pytest.approx(-len(problem.X) * np.log(np.pi), rel=1e-13)
            assert record.bound.total <= 0
            checked += 1
    assert checked >= 80


def prior_covariance(problem, gp):
    """Covariance of f a priori: K_xx for the full residual, A K A' for the projected one, plus b^2."""
    model = dense(problem, gp)
    low_rank = model.A @ model.K @ model.A.T
    if gp.residual == "projected":
        return low_rank
    X = problem.X
    distance = ((X[:, None] - X[None]) ** 2).sum(-1)
    return gp.kernel.variance * np.exp(-distance / (2 * gp.kernel.lengthscale**2)) + gp.bias**2


def evidence(problem, gp):
    """(log Z, log p(T)) for two instances by two-dimensional quadrature, summing over the four labellings."""
    x, w = normal_grid(151)
    C = prior_covariance(problem, gp)
    assert C.shape == (2, 2)
    values, vectors = np.linalg.eigh(C)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    f = np.einsum("ij,jab->iab", root, np.stack(np.meshgrid(x, x, indexing="ij")))
    weight = np.outer(w, w) * np.exp(log_psi(problem.density, f).sum(axis=0))
    H, total, agreeing = float(np.exp(problem.labels.log_H)), 0.0, 0.0
    for y in product((0, 1), repeat=2):
        mass = (weight * np.exp((y[0] - 0.5) * f[0] + (y[1] - 0.5) * f[1])).sum()
        groups = [y] if len(problem.labels.T) == 1 else [y[:1], y[1:]]
        likelihood = 1.0
        for T, group in zip(problem.labels.T, groups, strict=True):
            agrees = max(group) == T
            likelihood *= float(agrees) if np.isinf(H) else (H if agrees else 1.0) / (1 + H)
        total += mass
        agreeing += mass * likelihood
    return np.log(total), np.log(agreeing / total)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
@pytest.mark.parametrize("H", [100.0, np.inf])
@pytest.mark.parametrize(
    ("sizes", "T"),
    [
        ((2,), [1]),
        ((1, 1), [0, 1]),
        pytest.param((2,), [0], marks=pytest.mark.slow),
        pytest.param((1, 1), [0, 0], marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    ("residual", "bias", "variance"),
    [("full", 1.0, 3.0), ("projected", 1.0, 2.0), pytest.param("full", 0.0, 0.5, marks=pytest.mark.slow)],
)
def test_chain_of_bounds(density, H, sizes, T, residual, bias, variance):
    """I4: L_aug <= L_tight <= log p(T) <= 0, and mean field below exact."""
    options = {"density": density, "H": H, "residual": residual, "bias": bias, "variance": variance, "M": 2}
    totals = {}
    for rule in ("mean_field", "exact"):
        problem, gp = make(4, sizes, T=T, rule=rule, **options)
        record = next(islice(ascend(problem, KernelState(gp, Posterior.prior(gp.size))), 29, 30))
        totals[rule] = record.bound.total + record.bound.log_z
    log_z, log_p = evidence(problem, gp)
    x, w = normal_grid()
    f = record.local.mu[:, None] + np.sqrt(record.local.s2)[:, None] * x
    tight = totals["exact"] - record.bound.scale_mixture + (log_psi(density, f) @ w).sum()
    slack = 1e-9
    assert totals["mean_field"] <= totals["exact"] + slack
    assert totals["exact"] <= tight + slack
    assert tight - log_z <= log_p + slack
    assert log_p <= 0
    assert record.bound.log_z <= log_z + 1e-4  # Jensen, up to its quadrature


def test_without_log_z_nothing_bounds_the_gamma_model():
    """I4, last line: G(1, 4), two instances; the bound minus log Z stays below 0 while without it it grows with v."""
    bare, proper = [], []
    for variance in (0.5, 5.0, 50.0, 500.0):
        problem, gp = make(1, (2,), T=[0], density=GammaMixture(1.0, 4.0), H=100.0, variance=variance, M=2)
        L = bounds(problem, gp, 200)[-1] + next(ascend(problem, KernelState(gp, Posterior.prior(2)))).bound.log_z
        bare.append(L)
        proper.append(L - evidence(problem, gp)[0])
    assert max(proper) < 0
    assert np.isfinite(proper).all()
    assert bare[-1] > 10


# density, N, v, then mu, L with the true log Z, L with Jensen's, log p(T): docs/mathematics/derivations.md, section 10
COPIES = [
    (GammaMixture(1.0, 1.0), 10, 0.5, -0.470, -5.956, -5.348, -5.849),
    (GammaMixture(1.0, 4.0), 10, 0.5, -1.236, -4.399, -4.398, -4.308),
    (GammaMixture(1.0, 4.0), 10, 5.0, -20.19, -0.938, 13.05, -0.693),
    (GammaMixture(1.0, 4.0), 100, 0.5, -20.13, -0.934, 137.3, -0.693),
]


@pytest.mark.parametrize(("density", "N", "v", "mu", "true", "by_jensen", "log_p"), COPIES)
def test_copies_of_one_negative_instance(density, N, v, mu, true, by_jensen, log_p):
    """One latent value, so log Z and log p(T) are one-dimensional integrals; Jensen's value is no bound."""
    problem, gp = make(0, (1,) * N, T=[0] * N, density=density, variance=v, M=1)
    problem.X[:] = gp.Z[0]
    record = next(islice(ascend(problem, KernelState(gp, Posterior.prior(1)), accelerate=False), 699, 700))
    x, w = normal_grid(6001, 60.0)
    f = np.sqrt(v) * x
    log_weight = -0.5 * x**2 - np.log(np.exp(-0.5 * x**2).sum()) + N * log_psi(density, f)
    log_z = np.logaddexp.reduce(log_weight + N * np.log(2 * np.cosh(f / 2)))
    exact_log_p = np.logaddexp.reduce(log_weight - N * f / 2) - log_z
    L = record.bound.total + record.bound.log_z - log_z
    assert w.shape == x.shape
    assert L <= exact_log_p <= 0
    assert record.local.mu[0] == pytest.approx(mu, rel=1e-3)
    assert exact_log_p == pytest.approx(log_p, abs=6e-4)
    assert L == pytest.approx(true, abs=6e-4)
    assert record.bound.total == pytest.approx(by_jensen, rel=1e-3)


@pytest.mark.parametrize("density", [d for d in DENSITIES if d != GammaMixture(1.0, 4.0)], ids=name)
@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_one_more_pass_at_the_fixed_point_changes_nothing(density, rule):
    """I20."""
    problem, gp = make(2, density=density, rule=rule, H=100.0, variance=1.0, bias=1.0)
    records = islice(ascend(problem, KernelState(gp, Posterior.prior(gp.size))), 800)
    totals = (record.bound.total for record in records)
    assert any(abs(after - before) < 1e-10 for before, after in pairwise(totals))


@pytest.mark.parametrize("factor", [1e-3, 1.0, 50.0])
def test_scale_of_psi_does_not_matter(factor):
    """I6: psi -> k psi changes neither the fit nor the bound, since N log k cancels against log Z."""

    class Scaled(GammaMixture):
        def log_prob(self, x):
            return super().log_prob(x) + np.log(factor)

    results = []
    for density in (GammaMixture(1.0, 1.0), Scaled(1.0, 1.0)):
        problem, gp = make(3, density=density, kernel=RBF(1.0, 1.0))
        passes = ascend(problem, KernelState(gp, Posterior.prior(gp.size)), accelerate=False)
        record = next(islice(passes, 19, 20))
        results.append((record.bound.total, record.local.mu))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-11)
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_total_is_the_signed_sum_of_the_named_terms():
    bound = Bound(kl=1.0, potential=20.0, scale_mixture=300.0, bags=4000.0, entropy=50_000.0, log_z=600_000.0)
    assert bound.total == -1 + 20 + 300 + 4000 + 50_000 - 600_000
    assert bound.as_dict() == {
        "kl": 1.0,
        "potential": 20.0,
        "scale_mixture": 300.0,
        "bags": 4000.0,
        "entropy": 50_000.0,
        "log_z": 600_000.0,
        "elbo": bound.total,
    }
