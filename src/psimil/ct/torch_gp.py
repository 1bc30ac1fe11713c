"""q(f) and the bound of a trained Gaussian process as functions of features that torch can differentiate. Needs torch.

Given q(v), the bound of a bag depends on its features through the mean mu_n and variance s2_n of each f_n alone. With
the label posterior and the scale mixture at their optimum, what is left of it has a closed form for the hyperbolic
secant and H = inf (docs/derivations.md):

    sum_n [log cosh(mu_n / 2) - log cosh(c_n / 2)] + log P(T_b | mu_b),   c_n^2 = mu_n^2 + s2_n,
    P(0 | mu_b) = prod_n sigma(-mu_n)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from psimil.foundations.errors import InputError
from psimil.inference.trained import TrainedModel
from psimil.model.kernels.base import Kernel
from psimil.model.kernels.torch_gram import check_kernel, gram


@dataclass(frozen=True, eq=False)
class TorchGP:
    """The latent function of a trained model, frozen: scaling, kernel, inducing points and q(v).

    Examples
    --------
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
    kernel: Kernel
    Z: Tensor
    mean_weights: Tensor
    spread_weights: Tensor
    level: float
    level_spread: Tensor

    @classmethod
    def of(cls, model: TrainedModel) -> TorchGP:
        """From a model with the projected prior, in double precision."""
        gp, posterior = model.gp, model.posterior
        if gp.residual != "projected":
            raise InputError(f'joint training needs residual="projected", got "{gp.residual}".')
        check_kernel(gp.kernel)
        M = len(gp.Z)
        return cls(
            torch.from_numpy(model.scaling.location),
            torch.from_numpy(model.scaling.scale),
            gp.kernel,
            torch.from_numpy(gp.Z),
            torch.from_numpy(gp.L_inverse_T @ posterior.m[:M]),
            torch.from_numpy(gp.L_inverse_T @ posterior.U[:M]),
            float(gp.bias * posterior.m[-1]) if gp.bias else 0.0,
            torch.from_numpy(gp.bias * posterior.U[-1] if gp.bias else np.zeros(posterior.U.shape[1])),
        )

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance (N,) of f at (N, D) features, not calibrated."""
        X = (features.to(self.Z.dtype) - self.location) / self.scale
        K = gram(self.kernel, X, self.Z)
        W = K @ self.spread_weights + self.level_spread
        return K @ self.mean_weights + self.level, W.square().sum(1)


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
