"""Features in model coordinates: standardised and, where they are many, along the directions in which they vary."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import DataWarning
from psimil.foundations.phases import tell

Array = NDArray[Any]

FARTHEST = {"float64": 1e150, "float32": 1e15}  # squares of standardised features stay finite up to here
WIDE = 1000  # features above which a default model sees principal components of them
MOST, ENOUGH = 256, 0.99  # components, and the share of the variance that is enough
SAMPLE = 1 << 14  # instances that they are worked out from
BLOCK = 1 << 13  # instances in memory at a time
ROWS = 1 << 18  # instances whose mean and deviation are worked out at a time


@dataclass(frozen=True)
class Scaling:
    """x -> (x - location) / scale, feature by feature; of wide features then their coordinates along some directions.

    Parameters
    ----------
    location, scale : (D,) of the features.
    directions : (D, d) orthonormal columns, so that all in all x -> (x - location) @ (directions / scale[:, None]);
        None keeps all features.

    Examples
    --------
    >>> Scaling.fit(np.array([[0.0], [2.0]])).apply(np.array([[4.0]]))
    array([[3.]])
    """

    location: Array
    scale: Array
    directions: Array | None = None

    @classmethod
    def identity(cls, n_features: int) -> Scaling:
        """Leave features as they are."""
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def fit(cls, X: Array, own: int | None = None) -> Scaling:
        """Mean and deviation of each column of X (N, D); constant ones keep scale 1, with a warning of the ``own``."""
        X = np.asarray(X, dtype=np.float64)
        largest = np.abs(X).max(axis=0, initial=0.0)
        unit = np.where(largest > 0, largest, 1.0)  # so that neither sums nor squares leave the range of a double
        scaled = X / unit
        location = scaled.mean(axis=0)
        scale = (scaled - location).std(axis=0) * unit
        location = location * unit
        constant = np.ptp(X, axis=0) == 0
        spoken = constant[:own]
        if spoken.any() and not spoken.all():
            columns = ", ".join(map(str, np.flatnonzero(spoken)[:10])) + (", ..." if spoken.sum() > 10 else "")
            warnings.warn(
                f"{int(spoken.sum())} features are constant and carry no information (columns {columns}).",
                DataWarning,
                stacklevel=3,
            )
        elif len(spoken) and spoken.all():
            warnings.warn("all features are constant; instances cannot be told apart.", DataWarning, stacklevel=3)
        usable = ~constant & (scale > 0) & np.isfinite(scale)
        return cls(location, np.where(usable, scale, 1.0))

    @classmethod
    def streamed(cls, X: Any, counted: Array, own: int | None = None) -> Scaling:
        """The same of the rows of X (N, D) that count, read slice by slice.

        Parameters
        ----------
        counted : (N,) which instances count.

        Examples
        --------
        >>> Scaling.streamed(np.array([[0.0], [2.0], [9.0]]), np.array([True, True, False])).location
        array([1.])
        """
        (N, D), slices = X.shape, [slice(a, a + ROWS) for a in range(0, len(counted), ROWS)]
        if len(slices) == 1:
            return cls.fit(np.asarray(X[:N])[counted], own)

        def rows(number: int) -> Array:
            tell("mean and deviation of the features", number, 2 * len(slices))
            part = slices[number % len(slices)]
            return np.asarray(X[part], dtype=np.float64)[counted[part]]

        total, square, low, high = np.zeros(D), np.zeros(D), np.full(D, np.inf), np.full(D, -np.inf)
        for number in range(len(slices)):
            x = rows(number)
            total += x.sum(axis=0)
            low, high = np.minimum(low, x.min(axis=0, initial=np.inf)), np.maximum(high, x.max(axis=0, initial=-np.inf))
        location = total / counted.sum()
        for number in range(len(slices), 2 * len(slices)):
            square += np.square(rows(number) - location).sum(axis=0)
        scale = np.sqrt(square / counted.sum())
        return cls(location, np.where((high > low) & (scale > 0), scale, 1.0))

    def apply(self, X: Array, dtype: Any = np.float64) -> Array:
        """(N, D) features in model coordinates (N, d); beyond FARTHEST they count as just as far."""
        X, farthest = np.asarray(X), FARTHEST[np.dtype(dtype).name]
        if self.directions is not None:
            whole = Scaling(self.location, self.scale)
            starts = range(0, max(len(X), 1), BLOCK)
            blocks = [whole.apply(X[a : a + BLOCK]) @ self.directions for a in starts]
            return np.asarray(np.clip(np.concatenate(blocks), -farthest, farthest), dtype=dtype)
        if self.location.any() or (self.scale != 1.0).any():
            with np.errstate(over="ignore"):
                X = (X - self.location) / self.scale
        if max(float(X.max(initial=0.0)), -float(X.min(initial=0.0))) > farthest:
            X = np.clip(X, -farthest, farthest)
        return np.ascontiguousarray(X, dtype=dtype)

    def invert(self, Z: Array) -> Array:
        """(M, d) points back in the units of the input, (M, D)."""
        return np.asarray((Z if self.directions is None else Z @ self.directions.T) * self.scale + self.location)

    def narrowed(self, X: Any, counted: Array) -> Scaling:
        """The same along the directions in which wide features vary most.

        They are the first principal components of standardised instances, which are evenly spread over all rows: as
        many as hold 99 % of the variance, and at most 256.

        Parameters
        ----------
        X : (N, D) features, read slice by slice.
        counted : (N,) which instances count.
        """
        rows = np.flatnonzero(counted)
        rows = rows[:: max(1, len(rows) // SAMPLE)]
        second = np.zeros((len(self.location),) * 2)
        for start in range(0, len(counted), BLOCK):
            here = rows[np.searchsorted(rows, start) : np.searchsorted(rows, start + BLOCK)] - start
            if len(here):
                x = self.apply(np.asarray(X[start : start + BLOCK])[here])
                second += x.T @ x
        variance, vectors = np.linalg.eigh(second)
        share = np.cumsum(variance[::-1]) / max(float(variance.sum()), 1e-300)
        count = min(int(np.searchsorted(share, ENOUGH)) + 1, MOST)
        return Scaling(self.location, self.scale, np.ascontiguousarray(vectors[:, ::-1][:, :count]))
