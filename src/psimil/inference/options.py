"""The choices of a fit, as inference sees them: checked, with names of plug-ins resolved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.kernel_learning import CollapsedLearning, KernelLearning
from psimil.inference.sparse_gp import SparseGP
from psimil.model.densities import Density, is_logistic
from psimil.model.kernels import Kernel
from psimil.model.label_posteriors import EXACT, Rule

Array = NDArray[Any]


@dataclass(frozen=True)
class Options:
    """Resolved choices; the field names are the parameters of the estimator, but for the last three.

    Parameters
    ----------
    rule : of the label posterior.
    learning : how the kernel is learned, unless ``hyperparameters`` is None.
    prior : the class of the sparse GP.
    """

    density: Density
    kernel: Kernel | None = None
    n_inducing: int = 200
    inducing_points: Array | None = None
    inducing: str = "kmeans_by_label"
    H: float = np.inf
    label_posterior: str = "exact"
    mean: str = "constant"
    residual: str = "projected"
    hyperparameters: str | None = "collapsed"
    log_z: str = "logistic"
    aggregate: str = "auto"
    start: str | float = "labels"
    max_iter: int = 100
    tol: float = 5e-4
    accelerate: bool = True
    early_stopping: str | None = None
    patience: int = 10
    standardize: bool = True
    chunk_size: int | None = None
    dtype: str = "float64"
    device: str | None = None
    calibrate: str | bool = "auto"
    threshold: float | None = None
    false_positive_rate: float | None = 0.02
    expectation: str = "quadrature"
    rule: Rule = EXACT
    learning: KernelLearning = CollapsedLearning()
    prior: type[SparseGP] = SparseGP

    @property
    def log_H(self) -> float:
        """Log H, inf allowed."""
        return float(np.log(self.H))

    @property
    def first_aggregate(self) -> str:
        """The aggregate before bags that the fit has not seen choose one."""
        return "noisy_or" if self.aggregate == "auto" else self.aggregate

    @property
    def learns_from_unseen(self) -> bool:
        """Whether calibration or a threshold is to be learned from bags that the fit has not seen."""
        return self.calibrate is not False or self.threshold is None or self.false_positive_rate is not None

    @property
    def learns_on_logistic(self) -> bool:
        """Whether the kernel is learned with the hyperbolic secant before the density takes over."""
        learns = self.hyperparameters in ("collapsed", "loo") and self.log_z == "logistic"
        return learns and not is_logistic(self.density)
