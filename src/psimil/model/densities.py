"""Gaussian scale mixtures: even densities psi with theta(c) = -psi'(c) / (c psi(c)), Eq. (28)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import DataWarning, InputError
from psimil.foundations.logistic import gauss_hermite, softplus

Array = NDArray[Any]

CURVATURE_STEP = 1e-4  # of the differences that give second derivatives of log psi


@runtime_checkable
class Density(Protocol):
    """What inference needs of psi: its logarithm and the mean of the mixing variable.

    Examples
    --------
    A class with these two methods is a density, whatever it inherits from:

    >>> class Gaussian:
    ...     def log_prob(self, x):
    ...         return -0.5 * np.square(x)
    ...
    ...     def theta(self, c):
    ...         return np.ones_like(c)
    >>> isinstance(Gaussian(), Density)
    True
    """

    def log_prob(self, x: Array) -> Array:
        """Log psi(x), elementwise; a constant may be missing. At c it normalises q(omega), Eq. (65)."""

    def theta(self, c: Array) -> Array:
        """E[omega] = -psi'(c) / (c psi(c)), elementwise and even in c: Eqs. (28), (66) and (67)."""


def check_above_zero(what: str, **values: Any) -> None:
    """Refuse parameters of a density that are not finite numbers > 0."""
    for name, value in values.items():
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number or not 0 < value < np.inf:
            rule = " and ".join(f"{one} > 0" for one in values)
            raise InputError(f"{what} needs {rule}, got {name}={value if number else repr(value)}.")


@dataclass(frozen=True)
class HyperbolicSecant:
    """phi(x) = 1 / (2 pi cosh(x / 2)): the logistic model itself, VGPMIL = PG-VGPMIL.

    Examples
    --------
    >>> HyperbolicSecant().theta(np.array([0.0, 2.0])).round(4)
    array([0.25  , 0.1904])
    """

    is_logistic: ClassVar[bool] = True  # log Z is a constant that no kernel changes, see is_logistic below

    def log_prob(self, x: Array) -> Array:
        """Log phi(x), Eq. (15)."""
        a = np.abs(x)
        return np.asarray(-np.log(np.pi) - 0.5 * a - np.log1p(np.exp(-a)))

    def theta(self, c: Array) -> Array:
        """tanh(c / 2) / (2 c), Eq. (14), the mean of q(omega) of Eq. (10); with its series below 1e-3."""
        c = np.abs(c)
        small = c < 1e-3
        x = np.where(small, 1.0, c)
        return np.asarray(np.where(small, 0.25 - c**2 / 48 + c**4 / 480, np.tanh(0.5 * x) / (2.0 * x)))


@dataclass(frozen=True)
class GammaMixture:
    """psi(x) proportional to (beta + x^2 / 2)^-alpha, Eq. (38): G-VGPMIL.

    Latent values run away with the size of the data when beta > 2 alpha^2; a warning says so at fit.

    Examples
    --------
    >>> GammaMixture(alpha=1.0, beta=2.0).theta(np.array([0.0, 2.0]))
    array([0.5 , 0.25])
    """

    alpha: float = 1.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        """Refuse parameters that give no density."""
        check_above_zero("gamma density", alpha=self.alpha, beta=self.beta)

    def log_prob(self, x: Array) -> Array:
        """-alpha log(beta + x^2 / 2), unnormalised."""
        return np.asarray(-self.alpha * np.log(self.beta + 0.5 * np.square(x)))

    def theta(self, c: Array) -> Array:
        """alpha / (beta + c^2 / 2)."""
        return np.asarray(self.alpha / (self.beta + 0.5 * np.square(c)))


