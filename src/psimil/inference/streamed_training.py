"""Training on more data than memory holds: passes over parts, then what a sample of the bags teaches.

Nothing of the size of the data is kept, apart from one label, weight and offset per bag. The kernel is learned on sums
of the collapsed bound over all parts; calibration, aggregate and thresholds on out-of-bag scores of a seeded sample of
bags, whose own statistics are taken out of those of all data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.errors import InputError
from psimil.inference.cross_fit import SMALL
from psimil.inference.fitting import Pass, Record, Schedule, ascend, first_posterior
from psimil.inference.learning import CollapsedStep, KernelState, with_kernel
from psimil.inference.local_pass import Projection, local_pass
from psimil.inference.log_z import has_exact_log_z
from psimil.inference.minibatches import stochastic_ascent
from psimil.inference.monitors import Convergence
from psimil.inference.options import Options
from psimil.inference.part_tasks import PartedCollapsedBound, pass_over
from psimil.inference.parts import PART_ROWS, Parts, StreamedParts
from psimil.inference.phases import INDUCING, tell
from psimil.inference.plan import tell_pass, tell_phases
from psimil.inference.preparation import Supervision, choose_sparse_gp
from psimil.inference.problem import Problem
from psimil.inference.progress import Keep, Progress
from psimil.inference.training import Callback, Fit, Training
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant, warn_if_runaway
from psimil.model.inducing import SAMPLE_PER_POINT
from psimil.model.label_posteriors import Labels
from psimil.model.scaling import Scaling

Array = NDArray[Any]
Spread = Callable[[StreamedParts], Parts]

SAMPLED = 2000  # bags on which calibration and thresholds rest
SCALING = "mean and deviation of the features"
SCALING_ROWS = 1 << 18  # instances whose mean and deviation are worked out at a time


def train_streamed(
    bags: Bags,
    supervision: Supervision,
    options: Options,
    *,
    rng: np.random.Generator,
    callbacks: Sequence[Callback] = (),
    batch_bags: int | None = None,
    spread: Spread = lambda parts: parts,
    keep: Keep | None = None,
    begun: Progress | None = None,
) -> Training:
    """Fit the model that ``options`` describe, part by part.

    Parameters
    ----------
    bags : whose ``X`` need not be in memory.
    batch_bags : bags of a minibatch; None for passes over all data.
    spread : who works out the parts; by default this process, one after another.
    keep : called after every complete pass.
    begun : what an earlier run of the same fit kept last; this one goes on from there and ends with the same bits, on
        the same kind of machine.

    Raises
    ------
    InputError
        When the options need more than sums over parts.
    """
    check_streamable(options)
    warn_if_runaway(options.density)
    scaling = streamed_scaling(bags) if options.standardize else Scaling.identity(bags.n_features)
    labels = Labels(supervision.T, bags.offsets, options.log_H, None)
    parts = StreamedParts(
        bags.stream,
        labels,
        supervision.weights,
        scaling,
        options.density,
        options.label_posterior,
        _rows(bags, options, batch_bags),
        options.dtype,
        options.device,
    )
    tell(INDUCING, 0, 1)
    gp = first_sparse_gp(bags, scaling, supervision, options, rng)
    run = _Run(spread(parts), options, callbacks, keep, begun)
    last = run.learn(KernelState(gp, first_posterior(gp)), batch_bags is not None, rng)
    return finish_on_sample(last, run, bags, supervision, options, scaling, rng)


def check_streamable(options: Options) -> None:
    """Refuse what needs every instance at once.

    Examples
    --------
    >>> check_streamable(Options(HyperbolicSecant(), label_posterior="mean_field"))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: streaming needs label_posterior="exact", got 'mean_field'.
    """
    needs = {"label_posterior": ("exact",), "hyperparameters": ("collapsed", None), "early_stopping": (None,)}
    for name, allowed in needs.items():
        value = getattr(options, name)
        if value not in allowed:
            listed = " or ".join(repr(a).replace("'", '"') for a in allowed)
            raise InputError(f"streaming needs {name}={listed}, got {value!r}.")
    if options.start != "labels":
        raise InputError(f'streaming needs start="labels", got {options.start!r}.')


def _rows(bags: Bags, options: Options, batch_bags: int | None) -> int:
    """Instances of a part, about."""
    if batch_bags is not None:
        return max(1, round(batch_bags * len(bags.X) / len(bags)))
    return options.chunk_size or PART_ROWS


def streamed_scaling(bags: Bags) -> Scaling:
    """Mean and standard deviation of each feature over all instances, some at a time.

    Examples
    --------
    >>> streamed_scaling(Bags.from_list([[[0.0], [2.0]], [[4.0]]])).location
    array([2.])
    """
    N = len(bags.X)
    if N <= SCALING_ROWS:
        return Scaling.fit(np.asarray(bags.X[:N]))
    total, low, high = (np.zeros(bags.n_features) for _ in range(3))
    pieces = [slice(a, min(a + SCALING_ROWS, N)) for a in range(0, N, SCALING_ROWS)]
    low[:], high[:] = np.inf, -np.inf
    for number, rows in enumerate(pieces):
        tell(SCALING, number, 2 * len(pieces))
        X = np.asarray(bags.stream[rows], dtype=np.float64)
        total += X.sum(axis=0)
        low, high = np.minimum(low, X.min(axis=0)), np.maximum(high, X.max(axis=0))
    location, square = total / N, np.zeros(bags.n_features)
    for number, rows in enumerate(pieces, start=len(pieces)):
        tell(SCALING, number, 2 * len(pieces))
        square += np.square(np.asarray(bags.stream[rows], dtype=np.float64) - location).sum(axis=0)
    scale = np.sqrt(square / N)
    return Scaling(location, np.where((high > low) & (scale > 0), scale, 1.0))


def first_sparse_gp(
    bags: Bags, scaling: Scaling, supervision: Supervision, options: Options, rng: np.random.Generator
) -> Any:
    """Kernel and inducing points from a seeded sample of bags with enough instances for k-means."""
    wanted = 2 * SAMPLE_PER_POINT * options.n_inducing
    share = min(1.0, wanted / len(bags.X))
    chosen = np.sort(rng.choice(len(bags), max(2, min(len(bags), int(np.ceil(share * len(bags))))), replace=False))
    sample = bags[chosen]
    part = Supervision(supervision.T[chosen], supervision.weights[chosen])
    return choose_sparse_gp(scaling.apply(sample.X, options.dtype), scaling, sample, part, options, rng)


class _Run:
    """The passes of one streamed fit, with their monitors and the history they leave."""

    def __init__(
        self, parts: Parts, options: Options, callbacks: Sequence[Callback], keep: Keep | None, begun: Progress | None
    ) -> None:
        self.parts, self.options, self.callbacks = parts, options, callbacks
        self.keep, self.begun = keep, begun
        self.history: list[dict[str, Any]] = [] if begun is None else list(begun.history)
        self.started, self.converged = time.perf_counter(), False
        if begun is not None:
            self.started -= begun.history[-1]["seconds"]

    def learn(self, state: KernelState, batches: bool, rng: np.random.Generator) -> Pass:
        """The kernel on the logistic model where it teaches, then the model's own passes."""
        options = self.options
        step = CollapsedStep(log_z=options.log_z != "none") if options.hyperparameters else None
        self.rng = rng
        tell_phases(
            options,
            taught_first=options.learns_on_logistic,
            moves=step is not None and not batches,
            guarded=False,
            refitted=len(self.parts.labels.T) <= SMALL,
        )
        if self.begun is not None:
            rng.bit_generator.state = self.begun.rng
        if options.learns_on_logistic and self.begun is not None and self.begun.stage != "kernel":
            step = None  # the kernel has been learned
        elif options.learns_on_logistic:
            teacher = self.parts.with_density(HyperbolicSecant())
            gp = with_kernel(state.gp, self._passes(teacher, state, step, "kernel").gp.kernel.log_parameters)
            state, step = KernelState(gp, first_posterior(gp)), None
        if batches:
            begun = self._begun("batches")
            if begun is not None:
                state = KernelState(begun.record.gp, begun.record.posterior)
            done = 0 if begun is None else begun.record.step
            return self._watch(stochastic_ascent(self.parts, state, step, rng, done), "batches")
        return self._passes(self.parts, state, step, "fit")

    def _passes(self, parts: Parts, state: KernelState, step: CollapsedStep | None, stage: str) -> Pass:
        def run(state: KernelState, previous: Pass | None) -> Pass:
            statistics, log_z = pass_over(parts, state.gp, state.posterior)
            return Pass(state.gp, state.posterior, statistics, statistics.bound(state.posterior.kl, log_z))

        def move(state: KernelState, record: Pass) -> KernelState:
            assert step is not None  # not called otherwise
            bound = PartedCollapsedBound(parts, record.gp, record.posterior, step.log_z)
            return step.climb(state, bound, float(parts.weights.sum()), record.step)

        accelerate = self.options.accelerate and has_exact_log_z(parts.density)
        begun = self._begun(stage)
        last = None if begun is None else begun.record
        schedule = Schedule()
        loop = ascend(run, state, move if step else None, schedule, accelerate=accelerate, begun=last)
        return self._watch(loop, stage, schedule.last if step else None)

    def _begun(self, stage: str) -> Progress | None:
        return self.begun if self.begun is not None and self.begun.stage == stage else None

    def _watch(self, passes: Iterator[Pass], stage: str, moves: int | None = None) -> Pass:
        convergence = Convergence(self.options.tol, len(self.parts.labels.T))
        if (begun := self._begun(stage)) is not None:
            convergence.previous, self.converged = begun.record.bound.total, begun.converged
            if begun.stopped:
                return begun.record
        for record in passes:
            stop = convergence(record)
            tell_pass(stage, record, convergence, self.options, moves)
            seconds = time.perf_counter() - self.started
            self.history.append(
                {"stage": stage, "iteration": record.step, **record.bound.as_dict(), "seconds": seconds}
            )
            asked = [bool(callback(self.history[-1])) for callback in self.callbacks]
            stop = stop or any(asked) or record.step >= max(self.options.max_iter, 1)
            if self.keep is not None:
                rng = self.rng.bit_generator.state
                self.keep(Progress(stage, record, list(self.history), convergence.converged, stop, dict(rng)))
            if stop:
                break
        self.converged = convergence.converged
        return record


def finish_on_sample(
    last: Pass,
    run: _Run,
    bags: Bags,
    supervision: Supervision,
    options: Options,
    scaling: Scaling,
    rng: np.random.Generator,
) -> Training:
    """Calibration, aggregate and thresholds from out-of-bag scores of a sample of bags."""
    chosen = np.arange(len(bags))
    if len(bags) > SAMPLED:
        chosen = np.sort(rng.choice(len(bags), SAMPLED, replace=False))
    sample = bags[chosen]
    labels = Labels(supervision.T[chosen], sample.offsets, options.log_H)
    X = scaling.apply(sample.X, options.dtype)
    problem = Problem(X, labels, supervision.weights[chosen], options.density, options.label_posterior)
    projection = Projection.build(last.gp, problem)
    local, _ = local_pass(projection, last.posterior, problem)
    record = Record(last.gp, last.posterior, last.statistics, last.bound, last.step, projection=projection, local=local)
    fit = Fit(problem, options, run.callbacks, scaling, None, seed=int(rng.integers(2**31)))
    training = fit.finish(record, sample)
    return replace(training, pi=None, history=run.history, converged=run.converged)
