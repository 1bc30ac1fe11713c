"""From bags to a trained model: shards, kernel, passes, then what out-of-bag scores teach. One driver for all data.

What differs between data in memory, streamed, in minibatches and on a cluster is asked of the shards: where they are
``in_memory``, every instance can be looked at again; otherwise only sums over shards can be had, and calibration and
thresholds rest on a seeded sample of the bags, whose own statistics are taken out of those of all data.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.foundations.errors import DataWarning, InputError
from psimil.inference.ascent import KernelState, KernelStep, Pass, Schedule, ascend, start_from_labels
from psimil.inference.cross_fit import SMALL, cross_fit
from psimil.inference.kernel_learning import CollapsedStep, guard_kernel, search_kernel, with_kernel
from psimil.inference.leave_one_out import LeaveOneOut, log_predictive, loo_score, out_of_bag
from psimil.inference.minibatches import stochastic_ascent
from psimil.inference.monitors import Convergence, EarlyStopping, tell_pass, tell_phases
from psimil.inference.options import Options
from psimil.inference.passes import run_pass
from psimil.inference.phases import THRESHOLDS, tell, tell_plan
from psimil.inference.preparation import Prepared, Supervision, prepare_in_memory, prepare_streamed
from psimil.inference.shards import Shard, Shards, StreamedShards
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.teaching import taught
from psimil.inference.trained import TrainedModel
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant, is_logistic, warn_if_runaway
from psimil.model.inducing import choose_inducing
from psimil.model.label_posteriors import Labels

Array = NDArray[Any]
Callback = Callable[[dict[str, Any]], Any]

LARGE = 200_000  # instances above which a chunk size means that nothing of the size of the data is kept
TEACHING = 200  # inducing points on which a kernel is learned for more of them
FEWEST = 3  # bags of a label below which nothing is held out
SAMPLED = 2000  # bags on which calibration and thresholds of streamed data rest


@dataclass(frozen=True, eq=False)
class Progress:
    """All that a fit over shards needs to go on as if it had never been interrupted.

    Parameters
    ----------
    stage : "kernel", "fit" or "batches".
    record : the last complete pass.
    history : one row per pass so far, of all stages.
    converged, stopped : whether the bound has settled, and whether the stage ends with this pass.
    rng : state of the generator.
    """

    stage: str
    record: Pass
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

    def streams(self, bags: Bags, options: Options) -> bool:
        """Whether the data go through in shards, and only sums over them stay."""
        asked = any(one is not None for one in (self.batch_bags, self.spread, self.keep))
        return asked or (options.chunk_size is not None and len(bags.X) > LARGE)


@dataclass(frozen=True)
class Training:
    """A trained model and how it came about."""

    model: TrainedModel
    history: list[dict[str, Any]]
    loo: LeaveOneOut
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
    warn_if_runaway(options.density)
    if not execution.streams(bags, options):
        prepared = prepare_in_memory(bags, supervision, options, rng, previous)
        seed = int(rng.integers(2**31))
    else:
        for given, what in ((supervision.known, "y_instances"), (previous, "warm_start"), (evaluation, "eval_set")):
            if given is not None:
                raise InputError(f"streaming and minibatches do not take {what}.")
        prepared = prepare_streamed(bags, supervision, options, rng, execution.batch_bags, execution.spread)
        seed = 0
    fit = Fit(prepared, options, callbacks, evaluation, execution, rng, seed)
    gp, pi = prepared.gp, None
    state = KernelState(gp, previous.posterior) if previous else KernelState.first(gp)
    if options.start != "labels" and previous is None:
        shard = fit.whole()
        pi = rng.uniform(0.0, float(options.start), len(shard.X))
        state = KernelState(gp, start_from_labels(gp, shard, pi))
    return fit.finish(fit.learn(state, pi), bags, supervision)


@dataclass
class Fit:
    """One call of train: the stages of a fit with their monitors, and the history they leave."""

    prepared: Prepared
    options: Options
    callbacks: Sequence[Callback]
    evaluation: tuple[Bags, Array] | None
    execution: Execution
    rng: np.random.Generator
    seed: int
    converged: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shards, self.started = self.prepared.shards, time.perf_counter()
        if (begun := self.execution.begun) is not None:
            self.history = list(begun.history)
            self.started -= begun.history[-1]["seconds"]
            self.rng.bit_generator.state = begun.rng

    def whole(self) -> Shard:
        """All data as one shard."""
        assert self.shards.in_memory is not None  # checked where the shards were prepared
        return self.shards.in_memory

    def learn(self, state: KernelState, pi: Array | None) -> Pass:
        """Kernel first where the logistic model or fewer inducing points teach it, then the model's own passes."""
        options, begun, batches = self.options, self.execution.begun, self.execution.batch_bags is not None
        step = options.learning.step(options, self.seed) if options.hyperparameters else None
        few, guarded = self._fewer_points(state.gp), self._is_guarded
        taught_first = options.learns_on_logistic or few is not None
        refitted = self._is_refitted(self.shards.labels.T)
        moves = step is not None and not batches
        tell_phases(options, taught_first=taught_first, moves=moves, guarded=guarded, refitted=refitted)
        if taught_first and begun is not None and begun.stage != "kernel":
            step = None  # the kernel has been learned
        elif taught_first:
            teacher = self.shards.with_density(HyperbolicSecant()) if options.learns_on_logistic else self.shards
            first = state if few is None else KernelState.first(few)
            learned = self.passes(teacher, first, step, pi, "kernel").gp.kernel.log_parameters
            gp = with_kernel(state.gp, learned)
            state, step = KernelState.first(gp), None
        if batches:
            return self._batches(state, step)
        record = self.passes(self.shards, state, step, pi, "fit")
        if options.hyperparameters == "loo" or guarded:
            choose = search_kernel if options.hyperparameters == "loo" else guard_kernel
            gp = choose(record, self.whole(), options.first_aggregate)
            if gp is not record.gp:
                record = self.passes(self.shards, KernelState.first(gp), None, pi, "loo")
        return record

    def passes(
        self, shards: Shards, state: KernelState, step: KernelStep | None, pi: Array | None, stage: str
    ) -> Pass:
        """Passes until a monitor, a callback or max_iter stops them; the best record under early stopping."""
        options, begun = self.options, self._begun(stage)
        schedule = options.learning.schedule
        accelerate = options.accelerate and options.rule.ascends and is_logistic(shards.density)
        last = None if begun is None else begun.record
        loop = ascend(shards, state, step, schedule, pi=pi, accelerate=accelerate, begun=last)
        return self._watch(loop, stage, schedule if step else None)

    def _batches(self, state: KernelState, step: KernelStep | None) -> Pass:
        begun, done = self._begun("batches"), 0
        if begun is not None:
            state, done = KernelState(begun.record.gp, begun.record.posterior), begun.record.step
        assert step is None or isinstance(step, CollapsedStep)  # checked by check_streamable
        return self._watch(stochastic_ascent(self.shards, state, step, self.rng, done), "batches", None)

    def _begun(self, stage: str) -> Progress | None:
        begun = self.execution.begun
        return begun if begun is not None and begun.stage == stage else None

    def _watch(self, passes: Iterator[Pass], stage: str, schedule: Schedule | None) -> Pass:
        options = self.options
        convergence, stopping = Convergence(options.tol, len(self.shards.labels.T)), self._early_stopping()
        if (begun := self._begun(stage)) is not None:
            convergence.previous, self.converged = begun.record.bound.total, begun.converged
            if begun.stopped:
                return begun.record
        for record in passes:
            row = {"stage": stage, "iteration": record.step, **record.bound.as_dict()}
            stop = convergence(record)
            tell_pass(stage, record, convergence, options, schedule.last if schedule else None)
            if stopping is not None:
                stop = stopping(record)
                row[f"eval_{options.early_stopping}"] = stopping.scores[-1]
            row["seconds"] = time.perf_counter() - self.started
            self.history.append(row)
            asked = [bool(callback(row)) for callback in self.callbacks]
            stop = stop or any(asked) or record.step >= max(options.max_iter, 1)
            if self.execution.keep is not None:
                rng = dict(self.rng.bit_generator.state)
                self.execution.keep(Progress(stage, record, list(self.history), convergence.converged, stop, rng))
            if stop:
                break
        self.converged = convergence.converged
        return record if stopping is None or stopping.best is None else stopping.best

    def _fewer_points(self, gp: SparseGP) -> SparseGP | None:
        """Few inducing points, on which a kernel is learned as well and faster; None where that would not pay."""
        options, shard = self.options, self.shards.in_memory
        learned = options.hyperparameters in ("collapsed", "loo") and options.inducing_points is None
        if shard is None or not learned or len(gp.Z) <= TEACHING:
            return None
        positive = shard.labels.spread(shard.labels.T) == 1
        Z = choose_inducing(
            shard.X, positive, TEACHING, options.inducing, gp.kernel, np.random.default_rng(self.seed)
        )
        return gp.with_kernel(gp.kernel, Z)

    @property
    def _is_guarded(self) -> bool:
        """Whether fixed kernels are tried beside the learned one."""
        options, few = self.options, len(self.shards.labels.T) <= SMALL
        in_memory = self.shards.in_memory is not None
        return in_memory and options.hyperparameters == "collapsed" and few and options.kernel is None

    def _is_refitted(self, T: Array) -> bool:
        """Whether bags are held out by refits, where that is cheap."""
        return self.options.learns_from_unseen and len(T) <= SMALL and min(T.sum(), len(T) - T.sum()) >= FEWEST

    def _early_stopping(self) -> EarlyStopping | None:
        options = self.options
        if options.early_stopping is None:
            return None
        if options.early_stopping == "loo":
            return EarlyStopping(lambda r: loo_score(r, self.whole(), options.first_aggregate), options.patience)
        return EarlyStopping(self._evaluate, options.patience, options.learning.tolerance)

    def _evaluate(self, record: Pass) -> float:
        assert self.evaluation is not None  # checked where eval_set is read
        bags, T = self.evaluation
        log_odds = self._model(record).predict(bags).log_odds
        if self.options.early_stopping == "auc":
            return float(roc_auc_score(T, log_odds))
        return float(log_predictive(log_odds, T).mean())

    def _model(self, record: Pass) -> TrainedModel:
        o, aggregate = self.options, self.options.first_aggregate
        known = {"dtype": o.dtype, "expectation": o.expectation, "seed": self.seed}
        return TrainedModel(self.prepared.scaling, record.gp, record.next_posterior, aggregate, **known)

    def finish(self, record: Pass, bags: Bags, supervision: Supervision) -> Training:
        """Calibration, thresholds and recalibration from the out-of-bag scores of the last record."""
        shard, options = self.shards.in_memory, self.options
        if shard is None:
            shard, bags, record = self._sample(record, bags, supervision)
        tell("leave-one-out", 0, 1)
        unseen = latent = out_of_bag(record, shard, options.first_aggregate)
        if self._is_refitted(shard.labels.T):
            mean, variance = self._cross_fit(record, shard)
            unseen = replace(latent, mean=mean, variance=variance)
        tell(THRESHOLDS, 0, 1)
        model = taught(self._model(record), unseen, options)
        left_out = model.assemble(bags, model.calibration.apply(latent.mean, latent.variance))
        loo = LeaveOneOut(left_out, log_predictive(left_out.log_odds, shard.labels.T))
        tell_plan({})
        pi = None if self.shards.in_memory is None else record.found.pi
        return Training(model, self.history, loo, pi, self.converged)

    def _cross_fit(self, record: Pass, shard: Shard) -> tuple[Array, Array]:
        """Out-of-fold moments by refits."""
        options, rng = self.options, np.random.default_rng(self.seed)

        def rebuild(X: Array, positive: Array) -> SparseGP:
            if options.inducing_points is not None:
                return record.gp
            gp = record.gp
            return gp.with_kernel(
                gp.kernel, choose_inducing(X, positive, len(gp.Z), options.inducing, gp.kernel, rng)
            )

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # said once for the whole training set
            return cross_fit(shard, rebuild)

    def _sample(self, last: Pass, bags: Bags, supervision: Supervision) -> tuple[Shard, Bags, Pass]:
        """Some of the bags in memory, with what the last pass says of their instances."""
        chosen, options = np.arange(len(bags)), self.options
        if len(bags) > SAMPLED:
            chosen = np.sort(self.rng.choice(len(bags), SAMPLED, replace=False))
        sample, weights = bags[chosen], supervision.weights[chosen]
        labels = Labels(supervision.T[chosen], sample.offsets, options.log_H)
        X = self.prepared.scaling.apply(sample.X, options.dtype)
        shard = Shard(X, labels, weights, options.density, options.rule, keep=True)
        self.seed = int(self.rng.integers(2**31))
        return shard, sample, replace(last, local=run_pass(shard, last.gp, last.posterior)[0])


