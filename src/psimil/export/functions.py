"""Functions that ONNX has not, as terms: those of :mod:`psimil.foundations.logistic`, and the tail of a Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.export.terms import LARGEST, Term

Array = NDArray[Any]


def log1p(x: Term) -> Term:
    """log(1 + x), to the last digits where x is small (Kahan)."""
    u = x + 1.0
    more = u - 1.0
    changed = more.apply("Abs") > 0.0
    return changed.where(u.apply("Log") * (x / changed.where(more, 1.0)), x)


def expm1(x: Term) -> Term:
    """e^x - 1, to the last digits where x is small (Kahan)."""
    u = x.apply("Exp")
    more = u - 1.0
    near = (x.apply("Abs") < 0.5) & (more.apply("Abs") > 0.0)
    small = near.where(more * x / near.where(u, 2.0).apply("Log"), x)
    return (x.apply("Abs") < 0.5).where(small, more)


def softplus(x: Term) -> Term:
    """log(1 + e^x)."""
    return x.at_least(0.0) + log1p((-x.apply("Abs")).apply("Exp"))


def sigmoid(x: Term) -> Term:
    """1 / (1 + e^-x)."""
    e = (-x.apply("Abs")).apply("Exp")
    return (x >= 0.0).where(1.0, e) / (e + 1.0)


def log1mexp(x: Term) -> Term:
    """log(1 - e^x) for x <= 0."""
    return (x > -0.693).where((-expm1(x.at_most(0.0))).apply("Log"), log1p(-x.apply("Exp")))


def square(x: Term) -> Term:
    """x^2."""
    return x * x


def log_mean(values: Term, axis: int, count: int) -> Term:
    """Log of the mean of e^values over an axis of that many."""
    top = values.over("Max", axis, keep=True).at_least(-LARGEST)  # a number where all are minus infinity
    mean = (values - top).apply("Exp").over("Sum", axis, keep=True).apply("Log") + (top - float(np.log(count)))
    return mean.over("Sum", axis).at_most(0.0)


def variance_over(values: Term, axis: int) -> Term:
    """The variance over an axis, as of a population."""
    return square(values - values.over("Mean", axis, keep=True)).over("Mean", axis)


def log_half_erfcx(z: Term) -> Term:
    """(N,) log(erfcx(z / sqrt 2) / 2) for z >= 0, which is log Phi(-z) + z^2 / 2.

    erfcx(x) = 2 / sqrt(pi) int_0^inf exp(-t^2 - 2 x t) dt, by the trapezoid rule in y after t = exp(y - e^-y) / (1 + x)
    (Takahasi and Mori), which leaves no more than rounding.
    """
    nodes, weights = _tail_rule()
    x = z.column() * float(np.sqrt(0.5))
    t = x.graph.term(nodes) / (x + 1.0)
    integral = (-(square(t) + t * x * 2.0)).apply("Exp") @ weights
    return (integral / (x.over("Sum", 1) + 1.0) * float(1.0 / np.sqrt(np.pi))).apply("Log")


def _tail_rule() -> tuple[Array, Array]:
    """(K,) nodes and weights of that integral."""
    h = 1.0 / 32
    y = np.arange(-3.75, 4.0 + h, h)
    nodes = np.exp(y - np.exp(-y))
    return nodes, h * nodes * (1.0 + np.exp(-y))


def log_tail(mu: Term, s2: Term) -> Term:
    """(N,) log E min(e^f, 1) for mu < 0: as :mod:`psimil.predictive.moments` has it for means far from all nodes."""
    s = s2.at_least(1e-100).apply("Sqrt")
    ratio = mu / s
    z = ratio + s
    half_square = square(ratio) * 0.5
    right = z.at_least(0.0)
    left = (-z).at_least(0.0)
    scaled = log_half_erfcx(right) - half_square
    beyond = (log_half_erfcx(left) - square(left) * 0.5).apply("Exp")
    below = (z > 0.0).where(scaled, mu + s2 * 0.5 + log1p(-beyond))
    above = log_half_erfcx((-ratio).at_least(0.0)) - half_square
    top = below.at_least(above)
    return top + log1p((-(below - above).apply("Abs")).apply("Exp"))
