"""What the model says about bags and their instances: the one object behind tables, figures and reports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, ndtri

from psimil.foundations.errors import InputError
from psimil.model.bag_checks import per_instance
from psimil.predictive.aggregates import AGGREGATES, BagMoments
from psimil.predictive.drawn import Bounds
from psimil.predictive.moments import InstanceMoments, instance_interval
from psimil.predictive.novelty import NOVEL
from psimil.predictive.prediction_table import OF_BAGS, OF_INSTANCES, bag_table, instance_table, numbers_of
from psimil.predictive.referral import BOTH, KEPT, NEAR, UNLIKE, not_analysed

if TYPE_CHECKING:
    import pandas as pd

    from psimil.predictive.thresholds import InstanceRecalibration

Array = NDArray[Any]


class BagLayout(NamedTuple):
    """Which bags, and which instances are theirs.

    Parameters
    ----------
    names : (B,) of the bags.
    offsets : (B + 1,) first instance of each bag.
    rows : (N,) the caller's row of each instance; None where they come in that order.
    """

    names: Array
    offsets: Array
    rows: Array | None = None


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities with uncertainty for B bags and their N instances.

    ``prob``, ``std``, ``lower``, ``upper`` and ``log_odds`` are per bag (B,); the same names with ``instance_`` are
    per instance (N,), bag after bag. ``lower`` and ``upper`` bound a central credible interval of mass ``level``,
    widened to hold ``prob`` where the posterior is so skew that its mean lies outside.
    ``joint_std`` is the bag's standard deviation with the correlation between its instances kept, when asked for;
    ``log_odds_moments`` are mean and standard deviation (B,) of the bags' log-odds under the joint posterior of their
    instances, None where instances are taken for independent.
    ``instance_novelty`` (N,) tells how unlike the training data an instance is, and ``margin`` how near to the
    threshold log-odds must be for a bag to be referred; None for models of 1.0.0. ``bounds`` are interval ends from
    draws of the exact posterior; None where they follow from latent moments. ``obstacles`` (B,) say why bags do not
    count as analysed, "" where they do; None where all do. Such bags are referred whatever their numbers are.

    Examples
    --------
    ``predict_dist`` of a fitted model makes one:

    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=8, seed=1)
    >>> found = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).predict_dist(bags)
    >>> found.prob.shape, found.instance_prob.shape == (len(bags.X),), found.level
    ((8,), True, 0.95)
    """

    ids: Array
    offsets: Array
    rows: Array | None
    latent_mean: Array
    latent_variance: Array
    instances: InstanceMoments
    bags: BagMoments
    aggregate: str
    threshold: float = 0.5
    instance_threshold: float = 0.5
    level: float = 0.95
    joint_std: Array | None = None
    log_odds_moments: tuple[Array, Array] | None = None
    instance_novelty: Array | None = None
    margin: float | None = None
    bounds: Bounds | None = None
    obstacles: Array | None = None

    @property
    def prob(self) -> Array:
        """(B,) P(T = 1), Eq. (36)."""
        return self.bags.prob

    @property
    def std(self) -> Array:
        """(B,) standard deviation of the bag probability, Eq. (37)."""
        return self.bags.std

    @cached_property
    def instance_interval(self) -> tuple[Array, Array]:
        """(N,), (N,) ends of the instances' credible intervals."""
        if self.bounds is None:
            ends = instance_interval(self.latent_mean, self.latent_variance, float(ndtri(0.5 + 0.5 * self.level)))
        else:
            ends = self.bounds.instance_lower, self.bounds.instance_upper
        return _holding(self.instance_prob, ends, self.level)

    @cached_property
    def interval(self) -> tuple[Array, Array]:
        """(B,), (B,) ends of the bags' credible intervals."""
        if self.bounds is not None:
            return _holding(self.prob, (self.bounds.lower, self.bounds.upper), self.level)
        z, latent = float(ndtri(0.5 + 0.5 * self.level)), (self.latent_mean, self.latent_variance)
        rule = AGGREGATES[self.aggregate]
        ends = rule.interval(latent, self.instances, self.offsets, z, self.log_odds_moments)
        return _holding(self.prob, ends, self.level)

    @property
    def lower(self) -> Array:
        """(B,) lower end of the credible interval."""
        return self.interval[0]

    @property
    def upper(self) -> Array:
        """(B,) upper end of the credible interval."""
        return self.interval[1]

    @property
    def instance_lower(self) -> Array:
        """(N,) lower end of the instance's credible interval."""
        return self.instance_interval[0]

    @property
    def instance_upper(self) -> Array:
        """(N,) upper end of the instance's credible interval."""
        return self.instance_interval[1]

    @property
    def log_odds(self) -> Array:
        """(B,) log-odds of the bag, finite where the probability has rounded to 0 or 1."""
        return self.bags.log_odds

    @property
    def label(self) -> Array:
        """(B,) 0 or 1 at the model's bag threshold."""
        return (self.prob >= self.threshold).astype(np.int64)

    @property
    def doubt(self) -> Array:
        """(B,) above 0 near the threshold: by how much log-odds lie within the margin, or the interval holds it."""
        if self.margin is None:
            return np.minimum(self.threshold - self.lower, self.upper - self.threshold)
        return np.asarray(self.margin - np.abs(self.log_odds - logit(self.threshold)))

    @property
    def uncertain(self) -> Array:
        """(B,) whether the bag is near the threshold."""
        return self.doubt > 0

    @property
    def novelty(self) -> Array | None:
        """(B,) novelty of each bag's least familiar instance, above 1/2 for a bag unlike those of the training."""
        return None if self.instance_novelty is None else np.maximum.reduceat(self.instance_novelty, self.offsets[:-1])

    @property
    def novel(self) -> Array:
        """(B,) whether the bag is unlike the training data; never where novelty is not known."""
        return np.zeros(len(self.ids), dtype=bool) if self.novelty is None else self.novelty > NOVEL

    @property
    def instance_novel(self) -> Array:
        """(N,) whether the instance is unlike the training data."""
        known = self.instance_novelty
        return np.zeros(int(self.offsets[-1]), dtype=bool) if known is None else known > NOVEL

    @property
    def referral_score(self) -> Array:
        """(B,) the larger, the sooner a bag is referred: its doubt, infinite for novel bags and those not analysed."""
        score = np.where(self.novel, np.inf, self.doubt)
        return score if self.obstacles is None else np.where(self.obstacles == "", score, np.inf)

    @property
    def refer(self) -> Array:
        """(B,) whether the bag is a case for a human reader: its referral score is above 0."""
        return self.referral_score > 0

    @property
    def reason(self) -> Array:
        """(B,) why the bag is referred, in words; "" if not.

        It could not be analysed, or else it is near the threshold, unlike the training data, or both.
        """
        why = np.where(self.novel, np.where(self.uncertain, BOTH, UNLIKE), np.where(self.uncertain, NEAR, KEPT))
        if self.obstacles is None:
            return why
        return np.where(self.obstacles == "", why, [not_analysed(str(one)) for one in self.obstacles])

    @property
    def instance_prob(self) -> Array:
        """(N,) P(y = 1), Eq. (32)."""
        return self.instances.prob

    @property
    def instance_std(self) -> Array:
        """(N,) standard deviation of sigma(f), Eq. (33)."""
        return self.instances.std

    @property
    def instance_log_odds(self) -> Array:
        """(N,) log-odds of the instance."""
        return self.instances.log_odds

    @property
    def instance_label(self) -> Array:
        """(N,) 0 or 1 at the model's instance threshold."""
        return (self.instance_prob >= self.instance_threshold).astype(np.int64)

    @cached_property
    def bag_numbers(self) -> dict[str, Array]:
        """(B,) each: prob, std, lower, upper, log_odds, label, refer, reason, novelty (where known) and novel."""
        return numbers_of(self, OF_BAGS)

    @cached_property
    def instance_numbers(self) -> dict[str, Array]:
        """(N,) each: the same of instances, with latent_mean and latent_variance in place of refer and reason."""
        return numbers_of(self, OF_INSTANCES)

    def instances_of(self, bag: int) -> slice:
        """Where the instances of bag number ``bag`` are in arrays of shape (N,)."""
        return slice(int(self.offsets[bag]), int(self.offsets[bag + 1]))

    def split(self, values: Any) -> list[Array]:
        """(N,) values per instance as one array per bag.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> found = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).predict_dist(bags)
        >>> len(found.split(found.instance_prob))
        8
        """
        return np.split(per_instance(values, int(self.offsets[-1])), self.offsets[1:-1])

    def to_frame(
        self, of: Literal["bag", "instance"] = "bag", recalibration: InstanceRecalibration | None = None
    ) -> pd.DataFrame:
        """A table with one row per bag, or per instance in the caller's row order.

        Parameters
        ----------
        of : "bag" for the columns bag, prob, std, lower, upper, log_odds, label, refer, reason, novelty and, when asked
            for, joint_std; "instance" for bag, instance, prob, std, lower, upper, log_odds, label, latent_mean,
            latent_variance, novelty.
        recalibration : map through which the instances' prob, lower and upper go.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> found = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).predict_dist(bags)
        >>> len(found.to_frame()), len(found.to_frame("instance")) == len(bags.X)
        (8, True)
        """
        if of not in ("bag", "instance"):
            raise InputError(f'to_frame gives a table of "bag" or of "instance", got {of!r}.')
        return bag_table(self) if of == "bag" else instance_table(self, recalibration)


def _holding(prob: Array, ends: tuple[Array, Array], level: float) -> tuple[Array, Array]:
    """The interval, no further from the probability than quantiles can be, and widened where it does not hold it.

    With mass t below the lower end and the mean p of a number between 0 and 1, that end is at least 1 - (1 - p) / t,
    and the upper one at most p / t. Matched moments may say otherwise where a few instances are quite unknown.

    Examples
    --------
    >>> low, high = _holding(np.array([0.99]), (np.array([0.0]), np.array([0.98])), 0.9)
    >>> low.round(3), high
    (array([0.8]), array([0.99]))
    """
    tail = 0.5 * (1.0 - level)
    lower, upper = np.maximum(ends[0], 1.0 - (1.0 - prob) / tail), np.minimum(ends[1], prob / tail)
    return np.minimum(lower, prob), np.maximum(upper, prob)
