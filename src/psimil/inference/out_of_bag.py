"""What the other bags say about each training bag: ten folds left out, in closed form where that holds.

A fold of bags adds gradient g and curvature Lambda to q(v) = N(m, S). With H = V U of its instances, S = U U', taking
both away and making one Newton step without the fold gives its latent values (docs/mathematics/derivations.md)

    covariance H (I - H' Lambda H)^-1 H' (plus k~)    and    mean V m - H (I - H' Lambda H)^-1 H' g.

What the kernel, the inducing points and the sites of other bags learned beside the fold is kept. Where that moves
q(v) far, as a fold of few and odd bags may, sites of others would not stay: q(v) is fitted again without the
fold. Folds have both labels in proportion. Without a single bag the others lean to its other label, so that a model
which has learned nothing ranks every positive bag behind every negative one: an area under the curve of 0 on noise.
Bags of one fold are predicted by one posterior, and a score that ranks bags compares these
(:func:`psimil.results.metrics.auc_within`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import NUMPY
from psimil.foundations.errors import DataWarning
from psimil.foundations.linalg import floored, multiply_upper, solve_lower, stretch
from psimil.foundations.logistic import antithetic_draws, softplus
from psimil.inference.algorithm import Record, Refitted
from psimil.inference.options import Options
from psimil.inference.shards import Shard
from psimil.inference.sites import Curvature
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_ranges import BagRange, rows_of_bags, split_bags
from psimil.model.inducing import choose_inducing
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import SparseGP
from psimil.predictive.aggregates import DRAWS, Dependence, dependence_of, joined
from psimil.predictive.calibration import LatentBags
from psimil.predictive.drawn import summed_out
from psimil.predictive.novelty import Novelty
from psimil.predictive.prediction import BagLayout, Prediction
from psimil.predictive.thresholds import bag_threshold, taught
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]

FLOOR = 1e-6  # smallest eigenvalue, relative to q(v), of a precision that a fold has been taken out of
FAR = 0.25  # nats per direction by which q(v) moves without a fold, from which on it is fitted again
FOLDS = 10
MOST_NUMBERS = 1 << 24  # of V that a fold may have; larger data have more folds
NOVELTY_BAGS, NOVELTY_ROWS = 1000, 25  # bags, and instances for every inducing point, that tell what is far
ROWS = 2048  # instances whose draws are worked out at a time


class Cavity(NamedTuple):
    """Latent mean and variance (N,) of every instance without its fold, and the dependence of instances of a bag."""

    mean: Array
    variance: Array
    dependence: Dependence


def learn_novelty(shard: Shard, fold: Array, gp: SparseGP, scaling: Scaling, options: Options, seed: int) -> Novelty:
    """From how far new bags are: bags of even folds are new to those of odd folds, and the other way round.

    As many folds are looked at as are enough.

    Parameters
    ----------
    fold : (B,) of each bag.
    scaling : from which the shard's features come; where it has directions, they are taken as they are.
    """
    share = max(NOVELTY_BAGS / len(fold), 2 * NOVELTY_ROWS * len(gp.Z) / len(shard.X))
    folds = 2 * int(np.ceil(0.5 * share * (fold.max() + 1)))
    counted = np.flatnonzero((shard.weights > 0) & (fold < folds))
    rows, starts = rows_of_bags(shard.labels.offsets, counted)
    X, positive = shard.X[rows], shard.labels.spread(shard.labels.T)[rows] == 1
    standardised = options.standardize and scaling.directions is None

    def placed(chosen: Array) -> tuple[Array, Array]:
        # What does not vary among the chosen keeps the scale of all.
        own = Scaling.fit(X[chosen], own=0) if standardised else Scaling.identity(X.shape[1])
        seen, rng = own.apply(X), np.random.default_rng(seed)
        if options.inducing_points is not None:
            return own.apply(gp.Z), seen
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # half of the bags need not have as many distinct instances
            return choose_inducing(seen[chosen], positive[chosen], len(gp.Z), options.inducing, gp.kernel, rng), seen

    return Novelty.learn(starts, fold[counted] % 2 == 0, placed)


def deal(T: Array, keys: Array, columns: int, instances: int) -> Array:
    """(B,) fold of each bag: both labels in turn, in the order of a number of each bag, so that no other order counts.

    Bags with the same label and number are copies of each other, and share a fold.

    Parameters
    ----------
    T, keys : (B,) labels, and numbers by which bags are put in order.
    columns, instances : of V; the larger it is, the more folds there are.

    Examples
    --------
    >>> deal(np.array([0, 1, 0, 1]), np.array([0.3, 0.1, 0.2, 0.4]), columns=5, instances=9)
    array([1, 0, 0, 1])
    """
    folds = min(len(T), max(2, min(FOLDS, len(T) // 2), instances * columns // MOST_NUMBERS))
    order = np.lexsort((keys, T))
    turn = np.cumsum(np.append(0, np.diff(T[order]) | (np.diff(keys[order]) != 0)))
    if turn[-1] < 2 * folds:  # hardly any bag is unlike the others
        turn = np.arange(len(T))
    fold = np.empty(len(T), dtype=np.int64)
    fold[order] = turn % folds
    return fold


def leave_out(record: Record, shard: Shard, fold: Array, refitted: Refitted | None = None) -> Cavity:
    """What the bags of other folds say about the latent values of each.

    Sites of a fold are taken from q(v), and where that moves it far, so that other sites would change, too, it is
    fitted again without them.

    Parameters
    ----------
    record : the last pass, with its q(v).
    shard : some of the bags, or all, for which ``record`` knows gradient and curvature.
    fold : (B,) number of each bag's fold.
    refitted : gives q(v) of all bags but some, from gp, q(v), the shard and their numbers; None where it cannot be had.
    """
    mean, variance = np.empty((2, len(shard.X)))
    parts, order = list[Dependence](), np.argsort(fold, kind="stable")
    for bags in np.split(order, np.flatnonzero(np.diff(fold[order])) + 1):
        rows, offsets = rows_of_bags(shard.labels.offsets, bags)
        V, k = shard.rows_of_V(record.gp, rows)
        said, moved = _without(record, shard, bags, rows, offsets, V)
        if refitted is not None and moved > FAR:
            q = refitted(record.gp, record.next_posterior, shard, bags)
            said = V @ q.m.astype(V.dtype), multiply_upper(V.copy(), q.U.astype(V.dtype))
        mean[rows], variance[rows], dependence = _cavity(said, record.gp, shard, V, k, rows, offsets)
        parts.append(dependence)
    return Cavity(mean, variance, joined(parts).taken(np.argsort(order)))


def _without(
    record: Record, shard: Shard, bags: Array, rows: Array, offsets: Array, V: Array
) -> tuple[tuple[Array, Array], float]:
    """Mean (n,) of f at the instances of a fold, a root (n, M) of its covariance, and how far q(v) moves.

    That is in nats per direction that the data tell of, of which the prior N(0, I) of v has none.

    Parameters
    ----------
    bags, rows, offsets : of the fold, their instances and the first of each among them.
    V : of these instances.
    """
    sites, q, known = record.local, record.next_posterior, shard.labels.known
    assert sites is not None  # a record of data in memory
    labels = Labels(shard.labels.T[bags], offsets, shard.labels.log_H, None if known is None else known[rows])
    mu, H = V @ q.m.astype(V.dtype), multiply_upper(V.copy(), q.U.astype(V.dtype)).astype(np.float64, copy=False)
    chains = tuple((c[rows], rho[rows]) for c, rho in sites.chains)
    curvature, g = Curvature(sites.diagonal[rows], sites.vector[rows], chains), sites.gradient_at(mu, rows)
    C, g = curvature.sums(H, shard.instance_weights[rows], g, labels, shard.likelihood.sign(labels), NUMPY)
    R = floored(np.eye(len(C)) - C, FLOOR)
    step, half = solve_lower(R, g), solve_lower(R, H.T).T
    moved = 0.5 * (np.square(R).sum() - len(R) + step @ step) - np.log(np.diag(R)).sum()
    return (mu - half @ step, half), float(moved / max(len(R) - np.square(q.U).sum(), 1.0))


def _cavity(
    said: tuple[Array, Array], gp: SparseGP, shard: Shard, V: Array, k: Array, rows: Array, offsets: Array
) -> Cavity:
    """Moments of the instances of a fold, and how those of a bag hang together."""
    prior, links = gp.prior_variance(shard.X[rows], V), shard.labels.links
    noise = antithetic_draws(V.shape[1], DRAWS, seed=0)

    def part(some: BagRange) -> Cavity:
        mean, half = (np.asarray(values[some.rows], dtype=np.float64) for values in said)
        own, each = np.square(half).sum(axis=1), offsets[some.first : some.last + 1] - some.start
        trusted = np.clip(own, 0.0, prior[some.rows]) + k[some.rows]
        f = mean + (half @ noise).T * stretch(own, trusted)
        if links is None:
            return Cavity(mean, trusted, dependence_of(f, trusted, each, shard.labels.sharing))
        return Cavity(*summed_out(f, links[rows][some.rows], each))

    found = list(NUMPY.map(part, split_bags(offsets, ROWS)))
    mean, variance = (np.concatenate([getattr(one, name) for one in found]) for name in ("mean", "variance"))
    return Cavity(mean, variance, joined([one.dependence for one in found]))


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """What the other bags say about each training bag.

    Parameters
    ----------
    model : the trained model.
    bags : their names (B,), offsets (B + 1,) and rows.
    latent : out-of-bag moments of their instances before calibration, and their labels.
    fold : (B,) number of the fold that was left out with each bag.
    chosen : whether these bags chose the threshold of the model, and not the user.
    """

    model: TrainedModel
    bags: BagLayout
    latent: LatentBags
    fold: Array
    chosen: bool = True

    @cached_property
    def prediction(self) -> Prediction:
        """Out-of-bag probabilities of bags and instances, with uncertainty."""
        calibrated = self.model.calibration.apply(self.latent.mean, self.latent.variance)
        return self.model.assemble(self.bags, calibrated, dependence=self.latent.dependence)

    @cached_property
    def log_predictive(self) -> Array:
        """(B,) log P(T_b | bags of other folds)."""
        return log_predictive(self.prediction.log_odds, self.latent.T)

    @property
    def influence(self) -> Array:
        """(B,) how surprising each bag's label is to the other bags; the largest are candidates for mislabelling."""
        return -self.log_predictive

    @cached_property
    def thresholds(self) -> Array:
        """(B,) what the bags of other folds would have taken as threshold: no bag is called by one that it chose."""
        log_odds, usual = self.prediction.log_odds, 0.5 if self.chosen else self.model.threshold
        found = np.full(len(self.fold), usual)
        for number in np.unique(self.fold) if self.chosen else ():
            others = (self.fold != number) & (self.latent.weights > 0)
            if others.any():
                chosen = bag_threshold(log_odds[others], self.latent.T[others], self.latent.weights[others])
                found[self.fold == number] = chosen
        return found

    @property
    def mean_log_predictive(self) -> float:
        """The score by which models can be compared without held-out bags, over bags as they are weighted."""
        return float(np.average(self.log_predictive, weights=self.latent.weights))


