"""Gram matrices on torch tensors, differentiable by the points and by the parameters. Needs torch."""

from __future__ import annotations

import torch
from torch import Tensor

from psimil.foundations.errors import InputError
from psimil.model.kernels.base import Constant, Kernel, Linear, Sum
from psimil.model.kernels.columns import Columns
from psimil.model.kernels.stationary import RBF, Matern32, Matern52, Stationary


def check_kernel(kernel: Kernel) -> None:
    """Refuse a kernel that :func:`gram` does not know.

    Examples
    --------
    >>> check_kernel(RBF() + Linear())
    """
    if isinstance(kernel, Sum):
        check_kernel(kernel.left)
        check_kernel(kernel.right)
    elif isinstance(kernel, Columns):
        check_kernel(kernel.kernel)
    elif type(kernel) not in (RBF, Matern32, Matern52, Linear, Constant):
        raise InputError(f"torch knows RBF, Matern, linear and constant kernels and their sums, got {kernel}.")


def log_parameters(kernel: Kernel, like: Tensor) -> Tensor:
    """(P,) the kernel's log parameters, in the type and on the device of ``like``.

    Examples
    --------
    >>> log_parameters(Constant(1.0), torch.zeros(1))
    tensor([0.])
    """
    return torch.tensor(kernel.log_parameters, dtype=like.dtype, device=like.device)


def gram(kernel: Kernel, X: Tensor, Z: Tensor, parameters: Tensor | None = None) -> Tensor:
    """K_xz (n, M) of X (n, D) and Z (M, D).

    Parameters
    ----------
    parameters : (P,) log parameters that stand for the kernel's own, to differentiate by; None for its own.

    Examples
    --------
    >>> gram(Linear(2.0), torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[22.]])
    """
    parameters = log_parameters(kernel, X) if parameters is None else parameters
    if isinstance(kernel, Sum):
        split = len(kernel.left.log_parameters)
        return gram(kernel.left, X, Z, parameters[:split]) + gram(kernel.right, X, Z, parameters[split:])
    if isinstance(kernel, Columns):
        columns = slice(kernel.start, kernel.stop)
        return gram(kernel.kernel, X[:, columns], Z[:, columns], parameters)
    variance = torch.exp(parameters[0])
    if isinstance(kernel, Linear):
        return variance * X @ Z.T
    if isinstance(kernel, Constant):
        return variance * X.new_ones((len(X), len(Z)))
    assert isinstance(kernel, Stationary)  # check_kernel has seen it
    return variance * _profile(kernel, _squared_distance(X, Z, torch.exp(parameters[1:])))


def _squared_distance(X: Tensor, Z: Tensor, lengthscale: Tensor) -> Tensor:
    centre = Z.mean(0)  # only differences count, and small numbers keep their digits
    x, z = (X - centre) / lengthscale, (Z - centre) / lengthscale
    return (x.square().sum(1)[:, None] + z.square().sum(1) - 2.0 * x @ z.T).clamp(min=0.0)


def _profile(kernel: Stationary, s: Tensor) -> Tensor:
    """g(s); the root's slope at 0 is infinite, but g has one without it."""
    if isinstance(kernel, RBF):
        return torch.exp(-0.5 * s)
    order = 3.0 if isinstance(kernel, Matern32) else 5.0
    r = torch.sqrt(order * s.clamp(min=1e-36))
    return (1.0 + r if order == 3.0 else 1.0 + r + r.square() / 3.0) * torch.exp(-r)
