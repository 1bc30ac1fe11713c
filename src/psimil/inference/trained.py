"""A trained model: everything a prediction needs, and nothing of the training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.foundations.phases import tell
from psimil.inference.joint import joint_std
from psimil.inference.moments import IDENTITY, Calibration, probabilities
from psimil.inference.posterior import Posterior, latent_moments
from psimil.inference.prediction import BagLayout, Prediction
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.thresholds import InstanceRecalibration
from psimil.model.bags import Bags
from psimil.model.scaling import Scaling

Array = NDArray[Any]

ROWS = 1 << 18  # instances that are brought to model coordinates at a time


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
            if len(X) > ROWS:
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
            rng = np.random.default_rng(self.seed)
            latent = self.latent(bags.stream, raw=raw)
            found = self.assemble(bags, latent, expectation, n_samples=n_samples, level=level, rng=rng)
            if not joint:
                return found
            X, how = self.scaling.apply(bags.X, self.dtype), IDENTITY if raw else self.calibration
            given = (self.gp, self.posterior, X, bags.offsets)
            std = joint_std(*given, aggregate=self.aggregate, calibration=how, rng=rng, samples=n_samples)
            return replace(found, joint_std=std)

    def assemble(
        self,
        bags: BagLayout | Bags,
        latent: tuple[Array, Array],
        expectation: str | None = None,
        *,
        n_samples: int = 1000,
        level: float = 0.95,
        rng: np.random.Generator | None = None,
    ) -> Prediction:
        """The prediction that follows from latent moments (N,), (N,) of the bags' instances."""
        rng = np.random.default_rng(self.seed) if rng is None else rng
        instances = probabilities(latent, expectation or self.expectation, rng=rng, samples=n_samples)
        thresholds = (self.threshold, self.instance_threshold)
        return Prediction.build(bags, latent, instances, aggregate=self.aggregate, thresholds=thresholds, level=level)
