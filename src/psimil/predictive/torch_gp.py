"""The latent function and the bound on torch tensors, to be differentiated. Needs torch.

Given q(v), the bound of a bag depends on its features through the mean mu_n and variance s2_n of each f_n alone. With
the label posterior and the scale mixture at their optimum, what is left of it has a closed form for the hyperbolic
secant and H = inf (docs/mathematics/derivations.md):

    sum_n [log cosh(mu_n / 2) - log cosh(c_n / 2)] + log P(T_b | mu_b),   c_n^2 = mu_n^2 + s2_n,
    P(0 | mu_b) = prod_n sigma(-mu_n)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from psimil.foundations.errors import InputError
from psimil.model.kernels.base import Kernel
from psimil.model.kernels.torch_gram import check_kernel, gram

if TYPE_CHECKING:
    from psimil.model.sparse_gp import SparseGP
    from psimil.predictive.trained import TrainedModel


@dataclass(frozen=True, eq=False)
class TorchGP:
    """The latent function of a model with the projected prior: scaling, kernel, inducing points and q(v).

    Parameters
    ----------
    location, scale, directions : (D,), (D,) and (D, d) or None, of the features.
    kernel, parameters : the kernel, and (P,) log parameters that stand for its own, or None.
    Z : (M, D) inducing points.
    mean_weights, spread_weights : L^-T m (M,) and L^-T U (M, S), by which K_xz is multiplied.
    level, level_spread : what the constant mean adds to them, a number and (S,).

    Examples
    --------
    >>> import numpy as np
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=10, seed=0)
    >>> model = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).model_
    >>> mean, variance = TorchGP.of(model).moments(torch.from_numpy(bags.X))
    >>> bool(np.allclose(mean, model.latent(bags.X, raw=True)[0]))
    True
    """

    location: Tensor
    scale: Tensor
    directions: Tensor | None
    kernel: Kernel
    parameters: Tensor | None
    Z: Tensor
    mean_weights: Tensor
    spread_weights: Tensor
    level: Tensor
    level_spread: Tensor

    @classmethod
    def of(cls, model: TrainedModel) -> TorchGP:
        """That of a trained model, frozen, in double precision."""
        gp, posterior = model.gp, model.posterior
        check_torch(gp)
        s = model.scaling
        directions = None if s.directions is None else torch.from_numpy(s.directions)
        scaling = torch.from_numpy(s.location), torch.from_numpy(s.scale), directions
        whitening, m, U = map(torch.from_numpy, (gp.L_inverse_T, posterior.m, posterior.U))
        return cls.whitened(scaling, gp.kernel, None, torch.from_numpy(gp.Z), (whitening, gp.bias), (m, U))

    @classmethod
    def whitened(
        cls,
        scaling: tuple[Tensor, Tensor, Tensor | None],
        kernel: Kernel,
        parameters: Tensor | None,
        Z: Tensor,
        prior: tuple[Tensor, float],
        posterior: tuple[Tensor, Tensor],
    ) -> TorchGP:
        """From L^-T (M, M) and the bias of the prior, and m (S,) and U (S, S) of q(v) = N(m, U U')."""
        (L_inverse_T, bias), (m, U), M = prior, posterior, len(Z)
        level = (bias * m[-1], bias * U[-1]) if bias else (m.new_zeros(()), m.new_zeros(len(m)))
        return cls(*scaling, kernel, parameters, Z, L_inverse_T @ m[:M], L_inverse_T @ U[:M], *level)

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (N,) of f at (N, D) features, not calibrated."""
        X = (features.to(self.Z.dtype) - self.location) / self.scale
        X = X if self.directions is None else X @ self.directions
        K = gram(self.kernel, X, self.Z, self.parameters)
        W = K @ self.spread_weights + self.level_spread
        return K @ self.mean_weights + self.level, W.square().sum(1)


def check_torch(gp: SparseGP) -> None:
    """Refuse a prior whose latent function torch cannot work out."""
    if gp.residual != "projected":
        raise InputError(f'torch needs residual="projected", got "{gp.residual}".')
    check_kernel(gp.kernel)


def bag_bound(mean: Tensor, variance: Tensor, label: int) -> Tensor:
    """What one bag adds to the bound, from the moments (n,) of its latents, all local parameters at their optimum.

    Examples
    --------
    >>> zero = torch.zeros(1, dtype=torch.float64)
    >>> bag_bound(zero, zero, 1)  # log 1/2
    tensor(-0.6931, dtype=torch.float64)
    """
    c = torch.sqrt(mean.square() + variance + 1e-300)
    log_survival = logsigmoid(-mean).sum()
    agreement = torch.log(-torch.expm1(log_survival.clamp(max=-1e-300))) if label == 1 else log_survival
    return (_log_cosh_half(mean) - _log_cosh_half(c)).sum() + agreement


def _log_cosh_half(x: Tensor) -> Tensor:
    """log cosh(x / 2), without overflow."""
    magnitude = x.abs()
    return 0.5 * magnitude + softplus(-magnitude) - math.log(2.0)
