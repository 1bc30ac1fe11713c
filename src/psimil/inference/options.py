"""The choices of a fit, checked and with names of plug-ins resolved, and how it is computed apart from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.backend import Backend
from psimil.compute.numpy_backend import NUMPY
from psimil.inference.algorithm import Algorithm, Record, Variational
from psimil.inference.shards import MANY, Shards, StreamedShards
from psimil.model.densities import Density, HyperbolicSecant
from psimil.model.kernels import Kernel
from psimil.model.scaling import WIDE
from psimil.model.sparse_gp import SparseGP

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
    labels: str | None = field(default=None, kw_only=True)
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
    context: str | None = field(default=None, kw_only=True)
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
    algorithm : makes the one that finds q(v), from these options and a seed.
    rule : of the label posterior, for algorithms that have one; None is the exact one.
    prior : the class of the sparse GP.
    backend : works out the products.
    """

    density: Density = HyperbolicSecant()  # noqa: RUF009 - frozen
    labels: str = "independent"
    calibrate: str | bool = False
    tol: float = 5e-4
    algorithm: Callable[[Options, int], Algorithm] = Variational
    rule: Any = None
    prior: type[SparseGP] = SparseGP
    backend: Backend = NUMPY

    def rounds(self, instances: int) -> bool:
        """Whether single precision does for what is worked out for every one of so many instances.

        Examples
        --------
        >>> from psimil.model.densities import HyperbolicSecant
        >>> Options(HyperbolicSecant(), posterior="variational").rounds(10_000)
        True
        """
        return self.posterior != "augmented" and instances > MANY

    def sees_components(self, n_features: int) -> bool:
        """Whether a model sees principal components of its features: of many that are standardised, by default kernels.

        A kernel of the user's, features that are not standardised, and those in context are seen as they are.

        Examples
        --------
        >>> from psimil.model.densities import HyperbolicSecant
        >>> options = Options(HyperbolicSecant())
        >>> options.sees_components(1024), options.sees_components(784)
        (True, False)
        """
        return n_features > WIDE and self.standardize and self.kernel is None and not self.context


@dataclass(frozen=True, eq=False)
class Progress:
    """All that a fit over shards needs to go on as if it had never been interrupted.

    Parameters
    ----------
    stage : "fit" or "batches".
    record : the last complete pass.
    history : one row per pass so far, of all stages.
    converged, stopped : whether the bound has settled, and whether the stage ends with this pass.
    rng : state of the generator.
    """

    stage: str
    record: Record
    history: list[dict[str, Any]]
    converged: bool
    stopped: bool
    rng: dict[str, Any]


@dataclass(frozen=True)
class Execution:
    """How a fit is computed.

    Parameters
    ----------
    batch_bags : bags of a minibatch; None for passes over all bags.
    spread : who works out the shards, such as a cluster; None for this process.
    keep : called after every complete pass, to write a checkpoint.
    begun : what an earlier run of the same fit kept last; this one goes on from there and ends with the same bits, on
        the same kind of machine.
    """

    batch_bags: int | None = None
    spread: Callable[[StreamedShards], Shards] | None = None
    keep: Callable[[Progress], None] | None = None
    begun: Progress | None = None