@dataclass(frozen=True)
class StudentT:
    """psi(x) proportional to (1 + x^2 / (nu s^2))^(-(nu + 1) / 2), nu degrees of freedom, scale s.

    Examples
    --------
    >>> StudentT(nu=3.0).theta(np.array([0.0, 1.0])).round(4)
    array([1.3333, 1.    ])
    """

    nu: float = 4.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse parameters that give no density."""
        check_above_zero("Student density", nu=self.nu, scale=self.scale)

    def log_prob(self, x: Array) -> Array:
        """Unnormalised log density."""
        return np.asarray(-0.5 * (self.nu + 1) * np.log1p(np.square(np.asarray(x) / self.scale) / self.nu))

    def theta(self, c: Array) -> Array:
        """(nu + 1) / (nu s^2 + c^2)."""
        return np.asarray((self.nu + 1) / (self.nu * self.scale**2 + np.square(c)))


@dataclass(frozen=True)
class SmoothLaplace:
    """psi(x) proportional to exp(-rate sqrt(x^2 + width^2)): a Laplace density rounded at zero (hyperbolic law).

    Examples
    --------
    >>> SmoothLaplace(rate=0.5, width=1.0).theta(np.array([0.0]))
    array([0.5])
    """

    rate: float = 1.0
    width: float = 1.0

    def __post_init__(self) -> None:
        """Refuse parameters that give no density."""
        check_above_zero("smooth Laplace density", rate=self.rate, width=self.width)

    def log_prob(self, x: Array) -> Array:
        """-rate sqrt(x^2 + width^2)."""
        return -self.rate * np.hypot(x, self.width)

    def theta(self, c: Array) -> Array:
        """Rate / sqrt(c^2 + width^2)."""
        return self.rate / np.hypot(c, self.width)


def is_logistic(density: Density) -> bool:
    """Whether 2 cosh(f / 2) psi(f) is a constant, so that the model is the logistic one and its log Z is known.

    Examples
    --------
    >>> is_logistic(HyperbolicSecant()), is_logistic(GammaMixture())
    (True, False)
    """
    return getattr(density, "is_logistic", False) is True


def log_ratio(density: Density, f: Array) -> Array:
    """r(f) = log(2 cosh(f / 2) psi(f)), elementwise; constant for the hyperbolic secant.

    2 cosh(f / 2) is the sum over labels of Eq. (19), and Z the mean of exp sum r(f_n), Eq. (20); -log pi is Eq. (17).

    Examples
    --------
    >>> log_ratio(HyperbolicSecant(), np.array([0.0, 9.0])).round(4)
    array([-1.1447, -1.1447])
    """
    return softplus(np.asarray(-np.abs(f))) + 0.5 * np.abs(f) + density.log_prob(f)


def log_ratio_slope(density: Density, f: Array) -> Array:
    """r'(f) = tanh(f / 2) / 2 - f theta(f).

    Examples
    --------
    >>> log_ratio_slope(HyperbolicSecant(), np.array([3.0])).round(12) + 0.0
    array([0.])
    """
    return np.asarray(0.5 * np.tanh(0.5 * f) - f * density.theta(np.abs(f)))


def log_ratio_curvature(density: Density, f: Array) -> Array:
    """r''(f), by differences of r': good to eight digits for any density.

    Examples
    --------
    >>> log_ratio_curvature(GammaMixture(1.0, 1.0), np.zeros(1)).round(6)  # 1/4 - alpha / beta
    array([-0.75])
    """
    h = CURVATURE_STEP * np.maximum(1.0, np.abs(f))
    return (log_ratio_slope(density, f + h) - log_ratio_slope(density, f - h)) / (2.0 * h)


def jensen(density: Density, variance: Array) -> tuple[Array, Array]:
    """E r(f) for f ~ N(0, variance) and its derivative by the variance, each (n,): log Z >= their sum by Jensen.

    Z = E_{N(f)} prod_n 2 cosh(f_n / 2) psi(f_n) is the normaliser of psi-VGPMIL: exactly -N log pi for the hyperbolic
    secant, dependent on the kernel for every other density. Without it the Gamma model drives the kernel variance to
    infinity or to zero.

    Examples
    --------
    >>> value, slope = jensen(HyperbolicSecant(), np.array([2.0]))
    >>> value.round(4), slope
    (array([-1.1447]), array([0.]))
    """
    if is_logistic(density):
        return np.full(len(variance), -np.log(np.pi)), np.zeros(len(variance))
    x, w = gauss_hermite()
    half = x > 0  # r is even, so half of the nodes do; an even order has none at zero
    scale = np.sqrt(np.maximum(variance, 1e-12))[:, None]
    f = scale * x[half]
    value = 2.0 * log_ratio(density, f) @ w[half]
    slope = 2.0 * (log_ratio_slope(density, f) / (2.0 * scale)) @ (w[half] * x[half])
    return value, slope


def runs_away(density: Density) -> bool:
    """Whether latent values grow with the number of instances: sup c theta(c) < 1/2, for Gamma beta > 2 alpha^2.

    The pull of a label is 1/2 and the push back c theta(c); where it never reaches 1/2 nothing holds f.

    Examples
    --------
    >>> runs_away(GammaMixture(1.0, 1.0)), runs_away(GammaMixture(1.0, 4.0)), runs_away(HyperbolicSecant())
    (False, True, False)
    """
    c = np.logspace(-3, 4, 2000)
    return bool((c * density.theta(c)).max() < 0.5 - 1e-4)


def grows(density: Density) -> bool:
    """Whether 2 cosh(f / 2) psi(f) grows without bound, so that no Gaussian prior of wide scale holds f near 0.

    Then c theta(c) stays below 1/2 far out: for every Gamma and Student density, and for a Laplace density of rate
    below 1/2. The exact posterior of such a model lies at remote latent values (docs/mathematics/derivations.md).

    Examples
    --------
    >>> grows(HyperbolicSecant()), grows(GammaMixture(1.0, 1.0)), grows(SmoothLaplace(rate=1.0))
    (False, True, False)
    """
    c = np.array([1e6])
    return bool((c * density.theta(c)).max() < 0.5 - 1e-4)


def warn_if_runaway(density: Density) -> None:
    """Warn at fit when the density lets latent values grow without bound.

    Examples
    --------
    >>> warn_if_runaway(GammaMixture(1.0, 1.0))
    """
    if runs_away(density):
        name = f"alpha={density.alpha:g}, beta={density.beta:g}" if isinstance(density, GammaMixture) else repr(density)
        warnings.warn(
            f"latent values grow with data size for {name}; probabilities saturate, use log-odds.",
            DataWarning,
            stacklevel=3,
        )