def log_predictive(log_odds: Array, T: Array) -> Array:
    """(B,) log P(T_b) from log-odds.

    Examples
    --------
    >>> log_predictive(np.array([0.0, 0.0]), np.array([0, 1])).round(4)
    array([-0.6931, -0.6931])
    """
    return -softplus(np.where(T == 1, -log_odds, log_odds))


def out_of_bag(
    record: Record, shard: Shard, aggregate: str, *, joint: bool = False, refitted: Refitted | None = None
) -> tuple[LatentBags, Array]:
    """Latent moments of every training instance with its own fold left out, and the fold (B,) of each bag.

    Parameters
    ----------
    joint : whether the dependence of the instances of a bag is kept.
    refitted : as of :func:`leave_out`.
    """
    labels = shard.labels
    fold = deal(labels.T, labels.sum(shard.keys), record.gp.size, len(shard.X))
    mean, variance, dependence = leave_out(record, shard, fold, refitted)
    together = dependence if joint else None
    return LatentBags(mean, variance, labels.offsets, labels.T, shard.weights, aggregate, together), fold


def out_of_bag_score(
    model: TrainedModel, record: Record, shard: Shard, options: Options, refitted: Refitted | None = None
) -> float:
    """Mean out-of-bag log predictive of the bags that a fit which ends here reports: higher is better.

    Parameters
    ----------
    model : of the record, before out-of-bag bags have taught it anything.
    """
    unseen, fold = out_of_bag(record, shard, model.aggregate, joint=model.joint, refitted=refitted)
    layout = BagLayout(np.arange(len(unseen.T)), unseen.offsets)
    found = OutOfBag(taught(model, unseen, options), layout, unseen, fold)
    return found.mean_log_predictive
