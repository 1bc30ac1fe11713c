"""The primitives of :mod:`psimil.foundations.blas` on torch tensors, on a CPU or a GPU. Needs torch.

A fit with ``device=`` keeps V on the device; vectors of one number per instance come back to the host, where labels
and densities are worked out, and matrices of the size of q(v) are factorised.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from psimil.foundations.errors import InputError

Array = NDArray[Any]


def check_device(name: str) -> None:
    """Refuse a device that torch does not know or cannot reach.

    Examples
    --------
    >>> check_device("cpu")
    """
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError):  # torch built without CUDA asserts
        raise InputError(
            f'device {name!r} cannot be used: torch does not reach it. Use "cpu", or None for NumPy.'
        ) from None


def to_device(A: Array, device: str, dtype: Any = None) -> Tensor:
    """A copy of the array on the device.

    Examples
    --------
    >>> to_device(np.ones(2), "cpu", np.float32)
    tensor([1., 1.])
    """
    return torch.tensor(np.ascontiguousarray(A, dtype=dtype), device=device)


def to_host(tensor: Tensor) -> Array:
    """The values as a double precision array.

    Examples
    --------
    >>> to_host(torch.ones(2, dtype=torch.float32))
    array([1., 1.])
    """
    return tensor.detach().to("cpu", torch.float64).numpy()


def multiply_upper(W: Tensor, U: Tensor) -> Tensor:
    """W U for upper triangular U (M, M), whose lower part is not read.

    Examples
    --------
    >>> multiply_upper(torch.ones(1, 2), torch.tensor([[1.0, 2.0], [9.0, 3.0]]))
    tensor([[1., 5.]])
    """
    return W @ torch.triu(U)


def solve_lower_right(W: Tensor, L: Tensor) -> Tensor:
    """W L^-T for lower triangular L (M, M), whose upper part is not read.

    Examples
    --------
    >>> solve_lower_right(torch.tensor([[2.0, 3.0]]), torch.tensor([[2.0, 0.0], [1.0, 1.0]]))
    tensor([[1., 2.]])
    """
    solved: Tensor = torch.linalg.solve_triangular(L.T, W, upper=True, left=False)
    return solved


def add_gram(G: Tensor, W: Tensor) -> Tensor:
    """G + W'W for W (n, M).

    Examples
    --------
    >>> add_gram(torch.zeros(2, 2), torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2.],
            [2., 4.]])
    """
    return torch.addmm(G, W.T, W)
