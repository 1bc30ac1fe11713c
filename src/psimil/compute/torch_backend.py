"""The verbs of a pass on a torch device, a CPU or a GPU. Needs torch.

V stays on the device; vectors of one number per instance come back to the host, where labels and densities are worked
out, and matrices of the size of q(v) are factorised. Rows are worked through some at a time, so that only V is of the
size of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from psimil.compute.backend import Features
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.scans import scan

Item = TypeVar("Item")
Result = TypeVar("Result")

ROWS = 1 << 16  # of V at a time: 100 MB with 200 inducing points


@dataclass(frozen=True)
class TorchBackend:
    """The verbs of :class:`psimil.compute.backend.Backend` on a device.

    Examples
    --------
    >>> backend = TorchBackend("cpu")
    >>> backend.weighted_sums(torch.tensor([[1.0, 2.0]]), np.ones(1), np.ones(1))[1]
    array([1., 2.])
    """

    device: str

    @classmethod
    def reached(cls, device: str) -> Self:
        """The backend of a device, refused where torch does not know it or cannot reach it."""
        try:
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError, TypeError):  # torch built without CUDA asserts
            raise InputError(
                f'device {device!r} cannot be used: torch does not reach it. Use "cpu", or None for NumPy.'
            ) from None
        return cls(device)

    def features(
        self, gp: Features, X: Array, dtype: Any = None, *, whiten: bool = True, reuse: bool = False
    ) -> Tensor:
        """The kernel's torch form, whitened by a product, or by a solve in double precision."""
        V = self._tensor(np.empty((0, 0)), dtype or X.dtype).new_empty((len(X), gp.size))
        Z = self._tensor(gp.Z, X.dtype)
        with torch.no_grad():
            for rows in _pieces(len(X)):
                gram = gp.kernel.tensor_gram(self._tensor(X[rows]), Z)
                V[rows, : len(Z)] = _whitened(gp, gram) if whiten else gram
                V[rows, len(Z) :] = gp.bias
        return V

    def row_squares(self, V: Tensor, m: Array, U: Array) -> tuple[Array, Array]:
        """Two products per piece."""
        mean, spread = _like(m, V), torch.triu(_like(U, V))
        mu, s2 = np.empty(len(V)), np.empty(len(V))
        for rows in _pieces(len(V)):
            mu[rows] = _host(V[rows] @ mean)
            s2[rows] = _host((V[rows] @ spread).square().sum(1))
        return mu, s2

    def products(self, V: Tensor, A: Array) -> Array:
        """Pieces of the device's own size."""
        a, f = _like(A.T, V), np.empty((A.shape[1], len(V)))
        for rows in _pieces(len(V)):
            f[:, rows] = _host(a @ V[rows].T)
        return f

    def transposed_products(self, V: Tensor, G: Array) -> Array:
        """Summed on the device."""
        total = V.new_zeros((V.shape[1], len(G)))
        for rows in _pieces(len(V)):
            total = torch.addmm(total, V[rows].T, _like(G[:, rows].T, V))
        return _host(total)

    def weighted_sums(self, V: Tensor, weights: Array, linear: Array) -> tuple[Array, Array]:
        """Summed on the device, in the precision of V."""
        total, sums = V.new_zeros((V.shape[1], V.shape[1])), V.new_zeros(V.shape[1])
        for rows in _pieces(len(V)):
            W = V[rows] * _like(np.sqrt(np.abs(weights[rows])), V)[:, None]
            signed = W * _like(np.where(weights[rows] < 0, -1.0, 1.0), V)[:, None]
            total = torch.addmm(total, signed.T, W)
            sums += _like(linear[rows], V) @ V[rows]
        return _host(total), _host(sums)

    def bag_gram(self, V: Tensor, r: Array, offsets: Array, sign: Array) -> Array:
        """One vector per bag, then their product."""
        bags = torch.as_tensor(np.repeat(np.arange(len(sign)), np.diff(offsets)), device=V.device)
        R = V.new_zeros((len(sign), V.shape[1]))
        for rows in _pieces(len(V)):
            R.index_add_(0, bags[rows], V[rows] * _like(r[rows], V)[:, None])
        return _host((R * _like(sign, V)[:, None]).T @ R)

    def scanned(self, V: Tensor, rho: Array, offsets: Array) -> Tensor:
        """On the host, where steps are short."""
        return _like(scan(_host(V), rho, offsets, axis=0), V)

    def kernel_adjoint(self, gp: Features, X: Array, K: Any, left: Array, right: Array) -> Array:
        """The kernel is differentiated by torch, which needs K_xz anew."""
        Z, w = self._tensor(gp.Z, X.dtype), self._tensor(right, X.dtype)
        gradient = w.new_zeros(len(gp.kernel.log_parameters))
        for rows in _pieces(len(X)):
            parameters = self._tensor(gp.kernel.log_parameters, X.dtype).requires_grad_()
            gram = gp.kernel.tensor_gram(self._tensor(X[rows]), Z, parameters)
            with torch.no_grad():
                A = self._tensor(left[rows], X.dtype) @ w
            gradient += torch.autograd.grad(gram, parameters, A)[0]
        return _host(gradient)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """One after another."""
        return map(function, items)

    def on_host(self, V: Tensor) -> Array:
        """V in its own precision."""
        return np.asarray(V.cpu().numpy())

    def _tensor(self, A: Array, dtype: Any = None) -> Tensor:
        return torch.tensor(np.ascontiguousarray(A, dtype=dtype), device=self.device)


def _whitened(gp: Features, K: Tensor) -> Tensor:
    if gp.well_conditioned(K.element_size()):
        return K @ torch.triu(_like(gp.L_inverse_T, K))
    wide = K.double()  # single precision would leave no digit
    solved: Tensor = torch.linalg.solve_triangular(_like(gp.L, wide).T, wide, upper=True, left=False)
    return solved.to(K.dtype)


def _like(A: Array, V: Tensor) -> Tensor:
    return torch.as_tensor(np.ascontiguousarray(A), dtype=V.dtype, device=V.device)


def _host(tensor: Tensor) -> Array:
    """The values as a double precision array."""
    return tensor.detach().to("cpu", torch.float64).numpy()


def _pieces(n: int) -> Iterator[slice]:
    return (slice(start, min(start + ROWS, n)) for start in range(0, n, ROWS))
