"""Small problems for the tests of the mathematics, and the model's formulas written out densely and slowly.

Nothing below the line "oracles" calls the package for a number: kernels, densities, label posteriors and the bound
are spelled out again with dense matrices, enumeration of labels and complex steps.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product

import numpy as np

from psimil.files.schema import DENSITIES as LISTED
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.custom_density import density_from_log
from psimil.model.densities import GammaMixture, HyperbolicSecant, SmoothLaplace, StudentT
from psimil.model.kernels import RBF
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.paper.label_posteriors import RULES
from psimil.paper.published import SURROGATE, ClippedGammaMixture, UnitSparseGP


def _custom_log_psi(x):
    return -2.0 * np.log(3.0 + x**2 / 2)


CUSTOM = density_from_log(_custom_log_psi, name="custom")
FOUR = [HyperbolicSecant(), GammaMixture(1.0, 1.0), GammaMixture(1.0, 4.0), StudentT(4.0)]
DENSITIES = [
    *FOUR,
    GammaMixture(0.5, 1.0),
    StudentT(1.0, 2.0),
    SmoothLaplace(0.5, 1.0),
    SmoothLaplace(2.0, 0.3),
    CUSTOM,
]
# A density that is new in psimil.files.schema.DENSITIES joins every test with its default parameters.
NEW = [kind() for kind in LISTED.values() if kind not in {*map(type, DENSITIES), ClippedGammaMixture}]
DENSITIES += NEW


def name(density):
    return "custom" if density is CUSTOM else repr(density)


def offsets_of(sizes):
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def make(
    seed=0,
    sizes=(1, 3, 2, 4, 2),
    *,
    D=2,
    M=5,
    T=None,
    density=FOUR[0],
    H=np.inf,
    rule="exact",
    residual="full",
    bias=0.0,
    variance=1.5,
    lengthscale=1.2,
    kernel=None,
    weights=None,
    known=None,
    rows=2000,
    keep=True,
    whole=True,
    dtype=np.float64,
):
    """A random problem with well separated inducing points: (Shard, SparseGP)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sum(sizes), D))
    Z = 1.5 * rng.normal(size=(M, D))
    T = rng.permutation(np.arange(len(sizes)) % 2) if T is None else np.asarray(T)
    labels = Labels(T, offsets_of(sizes), float(np.log(H)), None if known is None else np.asarray(known))
    weights = np.ones(len(sizes)) if weights is None else np.asarray(weights, dtype=float)
    rule = SURROGATE if rule == "max" else RULES[rule]
    shard = Shard(X.astype(dtype), labels, weights, density, rule, rows=rows, keep=keep and whole, whole=whole)
    prior, residual = (UnitSparseGP, "full") if residual == "unit" else (SparseGP, residual)
    return shard, prior.build(kernel or RBF(variance, lengthscale), Z, bias=bias, residual=residual)


def random_posterior(size, seed=0, spread=1.0):
    """A q(v) that is no optimum of anything."""
    rng = np.random.default_rng(seed)
    B = spread * rng.normal(size=(size, size)) / np.sqrt(size)
    return Posterior(rng.normal(size=size), np.linalg.cholesky(np.eye(size) + B @ B.T))


# ---------------------------------------------------------------- oracles


def rbf(X, Z, variance, lengthscale):
    difference = (X[:, None, :] - Z[None, :, :]) / np.asarray(lengthscale)
    return variance * np.exp(-0.5 * (difference**2).sum(-1))


def log_psi(density, x):
    """Log psi, also for complex x."""
    if isinstance(density, HyperbolicSecant):
        return -np.log(2 * np.pi * np.cosh(x / 2))
    if isinstance(density, GammaMixture):
        return -density.alpha * np.log(density.beta + x * x / 2)
    if isinstance(density, StudentT):
        return -0.5 * (density.nu + 1) * np.log(1 + x * x / (density.nu * density.scale**2))
    if isinstance(density, SmoothLaplace):
        return -density.rate * np.sqrt(x * x + density.width**2)
    return _custom_log_psi(x) if density is CUSTOM else _own_log_psi(density, x)


def _own_log_psi(density, x):
    """Of a new density: what it says itself, for complex x to first order, which is all a complex step asks for."""
    if np.iscomplexobj(x):
        return density.log_prob(x.real) - 1j * x.imag * x.real * density.theta(np.abs(x.real))
    return density.log_prob(x)


def theta(density, c):
    """-psi'/(c psi) for c > 0 by a complex step."""
    c = np.asarray(c, dtype=float)
    return -np.imag(log_psi(density, c + 1e-30j)) / 1e-30 / c


@cache
def labellings(n):
    return np.array(list(product((0, 1), repeat=n)))


def joint_exact(mu, T, H, known=None):
    """(2^n,) the optimal q(y) of one bag, by enumeration: exp(y'mu) H^G, zero where it contradicts known labels."""
    Y = labellings(len(mu))
    agree = Y.max(axis=1) == T
    log_weight = Y @ mu + np.where(agree, 0.0, -np.log(H))
    if known is not None:
        fixed = np.asarray(known) >= 0
        log_weight = np.where((Y[:, fixed] == np.asarray(known)[fixed]).all(axis=1), log_weight, -np.inf)
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def joint_product(pi):
    """(2^n,) independent labels."""
    Y = labellings(len(pi))
    return np.prod(np.where(Y == 1, pi, 1 - np.asarray(pi)), axis=1)


