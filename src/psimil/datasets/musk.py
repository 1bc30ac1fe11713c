"""MUSK1 and MUSK2 (UCI, CC BY 4.0), embedded in the package; see ``data/README.md`` for the attribution."""

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.model.bags import Bags


def load_musk1() -> tuple[Bags, NDArray[np.int64]]:
    """MUSK1: 92 molecules with 476 conformations described by 166 features.

    Returns
    -------
    bags : Bags of 92 bags, X (476, 166) float64.
    y : (92,) 1 for musk, 0 for non-musk.

    Examples
    --------
    >>> bags, y = load_musk1()
    >>> len(bags), bags.X.shape, int(y.sum())
    (92, (476, 166), 47)
    """
    return _load("musk1")


def load_musk2() -> tuple[Bags, NDArray[np.int64]]:
    """MUSK2: 102 molecules with 6598 conformations described by 166 features.

    Returns
    -------
    bags : Bags of 102 bags, X (6598, 166) float64.
    y : (102,) 1 for musk, 0 for non-musk.

    Examples
    --------
    >>> bags, y = load_musk2()
    >>> len(bags), bags.X.shape, int(y.sum())
    (102, (6598, 166), 39)
    """
    return _load("musk2")


def _load(name: str) -> tuple[Bags, NDArray[Any]]:
    """The archive ``data/<name>.npz``: X (N, D), offsets (B+1,), y (B,)."""
    with (files("psimil.datasets") / "data" / f"{name}.npz").open("rb") as stream:
        with np.load(stream, allow_pickle=False) as archive:
            X, offsets, y = archive["X"].astype(np.float64), archive["offsets"], archive["y"].astype(np.int64)
    width = len(str(len(y)))
    ids = np.array([f"{name}-{number:0{width}d}" for number in range(1, len(y) + 1)])
    return Bags(X, offsets, ids, feature_names=[f"f{d}" for d in range(1, X.shape[1] + 1)]), y
