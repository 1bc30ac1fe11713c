"""Labels of a bag that share noise, spelled out: in decimal arithmetic, and by drawing the frailty and the labels.

Nothing here calls the package for a number.
"""

from dataclasses import replace
from decimal import Decimal, getcontext, localcontext
from functools import cache

import numpy as np

from problems import make


def make_shared(seed=0, sizes=(1, 3, 2, 4, 2), *, sharing, **options):
    """As problems.make, with labels that share noise."""
    problem, gp = make(seed, sizes, **options)
    return replace(problem, labels=replace(problem.labels, sharing=sharing)), gp


# ---------------------------------------------------------------- oracles


@cache
def power_of_hazard(x, power, digits):
    """log(1 + e^x)^power of Decimals."""
    with localcontext(prec=digits):
        return (1 + x.exp()).ln() ** power


def total(f, tau):
    """-log P(all y = 0) = (sum a^eta)^(1 / eta) of Decimals f, by its definition; 0 for no instance."""
    eta, digits = 1 / (1 - tau), getcontext().prec
    return sum((power_of_hazard(x, eta, digits) for x in f), Decimal(0)) ** (1 - tau)


def factor(f, T, tau, H=np.inf, known=None):
    """p(T, known y | f) of one bag of Decimals f, Eq. (4) with H, and P(y = 1 | T, known y, f) of its instances."""
    known = [-1] * len(f) if known is None else known
    agree = Decimal(1) if H == np.inf else Decimal(H) / (Decimal(H) + 1)
    within, without = (agree, 1 - agree) if T == 1 else (1 - agree, agree)
    P0 = (-total([x for x, k in zip(f, known, strict=True) if k < 0], tau)).exp() * (1 not in known)
    told, s = within * (1 - P0) + without * P0, [1 / (1 + (-x).exp()) for x in f]
    given = Decimal(1)
    for s_n, k in zip(s, known, strict=True):
        given *= {-1: Decimal(1), 0: 1 - s_n, 1: s_n}[k]
    return told * given, [within * s_n / told if k < 0 else Decimal(k) for s_n, k in zip(s, known, strict=True)]


def frailties(tau, count, rng):
    """(count,) positive stable numbers with E e^(-t W) = e^(-t^(1 - tau)), of Chambers, Mallows and Stuck."""
    alpha, angle = 1.0 - tau, np.pi * rng.random(count)
    tail = (np.sin((1.0 - alpha) * angle) / rng.exponential(size=count)) ** ((1.0 - alpha) / alpha)
    return np.sin(alpha * angle) / np.sin(angle) ** (1.0 / alpha) * tail


def noise(tau, count, instances, rng):
    """(count, instances) what y is 0 for if its hazard is smaller: exponential, dependent through a frailty."""
    W = frailties(tau, count, rng)[:, None]
    return (rng.exponential(size=(count, instances)) / W) ** (1.0 - tau)


def drawn_labels(f, tau, count, rng):
    """(count, n) labels of one bag at f (n,)."""
    return np.logaddexp(0.0, f) > noise(tau, count, len(f), rng)


def negative(f, offsets, tau):
    """(S, B) P(all y = 0) of bags at f (S, N), in doubles."""
    parts = np.split(np.logaddexp(0.0, f), offsets[1:-1], axis=1)
    return np.exp(-np.stack([(a ** (1.0 / (1.0 - tau))).sum(axis=1) ** (1.0 - tau) for a in parts], axis=1))


def copies(seed=0, bags=60, most=20):
    """Arrays (n, 2) of near copies of one instance, more of them in some bags than in others, and labels of bags."""
    rng, y = np.random.default_rng(seed), np.arange(bags) % 2
    sizes, means = rng.integers(1, most + 1, bags), rng.normal(size=(bags, 2))
    means[:, 0] += 2.0 * y - 1.0
    return [mean + 0.05 * rng.normal(size=(n, 2)) for mean, n in zip(means, sizes, strict=True)], y
