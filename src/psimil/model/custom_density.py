"""A density from the user's own log psi, with theta derived and the scale-mixture property checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError

Array = NDArray[Any]

_GRID = np.concatenate([[0.0], np.logspace(-3, 2, 200)])


@dataclass(frozen=True)
class CustomDensity:
    """Density whose theta is the numerical derivative of a log psi; made by :func:`density_from_log`."""

    log_psi: Callable[[Array], Array]
    name: str = "custom"

    def log_prob(self, x: Array) -> Array:
        """Log psi(x)."""
        return np.asarray(self.log_psi(np.asarray(x, dtype=np.float64)))

    def theta(self, c: Array) -> Array:
        """-2 d log psi / d(c^2): a four-point difference in c; near zero, where that is 0 / 0, its value at 4e-3."""
        c = np.abs(np.asarray(c, dtype=np.float64))
        h = 1e-3 * np.maximum(c, 1.0)
        centre = np.maximum(c, 4 * h)  # theta is flat to O(h^2) around zero
        slope = (
            8 * (self.log_prob(centre + h) - self.log_prob(centre - h))
            - (self.log_prob(centre + 2 * h) - self.log_prob(centre - 2 * h))
        ) / (12 * h)
        return np.asarray(-slope / centre)


@dataclass(frozen=True)
class LostDensity:
    """Stands for a density of the user's own, of which a file holds the name alone; nothing can be learned with it.

    Examples
    --------
    >>> LostDensity("mine").theta(np.zeros(1))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: the model has a density of your own, mine, which a file cannot hold. ...
    """

    name: str

    def log_prob(self, x: Array) -> Array:
        """Refused."""
        raise InputError(
            f"the model has a density of your own, {self.name}, which a file cannot hold. It predicts; to go on "
            "learning, give it back with set_params(density=...)."
        )

    theta = log_prob


def density_from_log(log_psi: Callable[[Array], Array], *, name: str = "custom") -> CustomDensity:
    """A density from any even, vectorised log psi; refused when it is not a Gaussian scale mixture, Eq. (40).

    psi is a Gaussian scale mixture only if log psi(sqrt(t)) falls and is convex in t, that is, if theta is
    positive and does not increase. Both are checked on [0, 100].

    Parameters
    ----------
    log_psi : maps an array to log psi elementwise; an additive constant does not matter.

    Examples
    --------
    >>> density = density_from_log(lambda x: -2 * np.log(3.0 + x**2 / 2))
    >>> density.theta(np.array([1.0])).round(6)
    array([0.571429])
    """
    if not callable(log_psi):
        raise InputError(f"log psi must be a function of an array, got {log_psi!r}.")
    density = CustomDensity(log_psi, name)
    try:
        values, mirrored = density.log_prob(_GRID), density.log_prob(-_GRID)
        numbers = values.dtype.kind in "fiu" and values.shape == mirrored.shape == _GRID.shape
    except (TypeError, ValueError) as error:
        raise InputError("log psi must take an array and return one number per element.") from error
    if not numbers or not np.isfinite(values).all():
        raise InputError("log psi must return one finite number per element.")
    if not np.allclose(values, mirrored, rtol=1e-9, atol=1e-9):
        worst = _GRID[np.argmax(np.abs(values - mirrored))]
        raise InputError(f"psi is not even: log psi({worst:.3g}) differs from log psi({-worst:.3g}).")
    theta = density.theta(_GRID)
    if (theta <= 0).any():
        first = int(np.argmax(theta <= 0))
        raise InputError(f"psi is not a Gaussian scale mixture: theta({_GRID[first]:.3g}) = {theta[first]:.3g} < 0.")
    rises = np.diff(theta) > 1e-5 * theta[:-1]
    if rises.any():
        first = int(np.argmax(rises))
        raise InputError(
            f"psi is not a Gaussian scale mixture: theta rises from {theta[first]:.6g} at {_GRID[first]:.3g} "
            f"to {theta[first + 1]:.6g} at {_GRID[first + 1]:.3g}."
        )
    return density
