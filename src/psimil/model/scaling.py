"""Standardisation of features, remembered with the model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import DataWarning

Array = NDArray[Any]

FARTHEST = {"float64": 1e150, "float32": 1e15}  # squares of standardised features stay finite up to here


@dataclass(frozen=True)
class Scaling:
    """x -> (x - location) / scale, feature by feature.

    Examples
    --------
    >>> Scaling.fit(np.array([[0.0], [2.0]])).apply(np.array([[4.0]]))
    array([[3.]])
    """

    location: Array
    scale: Array

    @classmethod
    def identity(cls, n_features: int) -> Scaling:
        """Leave features as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def fit(cls, X: Array) -> Scaling:
        """Mean and standard deviation of each column of X (N, D); constant columns keep scale 1, with a warning."""
        X = np.asarray(X, dtype=np.float64)
        largest = np.abs(X).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)  # so that neither sums nor squares leave the range of a double
        scaled = X / unit
        location = scaled.mean(axis=0)
        scale = (scaled - location).std(axis=0) * unit
        location = location * unit
        constant = np.ptp(X, axis=0) == 0
        if constant.any() and not constant.all():
            columns = ", ".join(map(str, np.flatnonzero(constant)[:10])) + (", ..." if constant.sum() > 10 else "")
            warnings.warn(
                f"{int(constant.sum())} features are constant and carry no information (columns {columns}).",
                DataWarning,
                stacklevel=3,
            )
        elif constant.all():
            warnings.warn("all features are constant; instances cannot be told apart.", DataWarning, stacklevel=3)
        usable = ~constant & (scale > 0) & np.isfinite(scale)
        return cls(location, np.where(usable, scale, 1.0))

    def apply(self, X: Array, dtype: Any = np.float64) -> Array:
        """(N, D) features in model coordinates; beyond FARTHEST they count as just as far."""
        farthest = FARTHEST[np.dtype(dtype).name]
        if self.location.any() or (self.scale != 1.0).any():
            with np.errstate(over="ignore"):
                X = (X - self.location) / self.scale
        if max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))) > farthest:
            X = np.clip(X, -farthest, farthest)
        return np.ascontiguousarray(X, dtype=dtype)

    def invert(self, Z: Array) -> Array:
        """(M, D) points back in the units of the input."""
        return Z * self.scale + self.location
