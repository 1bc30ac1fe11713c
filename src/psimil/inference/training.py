"""From bags to a trained model: inducing points, kernel, passes, then what out-of-bag scores teach."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from psimil.foundations.errors import DataWarning
from psimil.foundations.threads import single_threaded_blas
from psimil.inference.calibration import LatentBags
from psimil.inference.cross_fit import SMALL, cross_fit
from psimil.inference.fitting import Record, Schedule, first_posterior, iterate, random_labels, start_from_labels
from psimil.inference.kernel_search import guard_kernel, search_kernel
from psimil.inference.learning import CollapsedStep, KernelState, KernelStep, PaperStep, with_kernel
from psimil.inference.log_z import has_exact_log_z
from psimil.inference.loo import LeaveOneOut, log_predictive, loo_score, out_of_bag
from psimil.inference.monitors import Convergence, EarlyStopping
from psimil.inference.options import Options
from psimil.inference.phases import INDUCING, THRESHOLDS, tell, tell_plan
from psimil.inference.plan import tell_pass, tell_phases
from psimil.inference.preparation import Supervision, choose_scaling, choose_sparse_gp
from psimil.inference.problem import Problem, chunk_rows
from psimil.inference.sparse_gp import SparseGP
from psimil.inference.teaching import taught
from psimil.inference.trained import TrainedModel
from psimil.model.bags import Bags
from psimil.model.densities import HyperbolicSecant, warn_if_runaway
from psimil.model.inducing import choose_inducing
from psimil.model.label_posteriors import Labels
from psimil.model.scaling import Scaling

Array = NDArray[Any]
Callback = Callable[[dict[str, Any]], Any]

CACHE_BYTES = 2**31  # V stays in memory between passes up to this size
TEACHING = 200  # inducing points on which a kernel is learned for more of them
PUBLISHED_TOLERANCE = 1e-3  # rise of the score that the authors' code takes for a better one
FEWEST = 3  # bags of a label below which nothing is held out
PAPER_SCHEDULES = {"paper": Schedule(1, 1, 10**9), "published": Schedule(10, 1, 10**9)}


@dataclass(frozen=True)
class Training:
    """A trained model and how it came about."""

    model: TrainedModel
    history: list[dict[str, Any]]
    loo: LeaveOneOut
    pi: Array | None
    converged: bool


def train(
    bags: Bags,
    supervision: Supervision,
    options: Options,
    *,
    rng: np.random.Generator,
    evaluation: tuple[Bags, Array] | None = None,
    callbacks: Sequence[Callback] = (),
    previous: TrainedModel | None = None,
) -> Training:
    """Fit the model that ``options`` describe.

    Parameters
    ----------
    evaluation : bags and labels that early stopping watches.
    callbacks : called with the history row of each iteration; a true answer stops the fit.
    previous : a model to start from (same features and number of inducing points).
    """
    with single_threaded_blas():
        return _train(bags, supervision, options, rng, evaluation, callbacks, previous)


def _train(
    bags: Bags,
    supervision: Supervision,
    options: Options,
    rng: np.random.Generator,
    evaluation: tuple[Bags, Array] | None,
    callbacks: Sequence[Callback],
    previous: TrainedModel | None,
) -> Training:
    warn_if_runaway(options.density)
    scaling = previous.scaling if previous else choose_scaling(bags, options)
    X = scaling.apply(bags.X, options.dtype)
    labels = Labels(supervision.T, bags.offsets, options.log_H, supervision.known)
    if previous is None:
        tell(INDUCING, 0, 1)
    gp = previous.gp if previous else choose_sparse_gp(X, scaling, bags, supervision, options, rng)
    streamed = options.chunk_size is not None or X.itemsize * len(X) * gp.size > CACHE_BYTES
    problem = Problem(
        X,
        labels,
        supervision.weights,
        options.density,
        options.label_posterior,
        chunk_rows=options.chunk_size or chunk_rows(gp.size, X.dtype),
        cache=not streamed,
        device=options.device,
    )
    fit = Fit(problem, options, callbacks, scaling, evaluation, seed=int(rng.integers(2**31)))
    state = KernelState(gp, previous.posterior if previous else first_posterior(gp))
    pi = None
    if options.start != "labels" and previous is None:
        pi = random_labels(problem, float(options.start), rng)
        state = KernelState(gp, start_from_labels(gp, problem, pi))
    record = fit.learn(state, pi)
    return fit.finish(record, bags)


@dataclass
class Fit:
    """One call of train: the loop with its monitors, and the history it leaves."""

    problem: Problem
    options: Options
    callbacks: Sequence[Callback]
    scaling: Scaling
    evaluation: tuple[Bags, Array] | None
    seed: int
    converged: bool = False

    def __post_init__(self) -> None:
        self.history: list[dict[str, Any]] = []
        self.started = time.perf_counter()

    def learn(self, state: KernelState, pi: Array | None) -> Record:
        """Kernel first where the logistic model or fewer inducing points teach it, then the model's own passes."""
        options, step, few = self.options, self._kernel_step(), self._fewer_points(state.gp)
        taught_first = options.learns_on_logistic or few is not None
        tell_phases(
            options,
            taught_first=taught_first,
            moves=step is not None,
            guarded=self._is_guarded,
            refitted=self._is_refitted,
        )
        if taught_first:
            teacher = replace(self.problem, density=HyperbolicSecant()) if options.learns_on_logistic else self.problem
            first = state if few is None else KernelState(few, first_posterior(few))
            gp = with_kernel(state.gp, self.run(teacher, first, step, pi, stage="kernel").gp.kernel.log_parameters)
            state, step = KernelState(gp, first_posterior(gp)), None
        record = self.run(self.problem, state, step, pi, stage="fit")
        gp = self._reconsider(record)
        if gp is not record.gp:
            record = self.run(self.problem, KernelState(gp, first_posterior(gp)), None, pi, stage="loo")
        return record

    def _fewer_points(self, gp: SparseGP) -> SparseGP | None:
        """Few inducing points, on which a kernel is learned as well and faster; None where that would not pay."""
        options, labels = self.options, self.problem.labels
        learned = options.hyperparameters in ("collapsed", "loo") and options.inducing_points is None
        if not learned or len(gp.Z) <= TEACHING:
            return None
        positive = labels.spread(labels.T) == 1
        return self._with_points(gp, self.problem.X, positive, TEACHING, np.random.default_rng(self.seed))

    def _with_points(self, gp: SparseGP, X: Array, positive: Array, size: int, rng: np.random.Generator) -> SparseGP:
        """The same kernel with inducing points chosen from the instances X (n, D)."""
        Z = choose_inducing(X, positive, size, self.options.inducing, gp.kernel, rng)
        return SparseGP.build(gp.kernel, Z, bias=gp.bias, residual=gp.residual)

    def _reconsider(self, record: Record) -> SparseGP:
        """The kernel that out-of-bag scores prefer to the one the bound has chosen."""
        if self.options.hyperparameters == "loo":
            return search_kernel(record, self.problem, self.options.first_aggregate)
        if self._is_guarded:
            return guard_kernel(record, self.problem, self.options.first_aggregate)
        return record.gp

    @property
    def _is_guarded(self) -> bool:
        """Whether fixed kernels are tried beside the learned one."""
        options, few = self.options, len(self.problem.labels.T) <= SMALL
        return options.hyperparameters == "collapsed" and few and options.kernel is None

    @property
    def _is_refitted(self) -> bool:
        """Whether bags are held out by refits, where that is cheap."""
        T = self.problem.labels.T
        return self.options.learns_from_unseen and len(T) <= SMALL and min(T.sum(), len(T) - T.sum()) >= FEWEST

    def run(
        self, problem: Problem, state: KernelState, step: KernelStep | None, pi: Array | None, stage: str
    ) -> Record:
        """Passes until a monitor, a callback or max_iter stops them; the best record under early stopping."""
        options = self.options
        convergence, stopping = Convergence(options.tol, len(self.problem.labels.T)), self._early_stopping()
        schedule = PAPER_SCHEDULES.get(options.hyperparameters or "", Schedule())
        accelerate = options.accelerate and options.label_posterior != "max" and has_exact_log_z(problem.density)
        record: Record | None = None
        for record in iterate(problem, state, step_kernel=step, schedule=schedule, pi=pi, accelerate=accelerate):
            row = {"stage": stage, "iteration": record.step, **record.bound.as_dict()}
            stop = convergence(record)
            tell_pass(stage, record, convergence, options, schedule.last if step else None)
            if stopping is not None:
                stop = stopping(record) or (stop and options.early_stopping is None)
                row[f"eval_{options.early_stopping}"] = stopping.scores[-1]
            row["seconds"] = time.perf_counter() - self.started
            self.history.append(row)
            asked = [bool(callback(row)) for callback in self.callbacks]
            if stop or any(asked) or record.step >= max(options.max_iter, 1):
                break
        self.converged = convergence.converged
        chosen = stopping.best if stopping is not None and stopping.best is not None else record
        assert chosen is not None  # iterate never ends by itself
        return chosen

    def _kernel_step(self) -> KernelStep | None:
        options = self.options
        if options.hyperparameters in ("collapsed", "loo"):
            return CollapsedStep(log_z=options.log_z != "none")
        if options.hyperparameters in ("paper", "published"):
            published = options.hyperparameters == "published"
            log_z = "none" if published or isinstance(options.density, HyperbolicSecant) else options.log_z
            return PaperStep(
                samples=(1 if published else 100) if options.expectation == "sample" else None,
                log_z="jensen" if log_z == "logistic" else log_z,
                published=published,
                seed=self.seed,
            )
        return None

    def _early_stopping(self) -> EarlyStopping | None:
        options = self.options
        if options.early_stopping is None:
            return None
        if options.early_stopping == "loo":
            return EarlyStopping(lambda r: loo_score(r, self.problem, options.first_aggregate), options.patience)
        tolerance = PUBLISHED_TOLERANCE if options.hyperparameters == "published" else 0.0
        return EarlyStopping(self._evaluate, options.patience, tolerance)

    def _evaluate(self, record: Record) -> float:
        assert self.evaluation is not None  # checked where eval_set is read
        bags, T = self.evaluation
        log_odds = self._model(record).predict(bags).log_odds
        if self.options.early_stopping == "auc":
            return float(roc_auc_score(T, log_odds))
        return float(log_predictive(log_odds, T).mean())

    def _model(self, record: Record) -> TrainedModel:
        options = self.options
        return TrainedModel(
            self.scaling,
            record.gp,
            record.next_posterior,
            options.first_aggregate,
            dtype=options.dtype,
            expectation=options.expectation,
            seed=self.seed,
        )

    def _cross_fit(self, record: Record, latent: LatentBags) -> LatentBags:
        """Out-of-fold moments by refitting where that is cheap; the leave-one-out moments otherwise."""
        options = self.options
        if not self._is_refitted:
            return latent
        rng = np.random.default_rng(self.seed)

        def rebuild(X: Array, positive: Array) -> SparseGP:
            if options.inducing_points is not None:
                return record.gp
            return self._with_points(record.gp, X, positive, len(record.gp.Z), rng)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # said once for the whole training set
            mean, variance = cross_fit(self.problem, rebuild)
        return replace(latent, mean=mean, variance=variance)

    def finish(self, record: Record, bags: Bags) -> Training:
        """Calibration, thresholds and recalibration from the out-of-bag scores of the last record."""
        options, T = self.options, self.problem.labels.T
        tell("leave-one-out", 0, 1)
        latent = out_of_bag(record, self.problem, options.first_aggregate)
        unseen = self._cross_fit(record, latent)
        tell(THRESHOLDS, 0, 1)
        model = taught(self._model(record), unseen, options)
        left_out = model.assemble(bags, model.calibration.apply(latent.mean, latent.variance))
        loo = LeaveOneOut(left_out, log_predictive(left_out.log_odds, T))
        tell_plan({})
        return Training(model, self.history, loo, record.local.pi, self.converged)