def marginals(joint, n):
    return joint @ labellings(n)


def label_terms(joint, mu, T, H):
    """Potential, E log p(T | y) and entropy of one bag for any joint q(y)."""
    Y = labellings(len(mu))
    wrong = joint[Y.max(axis=1) != T].sum()
    if np.isinf(H):
        bag = 0.0 if wrong == 0 else -np.inf
    else:
        bag = np.log(H) * (1 - wrong) - np.log1p(H)
    positive = joint[joint > 0]
    return ((joint @ Y) - 0.5) @ mu, bag, -(positive * np.log(positive)).sum()


@dataclass(frozen=True)
class Dense:
    """The model in the coordinates of u: mu = A m, s2 = k + diag(A S A'), prior covariance K of u.

    A constant mean is one more entry of u with prior variance 1 and column b.
    """

    A: np.ndarray
    K: np.ndarray
    k: np.ndarray

    def moments(self, m, S):
        return self.A @ m, self.k + np.einsum("nm,mk,nk->n", self.A, S, self.A)


def dense(problem, gp, X=None):
    X = np.asarray(problem.X if X is None else X, dtype=float)
    v, scale = gp.kernel.variance, gp.kernel.lengthscale
    assert gp.jitter == 0.0
    K_zz, K_xz = rbf(gp.Z, gp.Z, v, scale), rbf(X, gp.Z, v, scale)
    A = K_xz @ np.linalg.inv(K_zz)
    left = v - (A * K_xz).sum(axis=1)
    k = {"full": left, "projected": 0 * left, "unit": 1 - v + left}[gp.residual]
    if gp.bias:
        A = np.column_stack([A, np.full(len(A), gp.bias)])
        K_zz = np.block([[K_zz, np.zeros((len(K_zz), 1))], [np.zeros((1, len(K_zz))), np.ones((1, 1))]])
    return Dense(A, K_zz, k)


def unwhitened(gp, posterior):
    """q(u) of a q(v), with a factor computed here."""
    v, scale = gp.kernel.variance, gp.kernel.lengthscale
    L = np.eye(len(posterior.m))
    L[: len(gp.Z), : len(gp.Z)] = np.linalg.cholesky(rbf(gp.Z, gp.Z, v, scale))
    S = np.linalg.inv(posterior.R @ posterior.R.T)
    return L @ posterior.m, L @ S @ L.T


def gaussian_kl(m, S, K):
    """KL(N(m, S) || N(0, K))."""
    inverse = np.linalg.inv(K)
    log_dets = np.linalg.slogdet(K)[1] - np.linalg.slogdet(S)[1]
    return 0.5 * (np.trace(inverse @ S) + m @ inverse @ m - len(m) + log_dets)


def elbo(problem, model, m, S, c, joints, log_z=0.0):
    """L of I1, term by term from its definition; joints: one (2^n,) array per bag."""
    H = float(np.exp(problem.labels.log_H))
    mu, s2 = model.moments(m, S)
    scale_mixture = log_psi(problem.density, c) + theta(problem.density, c) * (c**2 - mu**2 - s2) / 2
    total = -gaussian_kl(m, S, model.K) - log_z
    for b, (start, stop) in enumerate(pairwise(problem.labels.offsets)):
        terms = label_terms(joints[b], mu[start:stop], problem.labels.T[b], H)
        total += problem.weights[b] * (sum(terms) + scale_mixture[start:stop].sum())
    return total


def optimal_joints(problem, mu, pi=None):
    """The joint q(y) of every bag: the enumerated optimum, or independent labels for a given pi."""
    H = float(np.exp(problem.labels.log_H))
    joints = []
    for b, (start, stop) in enumerate(pairwise(problem.labels.offsets)):
        known = None if problem.labels.known is None else problem.labels.known[start:stop]
        T = problem.labels.T[b]
        joints.append(joint_exact(mu[start:stop], T, H, known) if pi is None else joint_product(pi[start:stop]))
    return joints


def solve_q(problem, model, precisions, kappa, keep=None):
    """(m, S) of q(u) by dense algebra from theta and kappa, over the instances in ``keep``."""
    w = np.repeat(problem.weights, np.diff(problem.labels.offsets))
    w = w if keep is None else w * keep
    P = np.linalg.inv(model.K) + (model.A * (w * precisions)[:, None]).T @ model.A
    S = np.linalg.inv(P)
    return S @ (model.A.T @ (w * kappa)), S


def normal_grid(points=2001, reach=9.0):
    """Nodes and weights of the trapezoid rule for the standard normal: exact to rounding for smooth integrands."""
    x = np.linspace(-reach, reach, points)
    w = np.exp(-0.5 * x**2)
    return x, w / w.sum()


def central_difference(function, x, h=1e-3):
    """Gradient by the five-point rule: error O(h^4)."""
    gradient = np.empty(len(x))
    for i, e in enumerate(np.eye(len(x)) * h):
        gradient[i] = (8 * (function(x + e) - function(x - e)) - (function(x + 2 * e) - function(x - 2 * e))) / (12 * h)
    return gradient
