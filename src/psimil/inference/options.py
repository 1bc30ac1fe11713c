"""The choices of a fit, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.foundations.extras import install_command
from psimil.foundations.numbers import at_least, is_number
from psimil.inference.aggregates import AGGREGATES
from psimil.model.densities import ClippedGammaMixture, Density, HyperbolicSecant
from psimil.model.kernels import Kernel

Array = NDArray[Any]

CHOICES: dict[str, tuple[Any, ...]] = {
    "inducing": ("kmeans_by_label", "kmeans", "greedy_variance"),
    "label_posterior": ("exact", "mean_field", "max"),
    "mean": ("constant", "zero"),
    "residual": ("projected", "full", "unit"),
    "hyperparameters": ("collapsed", "loo", "paper", "published", None),
    "log_z": ("logistic", "jensen", "rff", "none"),
    "aggregate": ("auto", *AGGREGATES),
    "early_stopping": (None, "auc", "log_loss", "loo"),
    "dtype": ("float64", "float32"),
    "calibrate": ("auto", True, False),
    "expectation": ("quadrature", "sample"),
}


@dataclass(frozen=True)
class Options:
    """Resolved choices; the field names are the parameters of the estimator."""

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

    def __post_init__(self) -> None:
        """Refuse every value that breaks a rule, naming parameter, rule and value."""
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if not any(value is a or (type(value) is type(a) and value == a) for a in allowed):
                listed = ", ".join(repr(a) for a in allowed)
                raise InputError(f"{name} must be one of {listed}, got {value!r}.")
        at_least(1, whole=True, n_inducing=self.n_inducing, patience=self.patience)
        at_least(0, whole=True, max_iter=self.max_iter)
        if self.chunk_size is not None:
            at_least(1, whole=True, chunk_size=self.chunk_size)
        check_flag(accelerate=self.accelerate, standardize=self.standardize)
        if not is_number(self.H) or not self.H > 0:
            raise InputError(f"H must be a number > 0, got {self.H!r}.")
        if not is_number(self.tol) or not self.tol >= 0:
            raise InputError(f"tol must be a number >= 0, got {self.tol!r}.")
        for name in ("false_positive_rate", "threshold"):
            value = getattr(self, name)
            if value is not None and (not is_number(value) or not 0 < value < 1):
                raise InputError(f"{name} must be a number between 0 and 1, got {value!r}.")
        self._check_parts()
        if self.start != "labels" and not (is_number(self.start) and 0 < float(self.start) <= 1):
            raise InputError(f'start must be "labels" or a number in (0, 1], got {self.start!r}.')
        self._check_combinations()
        if self.device is not None:
            _check_device(self.device, self.kernel)

    def _check_parts(self) -> None:
        for name, value in (("density", self.density), ("kernel", self.kernel)):
            if isinstance(value, type):
                raise InputError(f"{name} is the class {value.__name__}. Give an instance: {value.__name__}(...).")
        if not isinstance(self.density, Density):
            raise InputError(f"density must have log_prob and theta, got {self.density!r}.")
        if self.kernel is not None and not isinstance(self.kernel, Kernel):
            raise InputError(f"kernel must be a psimil kernel, got {self.kernel!r}.")

    def _check_combinations(self) -> None:
        if self.label_posterior == "max" and np.isinf(self.H):
            raise InputError('label_posterior "max" needs a finite H, got inf.')
        if isinstance(self.density, ClippedGammaMixture) and self.hyperparameters in ("collapsed", "loo"):
            raise InputError(
                'the clipped Gamma mixture has no bound; use hyperparameters "published", "paper" or None.'
            )
        if self.residual == "unit" and self.hyperparameters in ("collapsed", "loo"):
            raise InputError('residual "unit" has no bound; use hyperparameters "published", "paper" or None.')

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
        return learns and not isinstance(self.density, HyperbolicSecant)


def _check_device(device: Any, kernel: Kernel | None) -> None:
    """Refuse a device or kernel that torch cannot serve; without torch, say how to get it."""
    try:
        from psimil.foundations.torch_linalg import check_device
        from psimil.model.kernels.torch_gram import check_kernel
    except ImportError:
        raise InputError(f"device needs torch. Install it with: {install_command('torch')}") from None
    check_device(device)
    if kernel is not None:
        check_kernel(kernel)


def check_flag(**values: Any) -> None:
    """Refuse parameters that are neither True nor False.

    Examples
    --------
    >>> check_flag(standardize="no")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: standardize must be True or False, got 'no'.
    """
    for name, value in values.items():
        if not isinstance(value, (bool, np.bool_)):
            raise InputError(f"{name} must be True or False, got {value!r}.")
