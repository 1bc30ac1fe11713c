"""The choices of a fit, as inference sees them: checked, with names of plug-ins resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.backend import Backend
from psimil.compute.numpy_backend import NUMPY
from psimil.inference.ascent import FIXED, KernelLearning
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import Density, HyperbolicSecant
from psimil.model.kernels import Kernel
from psimil.model.label_posteriors import EXACT, Rule

Array = NDArray[Any]


@dataclass(eq=False)
class Parameters:
    """The parameters of an estimator that a fit looks at, each declared here and nowhere else.

    :class:`psimil.estimators.psi_vgpmil.PsiVGPMIL` says what they mean, :mod:`psimil.estimators.parameters` what they
    may be.
    """

    density: Density | None = None
    kernel: Kernel | None = None
    n_inducing: int | str = "auto"
    inducing_points: Array | None = None
    inducing: str = "kmeans_by_label"
    H: float = np.inf
    label_posterior: str = "exact"
    mean: str = "constant"
    residual: str = "projected"
    posterior: str | None = field(default=None, kw_only=True)  # as all that came after 1.0.0
    hyperparameters: str | None = "bound"
    log_z: str = "logistic"
    aggregate: str = "noisy_or"
    start: str | float = "labels"
    max_iter: int = 100
    tol: float | None = None
    accelerate: bool = True
    early_stopping: str | None = None
    patience: int = 10
    calibrate: str | bool | None = None
    threshold: float | None = None
    false_positive_rate: float | None = 0.02
    referral: str = field(default="workload=0.1", kw_only=True)
    standardize: bool = True
    warm_start: bool = False
    chunk_size: int | None = None
    dtype: str = "float64"
    device: str | None = None
    expectation: str = "quadrature"


@dataclass(eq=False)
class Options(Parameters):
    """The choices of a fit: checked, and with names resolved.

    Parameters
    ----------
    density : psi.
    posterior : "variational", "sampled" or "augmented".
    rule : of the label posterior.
    learning : how the kernel moves between passes; fixed where it is learned before them.
    prior : the class of the sparse GP.
    backend : works out the products.
    """

    density: Density = HyperbolicSecant()  # noqa: RUF009 - frozen
    calibrate: str | bool = False
    tol: float = 0.01
    rule: Rule = EXACT
    learning: KernelLearning = FIXED
    prior: type[SparseGP] = SparseGP
    backend: Backend = NUMPY
