"""Bags with an order, and what the model of chained labels says of them, spelled out by enumeration of all labels.

Nothing below the line "oracles" calls the package for a number.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

from problems import labellings, log_psi, make, offsets_of, rbf
from psimil.model.densities import HyperbolicSecant

LOGISTIC = HyperbolicSecant()


def links_for(sizes, seed=0, largest=2.0):
    """(N,) links of their own between any two neighbours, a fifth of them gaps."""
    rng, offsets = np.random.default_rng(seed), offsets_of(sizes)
    links = np.maximum(rng.uniform(-0.25 * largest, largest, offsets[-1]), 0.0)
    links[offsets[1:] - 1] = 0.0
    return links


def make_chained(seed=0, sizes=(1, 3, 2, 4, 2), *, links=None, **options):
    """As problems.make, with links between neighbours."""
    problem, gp = make(seed, sizes, **options)
    links = links_for(sizes, seed) if links is None else np.asarray(links, dtype=float)
    return replace(problem, labels=replace(problem.labels, links=links)), gp


# ---------------------------------------------------------------- oracles


def joint(f, J):
    """(S, 2^n) log p(y | f) of the labels of one bag, for f (S, n) and links J (n,): normalised by enumeration."""
    Y = labellings(f.shape[1])
    log_w = f @ Y.T + (Y[:, 1:] == Y[:, :-1]) @ J[:-1]
    return log_w - logsumexp(log_w, axis=1, keepdims=True)


def log_factor(f, J, T, H=np.inf, known=None, density=LOGISTIC):
    """(S,) log p(T, known y | f) of one bag at f (S, n), by enumeration; densities up to a factor per instance."""
    Y = labellings(f.shape[1])
    right, wrong = (0.0, -np.inf) if np.isinf(H) else (-np.log1p(1.0 / H), -np.log1p(H))
    log_joint = joint(f, J) + np.where(Y.max(axis=1) == T, right, wrong)
    if known is not None:
        known = np.asarray(known)
        log_joint = np.where(((known < 0) | (Y == known)).all(axis=1), log_joint, -np.inf)
    value = logsumexp(log_joint, axis=1)
    if density == LOGISTIC:
        return value
    return value + (log_psi(density, f) + np.log(2 * np.cosh(f / 2))).sum(axis=1)


def label_posterior(f, J, T, H=np.inf, known=None):
    """(n,) P(y = 1 | T, known y, f) of one bag at f (n,), and the covariance (n, n) of y."""
    Y = labellings(len(f))
    agree, differ = (1.0, 0.0) if np.isinf(H) else (H / (1 + H), 1 / (1 + H))
    p = np.exp(joint(f[None], J)[0]) * np.where(Y.max(axis=1) == T, agree, differ)
    if known is not None:
        known = np.asarray(known)
        p = p * ((known < 0) | (Y == known)).all(axis=1)
    p = p / p.sum()
    mean = p @ Y
    return mean, (Y * p[:, None]).T @ Y - np.outer(mean, mean)


def free_moments(f, J):
    """(n,) P(y = 1 | f) and (n, n) the covariance of y of one bag before its label is known."""
    return label_posterior(f, J, 0, 1.0)


def bag_derivatives(f, J, T, H=np.inf, known=None):
    """Gradient (n,) and -Hessian (n, n) of log p(T, known y | f): differences of cumulants of an exponential family."""
    (mean, spread), (told, told_spread) = free_moments(f, J), label_posterior(f, J, T, H, known)
    return told - mean, spread - told_spread


def chain_matrix(c, rho):
    """(n, n) c_i rho_i ... rho_j-1 of one bag, entry by entry."""
    n = len(c)
    return np.array([[c[min(i, j)] * np.prod(rho[min(i, j) : max(i, j)]) for j in range(n)] for i in range(n)])


def dense_curvature(sites, offsets, signs):
    """(N, N) Lambda of all bags: diagonal, r r' and what chains have off their diagonals."""
    Lambda = np.zeros((offsets[-1], offsets[-1]))
    for b, (start, stop) in enumerate(pairwise(offsets)):
        rows = slice(start, stop)
        r = sites.vector[rows]
        found = np.diag(sites.diagonal[rows]) + signs[b] * np.outer(r, r)
        for c, rho in sites.chains:
            C = chain_matrix(c[rows], rho[rows])
            found += C - np.diag(np.diag(C))
        Lambda[rows, rows] = found
    return Lambda


def sign_of(T, H=np.inf):
    """(B,) sign of r r': what H < 1 says of T, 1 / H says of 1 - T."""
    T = np.asarray(T)
    return 2.0 * (T if H >= 1 else 1 - T) - 1.0


def dense_V(problem, gp):
    """V by dense algebra, from the formula of the RBF kernel."""
    v, scale, X = gp.kernel.variance, gp.kernel.lengthscale, np.asarray(problem.X, dtype=float)
    L = np.linalg.cholesky(rbf(gp.Z, gp.Z, v, scale))
    V = np.linalg.solve(L, rbf(X, gp.Z, v, scale).T).T
    return np.column_stack([V, np.full(len(V), gp.bias)]) if gp.bias else V


def runs(seed=0, bags=30, size=6, length=3, separation=2.0):
    """Ordered instances, (bags, size, 2), with a run of positives in every other bag; labels of bags and instances."""
    rng = np.random.default_rng(seed)
    y = np.zeros((bags, size), dtype=int)
    for bag in y[1::2]:
        start = rng.integers(0, size - length + 1)
        bag[start : start + length] = 1
    X = rng.normal(size=(bags, size, 2))
    X[:, :, 0] += separation * y
    return X, y.max(axis=1), y
