"""The bags that estimators are checked on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Example:
    """Bags (n_i, D), their labels (B,) and the labels of their instances, one (n_i,) array per bag."""

    bags: list[Array]
    y: Array
    y_instances: list[Array]


@cache
def easy_problem(seed: int = 0, n_bags: int = 16, n_features: int = 3) -> Example:
    """Bags of one to four instances; the positive instances stand out in the last feature, by four units.

    The arrays are shared: copy them before they go anywhere.

    Examples
    --------
    >>> example = easy_problem()
    >>> len(example.bags), int(example.y.sum()), example.bags[0].shape[1]
    (16, 8, 3)
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_bags) % 2)
    bags, y_instances = [], []
    for label in y:
        size = int(rng.integers(1, 5))
        witness = label * (rng.permutation(size) < max(1, size // 2)).astype(np.int64)
        bag = rng.standard_normal((size, n_features))
        bag[:, -1] += 4.0 * witness
        bags.append(bag)
        y_instances.append(witness)
    return Example(bags, y, y_instances)
