"""What a fit starts from: the scale of the features, the inducing points and the first kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.options import Options
from psimil.inference.sparse_gp import SparseGP
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant
from psimil.model.inducing import choose_inducing
from psimil.model.kernels import RBF, Kernel, Linear
from psimil.model.scaling import Scaling

Array = NDArray[Any]

MEAN_SCALE = 3.0  # prior standard deviation of the constant mean, in log-odds


@dataclass(frozen=True)
class Supervision:
    """Labels (B,), weights (B,) and known instance labels (N,) or None of the training bags."""

    T: Array
    weights: Array
    known: Array | None = None


def choose_scaling(bags: Bags, options: Options) -> Scaling:
    """Standardisation learned on the training instances, or none."""
    return Scaling.fit(bags.X) if options.standardize else Scaling.identity(bags.n_features)


def choose_sparse_gp(
    X: Array, scaling: Scaling, bags: Bags, supervision: Supervision, options: Options, rng: np.random.Generator
) -> SparseGP:
    """Inducing points and the kernel that learning starts from.

    Parameters
    ----------
    X : (N, D) standardised instances.
    """
    kernel = (options.kernel or _first_kernel(options, bags.n_features)).resolve(bags.n_features)
    if options.inducing_points is None:
        positive = np.repeat(supervision.T, bags.sizes) == 1
        Z = choose_inducing(X, positive, options.n_inducing, options.inducing, kernel, rng)
    else:
        Z = scaling.apply(options.inducing_points)
    bias = MEAN_SCALE if options.mean == "constant" else 0.0
    return SparseGP.build(kernel, Z, bias=bias, residual=options.residual)


def _first_kernel(options: Options, n_features: int) -> Kernel:
    """A linear trend plus an RBF kernel; the RBF alone where a prior variance without limit would be too much.

    Densities other than the hyperbolic secant have flat or heavy tails: an instance far out, to which a linear kernel
    gives a large prior variance, can drive their fixed point away.
    """
    trend = options.hyperparameters is not None and isinstance(options.density, HyperbolicSecant)
    return Linear(1.0 / n_features) + RBF() if trend else RBF()
