"""From bags to a trained model: shards, kernel, passes, then what out-of-bag scores teach. One driver for all data.

What differs between data in memory, streamed, in minibatches and on a cluster is asked of the shards: where they are
``in_memory``, every instance can be looked at again; otherwise only sums over shards can be had, and calibration and
thresholds rest on a seeded sample of the bags, whose own statistics are taken out of those of all data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.foundations.errors import InputError
from psimil.foundations.hamiltonian import sample, warn_if_bad
from psimil.foundations.phases import CLIMB, JUDGING, LAST, LEARNING, PASSES, REST, THRESHOLDS, tell, tell_plan
from psimil.inference.algorithm import BATCHES_TOL, Record
from psimil.inference.context_choice import STAGE, context_evidence, judge_context, preferred_context
from psimil.inference.coupling import learn_coupling, learned_coupling
from psimil.inference.history import Callback, Convergence, EarlyStopping, History
from psimil.inference.kernel_learning import learn_kernel, learned_sharing
from psimil.inference.options import Execution, Options, Progress
from psimil.inference.out_of_bag import OutOfBag, learn_novelty, log_predictive, out_of_bag, out_of_bag_score
from psimil.inference.preparation import (
    Prepared,
    Supervision,
    prepare_in_memory,
    prepare_streamed,
    representative_bags,
    shard_of,
)
from psimil.inference.sampled import log_posterior
from psimil.inference.shards import Shard, Shards
from psimil.inference.variational import Iterate
from psimil.model.bags import Bags
from psimil.model.context import in_context
from psimil.model.densities import HyperbolicSecant, is_logistic, warn_if_runaway
from psimil.model.inducing import choose_inducing
from psimil.model.sparse_gp import KernelState, Posterior, SparseGP
from psimil.predictive.prediction import BagLayout
from psimil.predictive.thresholds import taught
from psimil.predictive.trained import TrainedModel

Array = NDArray[Any]
Some = TypeVar("Some", bound=Shards)

LARGE = 200_000  # instances above which a chunk size means that nothing of the size of the data is kept
TEACHING = 200  # inducing points on which a kernel is learned for more of them
SAMPLED = 2000  # bags on which calibration and thresholds of streamed data rest


@dataclass(frozen=True)
class Training:
    """A trained model and how it came about."""

    model: TrainedModel
    history: list[dict[str, Any]]
    out_of_bag: OutOfBag
    pi: Array | None
    converged: bool


@single_threaded_blas()
def train(
    bags: Bags,
    supervision: Supervision,
    options: Options,
    *,
    rng: np.random.Generator,
    evaluation: tuple[Bags, Array] | None = None,
    callbacks: Sequence[Callback] = (),
    previous: TrainedModel | None = None,
    execution: Execution = Execution(),  # noqa: B008 - frozen
) -> Training:
    """Fit the model that ``options`` describe.

    Parameters
    ----------
    evaluation : bags and labels that early stopping watches.
    callbacks : called with the history row of each iteration; a true answer stops the fit.
    previous : a model to start from (same features and number of inducing points).
    execution : in memory, streamed, in minibatches or on a cluster.
    """
    if not is_logistic(options.density):
        warn_if_runaway(options.density)
    large = options.chunk_size is not None and bags.n_instances > LARGE
    if streamed := large or execution != Execution():
        for given, what in ((supervision.known, "y_instances"), (previous, "warm_start"), (evaluation, "eval_set")):
            if given is not None:
                raise InputError(f"streaming and minibatches do not take {what}.")
    history = History(callbacks, list(execution.begun.history) if execution.begun else [])
    if options.context == "auto":
        if previous is not None:
            raise InputError('context="auto" cannot be judged on a warm start. Give context="bag" or None.')
        if execution.begun is None:
            plan = dict.fromkeys([*JUDGING.values(), LEARNING, PASSES["fit"]], CLIMB)
            tell_plan(plan | {THRESHOLDS: LAST})
            seed = int(deepcopy(rng).integers(2**31))  # the fit goes on as if its context had been asked for
            judge_context(bags, supervision, options, seed, partial(history.add_kernel, STAGE))
        options = replace(options, context=preferred_context(history.rows))
    if options.context:
        bags = in_context(bags)
    if streamed:
        prepared = prepare_streamed(bags, supervision, options, rng, execution.batch_bags, execution.spread)
    else:
        prepared = prepare_in_memory(bags, supervision, options, rng, previous)
    seed, gp = 0 if streamed else int(rng.integers(2**31)), prepared.gp
    fit = Fit(prepared, options, history, evaluation, execution, rng, seed, warm=previous is not None)
    state = KernelState(gp, previous.posterior) if previous else KernelState.first(gp)
    return fit.finish(fit.rest(fit.begin(state, bags, supervision)), bags, supervision)


@dataclass
class Fit:
    """One call of train: the stages of a fit with their monitors, and the history they leave."""

    prepared: Prepared
    options: Options
    history: History
    evaluation: tuple[Bags, Array] | None
    execution: Execution
    rng: np.random.Generator
    seed: int
    warm: bool = False  # it starts from the q(v) of another model
    converged: bool = False
    coupling: float = 0.0  # J between the labels of neighbours
    sharing: float = 0.0  # tau of the noise that labels of a bag share

    def __post_init__(self) -> None:
        self.shards, self.algorithm = self.prepared.shards, self.options.algorithm(self.options, self.seed)
        if (begun := self.execution.begun) is not None:
            self.rng.bit_generator.state = begun.rng
            self.coupling, self.sharing = learned_coupling(begun.history), learned_sharing(begun.history)
            self.shards = self._tied(self.shards)

    def begin(self, state: KernelState, bags: Bags, supervision: Supervision) -> KernelState:
        """The kernel and a first q(v) from some of the bags where there are many."""
        learned, algorithm = self.options.hyperparameters == "bound", self.algorithm
        passes = REST if algorithm.last_move is None else CLIMB
        if self.execution.begun is not None or not self.history.rows:  # otherwise the plan is told
            tell_plan(({LEARNING: CLIMB} if learned else {}) | {PASSES["fit"]: passes, THRESHOLDS: LAST})
        if self.execution.begun is None:
            state = self._begin(state, bags, supervision) if learned or algorithm.from_mode else state
            if self.options.start != "labels" and not self.warm:
                state = algorithm.started(state, self.shards, self.rng)
        return state

    def rest(self, state: KernelState) -> Record:
        """Passes over all bags."""
        stage = "fit" if self.execution.batch_bags is None else "batches"
        return self._watch(self._passes(state, stage), stage)

    def _begin(self, state: KernelState, bags: Bags, supervision: Supervision) -> KernelState:
        """The learned kernel and, for the variational posterior, q(v) of the bags that it was learned on."""
        options, whole, gp, start = self.options, self.shards.in_memory, state.gp, None
        chosen = representative_bags(supervision.T, bags.sizes, np.random.default_rng(self.seed))
        if whole is not None and whole.keep and len(chosen) == len(bags):
            sample = whole
        else:
            sample = shard_of(bags, supervision, self.options, self.prepared.scaling, chosen)
        shared = options.labels == "shared"
        if options.hyperparameters == "bound" or shared:
            fewer = options.inducing_points is None and len(gp.Z) > TEACHING
            teacher = self._with_points(gp, sample, TEACHING) if fewer else gp
            shard, most = replace(sample, density=HyperbolicSecant()), max(options.max_iter, 1)
            thorough = options.kernel is None and not options.context  # many scales of many features say little
            heard = partial(self.history.add_kernel, "kernel")
            record = learn_kernel(
                shard, teacher, self.seed, heard, most, thorough, sharing=shared, fixed=not options.hyperparameters
            )
            gp = gp.rebuilt(record.gp.kernel) if fewer else record.gp
            start = None if fewer else record.posterior
            if shared:
                self.sharing = self.history.rows[-1]["sharing"] = record.sharing
        if options.labels == "chain":
            linked = self._link(sample, gp, start)
            start = linked.posterior if linked.gp is gp else None
        tied = self._tied(self.shards)
        sample = (tied.in_memory if sample is self.shards else None) or self._tied(sample)
        self.shards = tied
        warm = state.posterior if self.warm and gp is state.gp else None
        batches = self.execution.batch_bags is not None
        return KernelState(gp, self.algorithm.begin(gp, start, sample, self.shards, warm, whole=not batches))

    def _link(self, sample: Shard, gp: SparseGP, start: Posterior | None) -> Iterate:
        """Learn how strongly neighbours are linked, and link them."""
        record, J = learn_coupling(sample, gp, start, self.seed)
        step = 1 + sum(row["stage"] == "kernel" for row in self.history.rows)
        self.history.add_kernel("kernel", replace(record, step=step), coupling=J)
        self.coupling = J
        return record

    def _tied(self, shards: Some) -> Some:
        """The same with labels that are linked, or share noise, as strongly as was learned."""
        return shards.labelled(replace(shards.labels.coupled(self.coupling), sharing=self.sharing))

    def _passes(self, state: KernelState, stage: str) -> Iterator[Record]:
        """Passes over all data or in minibatches, after those of an earlier run of this stage."""
        begun = self.execution.begun
        last: Any = begun.record if begun is not None and begun.stage == stage else None
        if stage == "fit":
            return self.algorithm.passes(self.shards, state, last)
        state, done = (state, 0) if last is None else (KernelState(last.gp, last.posterior), last.step)
        return self.algorithm.batches(self.shards, state, self.rng, done)

    def _watch(self, passes: Iterator[Record], stage: str) -> Record:
        """Passes until a monitor, a callback or max_iter stops them; the best record under early stopping."""
        options, begun, most = self.options, self.execution.begun, max(self.options.max_iter, 1)
        bags, batches, stopping = len(self.shards.labels.T), stage == "batches", None
        convergence = Convergence(min(options.tol, BATCHES_TOL) if batches else options.tol, bags, batches)
        moves = None if batches else self.algorithm.last_move
        if options.early_stopping is not None:
            tolerance = 0.0 if options.early_stopping == "out_of_bag" else self.algorithm.tolerance
            stopping = EarlyStopping(self._score, options.patience, tolerance)
        if begun is not None and begun.stage == stage:
            convergence.previous, self.converged = begun.record.bound.total, begun.converged
            if begun.stopped:
                return begun.record
        for record in passes:
            values = record.bound.as_dict()
            stop = convergence(record)
            of = None if stopping else convergence.expected(record.step, moves, most)
            notes = [f"at most {most}"] if of is None else []
            notes += [convergence.note(record)]
            tell(PASSES[stage], record.step, of, ", ".join(filter(None, notes)))
            if stopping is not None:
                stop = stopping(record)
                values[f"eval_{options.early_stopping}"] = stopping.scores[-1]
            stop = self.history.add(stage, record.step, values) or stop or record.step >= most
            if self.execution.keep is not None:
                rng = dict(self.rng.bit_generator.state)
                self.execution.keep(Progress(stage, record, list(self.history.rows), convergence.converged, stop, rng))
            if stop:
                break
        self.converged = convergence.converged
        return record if stopping is None or stopping.best is None else stopping.best

    def _score(self, record: Record) -> float:
        """What early stopping watches: out-of-bag bags, or the evaluation set."""
        if self.options.early_stopping == "out_of_bag" and self.shards.in_memory is not None:
            given = (record, self.shards.in_memory, self.options, self.algorithm.without)
            return out_of_bag_score(self._model(record), *given)
        assert self.evaluation is not None  # checked where eval_set is read
        bags, T = self.evaluation
        log_odds = self._model(record).predict(bags).log_odds
        if self.options.early_stopping == "auc":
            return float(roc_auc_score(T, log_odds))
        return float(log_predictive(log_odds, T).mean())

    def _with_points(self, gp: SparseGP, shard: Shard, size: int) -> SparseGP:
        """The same kernel with inducing points chosen from the instances of a shard."""
        positive, rng = shard.labels.spread(shard.labels.T) == 1, np.random.default_rng(self.seed)
        return gp.rebuilt(gp.kernel, choose_inducing(shard.X, positive, size, self.options.inducing, gp.kernel, rng))

    def _model(self, record: Record) -> TrainedModel:
        o, made = self.options, (self.prepared.scaling, record.gp, record.next_posterior, self.options.aggregate)
        how: dict[str, Any] = {"dtype": o.dtype, "expectation": o.expectation, "joint": self.algorithm.joint}
        how |= {"context": o.context is not None, "context_evidence": context_evidence(self.history.rows)}
        how |= {"coupling": self.coupling, "sharing": self.sharing}
        return TrainedModel(*made, seed=self.seed, **how)

    def finish(self, record: Record, bags: Bags, supervision: Supervision) -> Training:
        """Calibration, thresholds and recalibration from the out-of-bag scores of the last record."""
        shard, joint, refitted = self.shards.in_memory, self.algorithm.joint, self.algorithm.without
        if shard is None:
            shard, bags, record = self._sample(record, bags, supervision)
            refitted = None  # q(v) knows of bags that are not in the sample
        tell("out-of-bag predictions", 0, 1)
        unseen, fold = out_of_bag(record, shard, self.options.aggregate, joint=joint, refitted=refitted)
        tell(THRESHOLDS, 0, 1)
        model = taught(self._model(record), unseen, self.options)
        if joint:
            known = learn_novelty(shard, fold, record.gp, model.scaling, self.options, self.seed)
            model = replace(model, novelty=known)
        if self.options.posterior == "sampled":
            chains = sample(log_posterior(self.shards, record.gp), record.posterior, np.random.default_rng(self.seed))
            warn_if_bad(chains)
            model = replace(model, chains=chains)
        layout = BagLayout(bags.names, bags.offsets, bags.rows)
        found = OutOfBag(model, layout, unseen, fold, chosen=self.options.threshold is None)
        tell_plan({})
        pi = None if self.shards.in_memory is None or record.local is None else record.local.pi
        return Training(model, self.history.rows, found, pi, self.converged)

    def _sample(self, last: Record, bags: Bags, supervision: Supervision) -> tuple[Shard, Bags, Record]:
        """Some of the bags in memory, with what the last pass says of their instances."""
        chosen = np.arange(len(bags))
        if len(bags) > SAMPLED:
            chosen = np.sort(self.rng.choice(len(bags), SAMPLED, replace=False))
        shard = self._tied(shard_of(bags, supervision, self.options, self.prepared.scaling, chosen))
        self.seed = int(self.rng.integers(2**31))
        return shard, bags[chosen], self.algorithm.local(last, shard, self.seed)
