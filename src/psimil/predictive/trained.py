"""A trained model: everything a prediction needs, and nothing of the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import NUMPY, ordered_map, single_threaded_blas
from psimil.foundations.errors import InputError
from psimil.foundations.hamiltonian import KEPT, Chains
from psimil.foundations.linalg import stretch
from psimil.foundations.logistic import antithetic_draws
from psimil.foundations.phases import tell
from psimil.model.bag_order import links_of
from psimil.model.bag_ranges import BagRange, split_bags
from psimil.model.bags import Bags
from psimil.model.context import PARTS, in_context
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import LatentFactors, Posterior, SparseGP
from psimil.predictive.aggregates import AGGREGATES, DRAWS, Dependence, dependence_of, joined
from psimil.predictive.drawn import Drawn, Latent, from_draws, joint_std, summed_out
from psimil.predictive.moments import IDENTITY, Calibration, check_latent, probabilities
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

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # not what is worked out from them

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
        parts = []
        for a in range(0, len(X), ROWS):
            x = self.scaling.apply(np.asarray(X[a : a + ROWS]), self.dtype)
            mean, own, rest, _ = self._factors.over(x, np.empty((self.gp.size, 0)))
            parts.append((mean, own + rest) if raw else self.calibration.apply(mean, own + rest))
        return joined(parts)

    @cached_property
    def _factors(self) -> LatentFactors:
        return LatentFactors(self.gp, self.posterior, np.dtype(self.dtype))

    def instances_at_once(self) -> int:
        """How many instances :meth:`part` is given, about; fewer where there are draws of their latent values."""
        kept = len(self.draws) if self.by_draws else DRAWS if self.joint else 16
        return max(ROWS // kept, 1)

    def part(
        self,
        X: Array,
        offsets: Array,
        links: Array | None = None,
        *,
        raw: bool = False,
        level: float = 0.95,
    ) -> Drawn | Latent:
        """What the model says of some bags, for :meth:`put_together`.

        Parameters
        ----------
        X : (n, D) instances in model coordinates, bag after bag.
        offsets : first instance of each bag among them, and n.
        links : (n,) J between neighbours; None for independent labels.
        """
        if self.by_draws:
            return self.drawn(X, offsets, links, raw=raw, level=level)
        return self.latent_bags(X, offsets, raw=raw, novelty=self.novelty)

    def latent_bags(
        self,
        X: Array,
        offsets: Array,
        links: Array | None = None,
        *,
        raw: bool = False,
        draws: int | None = None,
        novelty: Novelty | None = None,
    ) -> Latent:
        """What q(v) says of some bags; with links, of log-odds whose neighbours are summed out.

        Parameters
        ----------
        X, offsets, links : as of :meth:`part`.
        draws : of v, which tell how instances of a bag hang together; None takes the usual number.
        novelty : tells which instances are drawn back to the prior; None leaves all as they are.
        """
        joint, draws = self.joint or links is not None, draws or DRAWS
        noise = antithetic_draws(self.gp.size + 1, draws, self.seed) if joint else np.empty((self.gp.size + 1, 0))
        mean, own, rest, deviations = self._factors.over(X, noise[:-1])
        (mean, variance), new = (mean, own + rest) if raw else self.calibration.apply(mean, own + rest), None
        if novelty is not None:
            new = novelty.of(X, self.gp.Z)
            mean, variance = reverted((mean, variance), (self.prior_mean, self.gp.full_variance(X)), new)
        if not joint:
            return Latent(mean, variance, new)
        f = mean + widened(deviations, own, variance, noise[-1])
        if links is not None:
            mean, variance, dependence = summed_out(f, links, offsets)
            return Latent(mean, variance, new, dependence)
        return Latent(mean, variance, new, dependence_of(f, variance, offsets, self.sharing))

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
        check_latent(latent)
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
        rng: np.random.Generator | None = None,
    ) -> Prediction:
        """Bag and instance probabilities with uncertainty.

        Parameters
        ----------
        bags : with D features, without their context.
        raw : leave out the calibration of the latent log-odds.
        expectation : "quadrature", or "sample" as in the paper; None is the model's own.
        level : mass of the credible intervals.
        joint : also give the bag's standard deviation with the correlation between its instances kept; that is ``std``
            itself but for models with the augmented posterior.
        rng : of the draws of "sample" and ``joint``; None begins them with the model's seed.
        """
        with single_threaded_blas():
            bags, rng = self.seen(bags), np.random.default_rng(self.seed) if rng is None else rng
            links, parts = self.links(bags), list[Drawn | Latent]()

            def part(some: BagRange) -> Drawn | Latent:
                x = self.scaling.apply(np.asarray(bags.stream[some.rows]), self.dtype)
                own, J = (
                    bags.offsets[some.first : some.last + 1] - some.start,
                    None if links is None else links[some.rows],
                )
                return self.part(x, own, J, raw=raw, level=level)

            ranges = split_bags(bags.offsets, self.instances_at_once())
            for some, found in zip(ranges, (map if len(ranges) == 1 else ordered_map)(part, ranges), strict=True):
                parts.append(found)
                if bags.n_instances > ROWS:
                    tell("instances predicted", some.stop, bags.n_instances)
            prediction = self.put_together(bags, parts, expectation, n_samples=n_samples, level=level, rng=rng)
            if not joint:
                return prediction
            if self.joint or self.by_draws:
                return replace(prediction, joint_std=prediction.std)
            X, how = self.scaling.apply(bags.X, self.dtype), IDENTITY if raw else self.calibration
            given = (self.gp, self.posterior, X, bags.offsets)
            std = joint_std(*given, aggregate=self.aggregate, calibration=how, rng=rng, samples=n_samples)
            return replace(prediction, joint_std=std)

    def put_together(
        self, bags: BagLayout | Bags, parts: Sequence[Drawn | Latent], expectation: str | None = None, **how: Any
    ) -> Prediction:
        """The prediction from what :meth:`part` says of bags part by part, in order; ``how`` is of :meth:`assemble`."""
        found, level = joined(parts), how.get("level", 0.95)
        if isinstance(found, Latent):
            latent = (found.mean, found.variance)
            prediction = self.assemble(bags, latent, expectation, dependence=found.dependence, **how)
            return replace(prediction, instance_novelty=found.novelty)
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
