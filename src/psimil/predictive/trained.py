"""A trained model: everything a prediction needs, and nothing of the training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import NUMPY, ordered_map, single_threaded_blas
from psimil.foundations.errors import InputError
from psimil.foundations.hamiltonian import KEPT, Chains
from psimil.foundations.linalg import multiply_upper
from psimil.foundations.logistic import antithetic_draws
from psimil.foundations.phases import tell
from psimil.model.bag_order import links_of
from psimil.model.bag_ranges import BagRange, split_bags
from psimil.model.bags import Bags
from psimil.model.context import PARTS, in_context
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import Posterior, SparseGP, latent_moments
from psimil.predictive.aggregates import AGGREGATES, DRAWS, Dependence, dependence_of, joined, stretch
from psimil.predictive.drawn import Drawn, from_draws, summed_out
from psimil.predictive.moments import IDENTITY, Calibration, probabilities
from psimil.predictive.novelty import Novelty, reverted, widened
from psimil.predictive.prediction import BagLayout, Prediction
from psimil.predictive.referral import Referral
from psimil.predictive.thresholds import InstanceRecalibration

Array = NDArray[Any]

ROWS = 1 << 18  # instances that are brought to model coordinates at a time


@dataclass(frozen=True)
class TrainedModel:
    """Scaling, sparse GP, q(v), and what out-of-bag scores taught: calibration, thresholds, recalibration.

    With ``joint``, bag probabilities keep the dependence between instances of a bag; without, they are those of the
    paper's Eqs. (36) and (37). ``novelty`` knows what lies far from the training data, ``referral`` which bags go to a
    human reader; where it is None, those whose interval crosses the threshold. ``chains`` has draws from the exact
    posterior of v, from which predictions are then made. ``coupling`` is J of the links between labels of neighbours,
    ``sharing`` tau of the noise that labels of a bag share, both 0 for independent labels. With ``context``, instances
    are seen beside their bag, see :func:`psimil.model.context.in_context`; ``context_evidence`` has log p(T) with and
    without it, where the two were compared.
    """

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
    joint: bool = False
    novelty: Novelty | None = None
    referral: Referral | None = None
    chains: Chains | None = None
    coupling: float = 0.0
    sharing: float = 0.0
    context: bool = False
    context_evidence: tuple[float, float] | None = None

    @property
    def n_features(self) -> int:
        """D, of the bags that it is given."""
        return len(self.scaling.location) // (PARTS if self.context else 1)

    @property
    def prior_mean(self) -> float:
        """The learned constant mean of the latent function."""
        return float(self.gp.bias * self.posterior.m[-1]) if self.gp.bias else 0.0

    @property
    def by_draws(self) -> bool:
        """Whether predictions are means over draws of v: where the posterior was sampled, or labels are chains."""
        return self.chains is not None or self.coupling > 0

    @cached_property
    def draws(self) -> Array:
        """(S, M) draws of v: from the exact posterior where there are some, from q(v) otherwise."""
        if self.chains is not None:
            return self.chains.v
        noise = antithetic_draws(self.gp.size, KEPT, self.seed)
        return np.asarray((self.posterior.m[:, None] + self.posterior.U @ noise).T)

    def seen(self, bags: Bags) -> Bags:
        """The bags as the model sees them: in context, or as they are."""
        return in_context(bags) if self.context else bags

    def links(self, bags: Bags) -> Array | None:
        """(N,) J between neighbours; None for independent labels."""
        return self.coupling * links_of(bags) if self.coupling else None

    def latent(self, X: Array, *, raw: bool = False) -> tuple[Array, Array]:
        """Mean and variance (N,) of f at instances X (N, D) as the model sees them; calibrated unless ``raw``."""
        if self.context and X.shape[1] != len(self.scaling.location):
            raise InputError("the model sees instances in the context of their bag. Give bags, not instances alone.")
        mean, variance, _ = self._conditional(X, None, raw=raw)
        return mean, variance

    def _conditional(
        self, X: Array, novelty: Novelty | None, latent: tuple[Array, Array] | None = None, *, raw: bool = False
    ) -> tuple[Array, Array, Array | None]:
        """Latent mean and variance (N,) of instances X (N, D) and, given how to tell it, their novelty (N,).

        Those of novel instances are drawn to the prior. ``latent`` has mean and variance before that, if at hand.
        """
        parts = []
        for a in range(0, len(X), ROWS):
            if len(X) > ROWS and latent is None:
                tell("instances predicted", a, len(X))
            rows, new = slice(a, a + ROWS), None
            x = self.scaling.apply(np.asarray(X[rows]), self.dtype)
            if latent is None:
                f = latent_moments(self.gp, self.posterior, x)
                f = f if raw else self.calibration.apply(*f)
            else:
                f = latent[0][rows], latent[1][rows]
            if novelty is not None:
                new = novelty.of(x, self.gp.Z)
                f = reverted(f, (self.prior_mean, self.gp.full_variance(x)), new)
            parts.append((*f, new))
        return parts[0] if len(parts) == 1 else joined(parts)

    def dependence(
        self, bags: Bags, latent: tuple[Array, Array], draws: int = DRAWS, links: Array | None = None
    ) -> tuple[Array, Array, Dependence]:
        """Moments (N,) of latent values, and how those of a bag hang together, by draws of v that all bags share.

        Parameters
        ----------
        bags : as the model sees them.
        latent : mean and variance (N,) of their latent values, calibrated and drawn back as predictions are.
        links : (N,) J, of :meth:`links`; with them, moments are those of log-odds with neighbours summed out.
        """
        noise, (mean, variance) = antithetic_draws(self.gp.size + 1, draws, self.seed), latent

        def part(some: BagRange) -> tuple[Array, Array, Dependence]:
            rows, own = some.rows, bags.offsets[some.first : some.last + 1] - some.start
            V = self.gp.features(self.scaling.apply(np.asarray(bags.stream[rows]), self.dtype))
            W = multiply_upper(V, self.posterior.U.astype(V.dtype))
            f = mean[rows] + widened(NUMPY.products(W, noise[:-1]), np.vecdot(W, W), variance[rows], noise[-1])
            if links is not None:
                return summed_out(f, links[rows], own)
            return mean[rows], variance[rows], dependence_of(f, variance[rows], own, self.sharing)

        return joined(list(ordered_map(part, split_bags(bags.offsets, max(ROWS // draws, 1)))))

    def drawn(self, X: Array, offsets: Array, links: Array | None, *, raw: bool = False, level: float = 0.95) -> Drawn:
        """What draws of v say of some bags, those of novel instances widened to the prior.

        Parameters
        ----------
        X : (n, D) instances in model coordinates.
        offsets : first instance of each bag among them, and n.
        links : (n,) J between neighbours; None for independent labels.
        """
        f = NUMPY.products(self.gp.features(X), self.draws.T)
        mean, variance = f.mean(axis=0), f.var(axis=0)
        latent, novelty = (mean, variance) if raw else self.calibration.apply(mean, variance), None
        if self.novelty is not None:
            novelty = self.novelty.of(X, self.gp.Z)
            latent = reverted(latent, (self.prior_mean, self.gp.full_variance(X)), novelty)
        df = widened(f - mean, variance, latent[1], antithetic_draws(1, len(self.draws), self.seed)[0])
        f = latent[0] + stretch(df.var(axis=0), latent[1]) * df
        return from_draws(f, offsets, self.aggregate, level, links, self.sharing)._replace(novelty=novelty)

    def predict(
        self,
        bags: Bags,
        *,
        raw: bool = False,
        expectation: str | None = None,
        n_samples: int = 1000,
        level: float = 0.95,
        joint: bool = False,
        latent: tuple[Array, Array] | None = None,
        rng: np.random.Generator | None = None,
    ) -> Prediction:
        """Bag and instance probabilities with uncertainty.

        Parameters
        ----------
        bags : with D features, without their context.
        raw : leave out the calibration of the latent log-odds.
        expectation : "quadrature", or "sample" as in the paper; None is the model's own.
        level : mass of the credible intervals.
        joint : also compute the bag's standard deviation with the correlation between its instances kept.
        latent : what :meth:`latent` gives for the instances, if it is at hand.
        rng : of the draws of "sample" and ``joint``; None begins them with the model's seed.
        """
        with single_threaded_blas():
            bags, rng = self.seen(bags), np.random.default_rng(self.seed) if rng is None else rng
            if self.by_draws:
                found = self._from_draws(bags, raw=raw, level=level)
                return replace(found, joint_std=found.std) if joint else found
            mean, variance, novelty = self._conditional(bags.stream, self.novelty, latent, raw=raw)
            together = None
            if self.joint:
                together = self.dependence(bags, (mean, variance), n_samples if joint else DRAWS)[2]
            found = self.assemble(
                bags, (mean, variance), expectation, n_samples=n_samples, level=level, rng=rng, dependence=together
            )
            found = replace(found, instance_novelty=novelty)
            if not joint:
                return found
            if self.joint:
                return replace(found, joint_std=found.std)
            X, how = self.scaling.apply(bags.X, self.dtype), IDENTITY if raw else self.calibration
            given = (self.gp, self.posterior, X, bags.offsets)
            std = joint_std(*given, aggregate=self.aggregate, calibration=how, rng=rng, samples=n_samples)
            return replace(found, joint_std=std)

    def _from_draws(self, bags: Bags, *, raw: bool, level: float) -> Prediction:
        links = self.links(bags)

        def part(some: BagRange) -> Drawn:
            x = self.scaling.apply(np.asarray(bags.stream[some.rows]), self.dtype)
            own, J = bags.offsets[some.first : some.last + 1] - some.start, None if links is None else links[some.rows]
            return self.drawn(x, own, J, raw=raw, level=level)

        ranges = split_bags(bags.offsets, max(ROWS // len(self.draws), 1))
        return self.put_together(bags, list(ordered_map(part, ranges)), level)

    def put_together(self, bags: BagLayout | Bags, parts: list[Drawn], level: float = 0.95) -> Prediction:
        """The prediction from what :meth:`drawn` says of some bags at a time, in their order."""
        found = joined(parts)
        return Prediction(
            bags.names, bags.offsets, bags.rows, found.mean, found.variance, found.instances, found.bags,
            self.aggregate, self.threshold, self.instance_threshold, level, instance_novelty=found.novelty,
            margin=None if self.referral is None else self.referral.margin, bounds=found.bounds,
        )  # fmt: skip

    def assemble(
        self,
        bags: BagLayout | Bags,
        latent: tuple[Array, Array],
        expectation: str | None = None,
        *,
        n_samples: int = 1000,
        level: float = 0.95,
        rng: np.random.Generator | None = None,
        dependence: Dependence | None = None,
    ) -> Prediction:
        """The prediction that follows from latent moments (N,), (N,) of the bags' instances."""
        rng = np.random.default_rng(self.seed) if rng is None else rng
        instances = probabilities(latent, expectation or self.expectation, rng=rng, samples=n_samples)
        of_bags = AGGREGATES[self.aggregate].moments(instances, bags.offsets, dependence)
        return Prediction(
            bags.names, bags.offsets, bags.rows, *latent, instances, of_bags,
            self.aggregate, self.threshold, self.instance_threshold, level,
            margin=None if self.referral is None else self.referral.margin,
            log_odds_moments=None if dependence is None else (dependence.centre, dependence.width),
        )  # fmt: skip


def joint_std(
    gp: SparseGP,
    posterior: Posterior,
    X: Array,
    offsets: Array,
    *,
    aggregate: str,
    calibration: Calibration,
    rng: np.random.Generator,
    samples: int = 500,
) -> Array:
    """(B,) standard deviation of the bag probability under the joint q(f) of each bag, by sampling v.

    Parameters
    ----------
    X : (N, D) instances in model coordinates, bag after bag.
    offsets : (B + 1,).
    """
    deviations = posterior.U @ rng.standard_normal((len(posterior.m), samples))
    std = np.empty(len(offsets) - 1)
    for b, (start, stop) in enumerate(pairwise(offsets)):
        part = X[start:stop].astype(np.float64)
        V = gp.features(part)
        k = gp.residual_variance(part, V)
        noise = V @ deviations + np.sqrt(k)[:, None] * rng.standard_normal((len(part), samples))
        f = (calibration.scale * (V @ posterior.m) + calibration.shift)[:, None] + calibration.spread * noise
        std[b] = AGGREGATES[aggregate].of_draws(f).std()
    return std
