"""What a fit starts from: the scale of the features, inducing points with the first kernel, and the data in shards."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.compute.numpy_backend import chunk_rows
from psimil.foundations.errors import DataWarning, InputError
from psimil.foundations.phases import INDUCING, tell
from psimil.inference.options import Options
from psimil.inference.shards import SHARD_ROWS, Shard, Shards, StreamedShards
from psimil.model.bag_likelihoods import Labels
from psimil.model.bag_order import links_of
from psimil.model.bag_ranges import rows_of_bags
from psimil.model.bags import Bags
from psimil.model.context import PARTS
from psimil.model.densities import is_logistic
from psimil.model.inducing import SAMPLE_PER_POINT, choose_inducing, inducing_for
from psimil.model.kernels import RBF, Columns, Linear
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import SparseGP
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]

MEAN_SCALE = 3.0  # prior standard deviation of the constant mean, in log-odds
ENOUGH_BAGS, ENOUGH_ROWS, MOST_ROWS = 400, 4096, 16_384  # bags and instances that a kernel is learned on
KEPT_BYTES = 2**31  # V stays in memory between passes up to this size


@dataclass(frozen=True)
class Supervision:
    """Labels (B,), weights (B,) and known instance labels (N,) or None of the training bags."""

    T: Array
    weights: Array
    known: Array | None = None

    def of(self, bags: Array, offsets: Array) -> Supervision:
        """What is known of some bags (k,) of those that begin at these offsets (B + 1,).

        Examples
        --------
        >>> told = Supervision(np.array([0, 1]), np.ones(2), np.array([0, -1, 1]))
        >>> told.of(np.array([1]), np.array([0, 1, 3])).known
        array([-1,  1])
        """
        known = None if self.known is None else self.known[rows_of_bags(offsets, bags)[0]]
        return Supervision(self.T[bags], self.weights[bags], known)


@dataclass(frozen=True)
class Prepared:
    """Scaling, sparse GP and data in shards."""

    scaling: Scaling
    gp: SparseGP
    shards: Shards


def prepare_in_memory(
    bags: Bags,
    supervision: Supervision,
    options: Options,
    rng: np.random.Generator,
    previous: TrainedModel | None = None,
) -> Prepared:
    """All data in one shard; scaling and inducing points are those of ``previous`` if there is one."""
    counted, told = weighing(bags, supervision)
    if previous is not None:
        scaling = previous.scaling
    else:
        own = bags.n_features // PARTS if options.context else None
        scaling = Scaling.fit(counted.X, own) if options.standardize else Scaling.identity(bags.n_features)
        if options.sees_components(bags.n_features):
            scaling = scaling.narrowed(counted.X, np.ones(len(counted.X), dtype=bool))
    X = scaling.apply(bags.X, options.dtype)
    if previous is None:
        tell(INDUCING, 0, 1)
        seen = X if counted is bags else scaling.apply(counted.X, options.dtype)
    gp = previous.gp if previous else choose_sparse_gp(seen, scaling, counted, told, options, rng, len(seen))
    kept = options.chunk_size is None and X.itemsize * len(X) * gp.size <= KEPT_BYTES
    shard = Shard(
        X,
        Labels(supervision.T, bags.offsets, np.log(options.H), supervision.known, links=unit_links(bags, options)),
        supervision.weights,
        options.density,
        options.rule,
        options.backend,
        rows=options.chunk_size or chunk_rows(gp.size, X.dtype),
        keep=kept,
        whole=kept,
        single=options.rounds(len(X)),
    )
    return Prepared(scaling, gp, shard)


def weighing(bags: Bags, supervision: Supervision) -> tuple[Bags, Supervision]:
    """The bags whose weight is not 0, in memory, with labels and weights; all of them where every bag has a weight.

    Examples
    --------
    >>> bags, told = weighing(Bags.from_list([[[1.0]], [[2.0]]]), Supervision(np.array([0, 1]), np.array([0.0, 2.0])))
    >>> bags.X.tolist(), told.T.tolist()
    ([[2.0]], [1])
    """
    if supervision.weights.all():
        return bags, supervision
    chosen = np.flatnonzero(supervision.weights)
    return bags[chosen], supervision.of(chosen, bags.offsets)


def unit_links(bags: Bags, options: Options) -> Array | None:
    """(N,) links of strength 1 between neighbours; None for independent labels."""
    return links_of(bags) if options.labels == "chain" else None


def shard_of(bags: Bags, supervision: Supervision, options: Options, scaling: Scaling, chosen: Array) -> Shard:
    """Some of the bags in memory, as a shard of their own."""
    some, told = bags[chosen], supervision.of(chosen, bags.offsets)
    labels = Labels(told.T, some.offsets, np.log(options.H), told.known, links=unit_links(some, options))
    X = scaling.apply(some.X, options.dtype)
    single = options.rounds(len(X))
    return Shard(X, labels, told.weights, options.density, options.rule, options.backend, keep=True, single=single)


def prepare_streamed(
    bags: Bags,
    supervision: Supervision,
    options: Options,
    rng: np.random.Generator,
    batch_bags: int | None = None,
    spread: Callable[[StreamedShards], Shards] | None = None,
) -> Prepared:
    """Many shards, of whose rows nothing is kept; ``bags.X`` need not be in memory."""
    check_streamable(options)
    own = bags.n_features // PARTS if options.context else None
    counted, scaling = np.repeat(supervision.weights > 0, bags.sizes), Scaling.identity(bags.n_features)
    if options.standardize:
        scaling = Scaling.streamed(bags.stream, counted, own)
    if options.sees_components(bags.n_features):
        scaling = scaling.narrowed(bags.stream, counted)
    rows = options.chunk_size or SHARD_ROWS
    shards = StreamedShards(
        bags.stream,
        Labels(supervision.T, bags.offsets, np.log(options.H), links=unit_links(bags, options)),
        supervision.weights,
        scaling,
        options.density,
        options.rule,
        rows if batch_bags is None else max(1, round(batch_bags * bags.n_instances / len(bags))),
        options.dtype,
        options.backend,
        options.rounds(bags.n_instances),
    )
    tell(INDUCING, 0, 1)
    gp = sampled_sparse_gp(bags, scaling, supervision, options, rng)
    return Prepared(scaling, gp, shards if spread is None else spread(shards))


def check_streamable(options: Options) -> None:
    """Refuse what needs every instance at once, where only sums over shards can be had.

    Examples
    --------
    >>> from psimil.model.densities import HyperbolicSecant
    >>> check_streamable(Options(HyperbolicSecant(), early_stopping="out_of_bag"))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: streaming needs early_stopping=None, got 'out_of_bag'.
    """
    needs: dict[str, tuple[Any, ...]] = {"label_posterior": ("exact",), "hyperparameters": ("bound", None)}
    for name, allowed in (needs | {"early_stopping": (None,), "start": ("labels",)}).items():
        if getattr(options, name) not in allowed:
            listed = " or ".join(repr(one).replace("'", '"') for one in allowed)
            raise InputError(f"streaming needs {name}={listed}, got {getattr(options, name)!r}.")


def choose_sparse_gp(
    X: Array,
    scaling: Scaling,
    bags: Bags,
    supervision: Supervision,
    options: Options,
    rng: np.random.Generator,
    instances: int,
) -> SparseGP:
    """Inducing points and the kernel that learning starts from.

    Parameters
    ----------
    X : (n, D) standardised instances of the bags.
    instances : N of the whole data set.
    """
    kernel, D = options.kernel, X.shape[1]
    if kernel is None:
        # Densities other than the hyperbolic secant have flat or heavy tails: an instance far out, to which a linear
        # kernel gives a large prior variance, can drive their fixed point away.
        trend = options.hyperparameters is not None and is_logistic(options.density)
        own = D // PARTS if options.context else D
        kernel = Linear(1.0 / own) + RBF() if trend else RBF()
        if options.context:
            kernel = Columns(kernel, 0, own) + Columns(RBF(), own, D)
    kernel = kernel.resolve(D)
    if options.inducing_points is None:
        positive, automatic = np.repeat(supervision.T, bags.sizes) == 1, options.n_inducing == "auto"
        count = inducing_for(instances, D) if automatic else int(options.n_inducing)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if automatic else "default", DataWarning)  # nobody asked for more
            Z = choose_inducing(X, positive, count, options.inducing, kernel, rng)
    else:
        Z = scaling.apply(options.inducing_points)
    bias = MEAN_SCALE if options.mean == "constant" else 0.0
    return options.prior.build(kernel, Z, bias=bias, residual=options.residual)


def sampled_sparse_gp(
    bags: Bags, scaling: Scaling, supervision: Supervision, options: Options, rng: np.random.Generator
) -> SparseGP:
    """The same from a seeded sample of bags with enough instances for k-means."""
    N, D = bags.n_instances, bags.n_features
    wanted = 2 * SAMPLE_PER_POINT * (inducing_for(N, D) if options.n_inducing == "auto" else int(options.n_inducing))
    share = min(1.0, wanted / N)
    counted = np.flatnonzero(supervision.weights)
    size = max(2, min(len(counted), int(np.ceil(share * len(counted)))))
    chosen = np.sort(counted[rng.choice(len(counted), min(size, len(counted)), replace=False)])
    sample, part = bags[chosen], supervision.of(chosen, bags.offsets)
    return choose_sparse_gp(scaling.apply(sample.X, options.dtype), scaling, sample, part, options, rng, N)


def representative_bags(T: Array, sizes: Array, rng: np.random.Generator) -> Array:
    """Indices of random bags, both labels in proportion, that are enough to learn a kernel on.

    They are at least 400 bags with 4096 instances, or all there are, but never more than 16 384 instances.

    Parameters
    ----------
    T, sizes : (B,) labels and numbers of instances of the bags.

    Examples
    --------
    >>> T, sizes = np.array([0, 1] * 500), np.full(1000, 10)
    >>> chosen = representative_bags(T, sizes, np.random.default_rng(0))
    >>> len(chosen), int(T[chosen].sum())
    (410, 205)
    """
    place = np.empty(len(T))
    for label in (0, 1):
        members = np.flatnonzero(T == label)
        place[members] = (rng.permutation(len(members)) + 0.5) / max(len(members), 1)
    order = np.argsort(place, kind="stable")
    total = np.cumsum(sizes[order])
    enough = max(ENOUGH_BAGS, int(np.searchsorted(total, ENOUGH_ROWS)) + 1)
    fitting = max(1, int(np.searchsorted(total, MOST_ROWS, side="right")))
    return np.sort(order[: min(enough, fitting)])
