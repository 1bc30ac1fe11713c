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
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.foundations.errors import DataWarning, InputError
from psimil.foundations.phases import PASSES, THRESHOLDS, tell, tell_phases, tell_plan
from psimil.inference.ascent import (
    Convergence,
    EarlyStopping,
    KernelState,
    KernelStep,
    Pass,
    ascend,
    start_from_labels,
)
from psimil.inference.collapsed import CollapsedStep
from psimil.inference.execution import Execution, Progress
from psimil.inference.leave_one_out import (
    SMALL,
    LeaveOneOut,
    cross_fit,
    guard_kernel,
    log_predictive,
    loo_score,
    out_of_bag,
    search_kernel,
)
from psimil.inference.minibatches import stochastic_ascent
from psimil.inference.options import Options
from psimil.inference.passes import run_pass
from psimil.inference.prediction import BagLayout
from psimil.inference.preparation import Prepared, Supervision, prepare_in_memory, prepare_streamed
from psimil.inference.shards import Shard, Shards
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.thresholds import taught
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
    large = options.chunk_size is not None and len(bags.X) > LARGE
    if large or execution != Execution():
        for given, what in ((supervision.known, "y_instances"), (previous, "warm_start"), (evaluation, "eval_set")):
            if given is not None:
                raise InputError(f"streaming and minibatches do not take {what}.")
        prepared = prepare_streamed(bags, supervision, options, rng, execution.batch_bags, execution.spread)
        seed = 0
    else:
        prepared = prepare_in_memory(bags, supervision, options, rng, previous)
        seed = int(rng.integers(2**31))
    fit = Fit(prepared, options, callbacks, evaluation, execution, rng, seed)
    gp, pi, shard = prepared.gp, None, prepared.shards.in_memory
    state = KernelState(gp, previous.posterior) if previous else KernelState.first(gp)
    if options.start != "labels" and previous is None and shard is not None:
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
        self.aggregate = "noisy_or" if self.options.aggregate == "auto" else self.options.aggregate
        if (begun := self.execution.begun) is not None:
            self.history = list(begun.history)
            self.started -= begun.history[-1]["seconds"]
            self.rng.bit_generator.state = begun.rng

    def learn(self, state: KernelState, pi: Array | None) -> Pass:
        """Kernel first where the logistic model or fewer inducing points teach it, then the model's own passes."""
        options, shards, begun = self.options, self.shards, self.execution.begun
        learned, whole = options.hyperparameters in ("collapsed", "loo"), shards.in_memory
        on_logistic = learned and options.log_z == "logistic" and not is_logistic(options.density)
        on_fewer = learned and options.inducing_points is None and whole is not None and len(state.gp.Z) > TEACHING
        rivals = {"collapsed": guard_kernel, "loo": search_kernel}.get(options.hyperparameters or "")
        if whole is None or (rivals is guard_kernel and (len(shards.labels.T) > SMALL or options.kernel is not None)):
            rivals = None
        step = options.learning.step(options, self.seed) if options.hyperparameters else None
        tell_phases(
            taught_first=on_logistic or on_fewer,
            moves=step is not None and self.execution.batch_bags is None,
            guarded=rivals is not None,
            refitted=self._is_refitted(shards.labels.T),
        )
        if on_logistic or on_fewer:
            if begun is None or begun.stage == "kernel":
                first, teacher = state, shards.with_density(HyperbolicSecant()) if on_logistic else shards
                if on_fewer and whole is not None:
                    first = KernelState.first(self._with_points(state.gp, whole, TEACHING))
                learned_gp = self._watch(self._passes(teacher, first, step, pi, "kernel"), "kernel", step).gp
                del teacher  # and the V that it keeps
                state = KernelState.first(state.gp.with_parameters(learned_gp.kernel.log_parameters))
            step = None  # the kernel has been learned
        stage = "fit" if self.execution.batch_bags is None else "batches"
        record = self._watch(self._passes(shards, state, step, pi, stage), stage, step)
        if rivals is not None and whole is not None:
            gp = rivals(record, whole, self.aggregate)
            if gp is not record.gp:
                record = self._watch(self._passes(shards, KernelState.first(gp), None, pi, "loo"), "loo", None)
        return record

    def _passes(
        self, shards: Shards, state: KernelState, step: KernelStep | None, pi: Array | None, stage: str
    ) -> Iterator[Pass]:
        """Passes over all data or in minibatches, after those of an earlier run of this stage."""
        options, begun = self.options, self.execution.begun
        last = begun.record if begun is not None and begun.stage == stage else None
        if stage == "batches":
            assert step is None or isinstance(step, CollapsedStep)  # checked by check_streamable
            state, done = (state, 0) if last is None else (KernelState(last.gp, last.posterior), last.step)
            return stochastic_ascent(shards, state, step, self.rng, done)
        accelerate = options.accelerate and options.rule.ascends and is_logistic(shards.density)
        return ascend(shards, state, step, options.learning.schedule, pi=pi, accelerate=accelerate, begun=last)

    def _watch(self, passes: Iterator[Pass], stage: str, step: KernelStep | None) -> Pass:
        """Passes until a monitor, a callback or max_iter stops them; the best record under early stopping."""
        options, begun, most = self.options, self.execution.begun, max(self.options.max_iter, 1)
        convergence, stopping = Convergence(options.tol, len(self.shards.labels.T)), None
        moves = options.learning.schedule.last if step is not None and stage != "batches" else None
        if options.early_stopping is not None:
            tolerance = 0.0 if options.early_stopping == "loo" else options.learning.tolerance
            stopping = EarlyStopping(self._score, options.patience, tolerance)
        if begun is not None and begun.stage == stage:
            convergence.previous, self.converged = begun.record.bound.total, begun.converged
            if begun.stopped:
                return begun.record
        for record in passes:
            row = {"stage": stage, "iteration": record.step, **record.bound.as_dict()}
            stop = convergence(record)
            of = None if stopping else convergence.expected(record.step, moves, most)
            notes = [f"at most {most}"] if of is None else []
            notes += [f"bound {rise:+.1g} per bag" for rise in convergence.rises[-1:]]
            tell(PASSES[stage], record.step, of, ", ".join(notes))
            if stopping is not None:
                stop = stopping(record)
                row[f"eval_{options.early_stopping}"] = stopping.scores[-1]
            row["seconds"] = time.perf_counter() - self.started
            self.history.append(row)
            asked = [bool(callback(row)) for callback in self.callbacks]
            stop = stop or any(asked) or record.step >= most
            if self.execution.keep is not None:
                rng = dict(self.rng.bit_generator.state)
                self.execution.keep(Progress(stage, record, list(self.history), convergence.converged, stop, rng))
            if stop:
                break
        self.converged = convergence.converged
        return record if stopping is None or stopping.best is None else stopping.best

    def _score(self, record: Pass) -> float:
        """What early stopping watches: out-of-bag bags, or the evaluation set."""
        if self.options.early_stopping == "loo" and self.shards.in_memory is not None:
            return loo_score(record, self.shards.in_memory, self.aggregate)
        assert self.evaluation is not None  # checked where eval_set is read
        bags, T = self.evaluation
        log_odds = self._model(record).predict(bags).log_odds
        if self.options.early_stopping == "auc":
            return float(roc_auc_score(T, log_odds))
        return float(log_predictive(log_odds, T).mean())

    def _with_points(self, gp: SparseGP, shard: Shard, size: int, rng: np.random.Generator | None = None) -> SparseGP:
        """The same kernel with inducing points chosen from the instances of a shard."""
        positive = shard.labels.spread(shard.labels.T) == 1
        rng = np.random.default_rng(self.seed) if rng is None else rng
        return gp.rebuilt(gp.kernel, choose_inducing(shard.X, positive, size, self.options.inducing, gp.kernel, rng))

    def _is_refitted(self, T: Array) -> bool:
        """Whether bags are held out by refits, where that is cheap, to learn a calibration or thresholds from them."""
        o = self.options
        asked = o.calibrate is not False or o.threshold is None or o.false_positive_rate is not None
        return asked and len(T) <= SMALL and bool(min(T.sum(), len(T) - T.sum()) >= FEWEST)

    def _model(self, record: Pass) -> TrainedModel:
        o, made = self.options, (self.prepared.scaling, record.gp, record.next_posterior, self.aggregate)
        return TrainedModel(*made, dtype=o.dtype, expectation=o.expectation, seed=self.seed)

    def finish(self, record: Pass, bags: Bags, supervision: Supervision) -> Training:
        """Calibration, thresholds and recalibration from the out-of-bag scores of the last record."""
        shard = self.shards.in_memory
        if shard is None:
            shard, bags, record = self._sample(record, bags, supervision)
        tell("leave-one-out", 0, 1)
        unseen = latent = out_of_bag(record, shard, self.aggregate)
        if self._is_refitted(shard.labels.T):
            rng = np.random.default_rng(self.seed)
            choose = partial(self._with_points, record.gp, size=len(record.gp.Z), rng=rng)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # said once for the whole training set
                given = self.options.inducing_points is not None
                mean, variance = cross_fit(shard, (lambda _: record.gp) if given else choose)
            unseen = replace(latent, mean=mean, variance=variance)
        tell(THRESHOLDS, 0, 1)
        model = taught(self._model(record), unseen, self.options)
        loo = LeaveOneOut(model, BagLayout(bags.names, bags.offsets, bags.rows), latent)
        tell_plan({})
        pi = None if self.shards.in_memory is None or record.local is None else record.local.pi
        return Training(model, self.history, loo, pi, self.converged)

    def _sample(self, last: Pass, bags: Bags, supervision: Supervision) -> tuple[Shard, Bags, Pass]:
        """Some of the bags in memory, with what the last pass says of their instances."""
        chosen, options = np.arange(len(bags)), self.options
        if len(bags) > SAMPLED:
            chosen = np.sort(self.rng.choice(len(bags), SAMPLED, replace=False))
        sample, weights = bags[chosen], supervision.weights[chosen]
        labels = Labels(supervision.T[chosen], sample.offsets, np.log(options.H))
        X = self.prepared.scaling.apply(sample.X, options.dtype)
        shard = Shard(X, labels, weights, options.density, options.rule, keep=True)
        self.seed = int(self.rng.integers(2**31))
        return shard, sample, replace(last, local=run_pass(shard, last.gp, last.posterior)[0])
