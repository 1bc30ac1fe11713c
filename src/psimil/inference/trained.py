"""A trained model: everything a prediction needs, and nothing of the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.foundations.errors import NumericalFailure
from psimil.inference.calibration import IDENTITY, Calibration
from psimil.inference.joint import joint_std
from psimil.inference.latent import latent_moments
from psimil.inference.moments import instance_moments, sampled_moments
from psimil.inference.phases import tell
from psimil.inference.posterior import Posterior
from psimil.inference.prediction import Prediction
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.thresholds import InstanceRecalibration
from psimil.model.bags import Bags
from psimil.model.scaling import Scaling

Array = NDArray[Any]

ROWS = 1 << 18  # instances that are brought to model coordinates at a time
LARGEST_LATENT = 1e149  # of a mean or a standard deviation; moments square them


@dataclass(frozen=True)
class TrainedModel:
    """Scaling, sparse GP, q(v), and what out-of-bag scores taught: calibration, thresholds, recalibration."""

    scaling: Scaling
    gp: SparseGP
    posterior: Posterior
    aggregate: str = "noisy_or"
    calibration: Calibration = IDENTITY
    threshold: float = 0.5
    instance_threshold: float = 0.5
    recalibration: InstanceRecalibration | None = None
    dtype: str = "float64"
    expectation: str = "quadrature"
    seed: int = 0

    def latent(self, X: Array, *, raw: bool = False) -> tuple[Array, Array]:
        """Mean and variance (N,) of f at instances X (N, D) in input units; calibrated unless ``raw``."""
        pieces = []
        for a in range(0, len(X), ROWS):
            tell("instances predicted", a, len(X))
            x = self.scaling.apply(np.asarray(X[a : a + ROWS]), self.dtype)
            pieces.append(latent_moments(self.gp, self.posterior, x))
        mean, variance = pieces[0] if len(pieces) == 1 else map(np.concatenate, zip(*pieces, strict=True))
        return (mean, variance) if raw else self.calibration.apply(mean, variance)

    def predict(
        self,
        bags: Bags,
        *,
        raw: bool = False,
        expectation: str | None = None,
        n_samples: int = 1000,
        level: float = 0.95,
        joint: bool = False,
    ) -> Prediction:
        """Bag and instance probabilities with uncertainty.

        Parameters
        ----------
        raw : leave out the calibration of the latent log-odds.
        expectation : "quadrature", or "sample" as in the paper; None is the model's own.
        level : mass of the credible intervals.
        joint : also compute the bag's standard deviation with the correlation between its instances kept.
        """
        with single_threaded_blas():
            latent = self.latent(bags.stream, raw=raw)
            return self.assemble(
                bags, latent, raw=raw, expectation=expectation, n_samples=n_samples, level=level, joint=joint
            )

    def assemble(
        self,
        bags: Bags,
        latent: tuple[Array, Array],
        *,
        raw: bool = False,
        expectation: str | None = None,
        n_samples: int = 1000,
        level: float = 0.95,
        joint: bool = False,
    ) -> Prediction:
        """The prediction that follows from latent moments (N,), (N,) of the bags' instances."""
        if not ((np.abs(latent[0]) < LARGEST_LATENT) & (np.sqrt(latent[1]) < LARGEST_LATENT)).all():
            raise NumericalFailure("latent values overflow: the model or the features are out of any range.")
        rng = np.random.default_rng(self.seed)
        sample = (expectation or self.expectation) == "sample"
        instances = sampled_moments(*latent, rng, n_samples) if sample else instance_moments(*latent)
        std = None
        if joint:
            std = joint_std(
                self.gp,
                self.posterior,
                self.scaling.apply(bags.X, self.dtype),
                bags.offsets,
                aggregate=self.aggregate,
                calibration=IDENTITY if raw else self.calibration,
                rng=rng,
                samples=n_samples,
            )
        return Prediction.build(
            (bags.names, bags.offsets, bags.rows),
            latent,
            instances,
            aggregate=self.aggregate,
            thresholds=(self.threshold, self.instance_threshold),
            level=level,
            joint_std=std,
        )
