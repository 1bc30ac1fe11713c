"""What is done to one part of the data: a pass, and the two sweeps of the collapsed bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from psimil.inference.collapsed import Adjoint, Backward, Collapsed, CollapsedBound, Forward, maximised
from psimil.inference.fitting import prior_log_z
from psimil.inference.local_pass import Local, Projection, Statistics, local_pass
from psimil.inference.parts import Parts, Result, Task
from psimil.inference.phases import tell
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Chunk, Problem
from psimil.inference.sparse_gp import SparseGP


@dataclass(frozen=True)
class PassTask:
    """The statistics of a part under q(v), and its share of log Z."""

    gp: SparseGP
    posterior: Posterior

    def __call__(self, problem: Problem) -> tuple[Statistics, float]:
        """Sums over the part."""
        projection = Projection.streamed(self.gp, problem)
        return local_pass(projection, self.posterior, problem)[1], prior_log_z(projection, problem)


def pass_over(
    parts: Parts, gp: SparseGP, posterior: Posterior, chunks: list[Chunk] | None = None
) -> tuple[Statistics, float]:
    """The statistics of all parts, or of some, and log Z: the same sums in the same order however they are run."""
    total: Statistics | None = None
    log_z = 0.0
    for statistics, share in _results(parts, PassTask(gp, posterior), chunks):
        total = statistics if total is None else total + statistics
        log_z += share
    assert total is not None  # a data set has at least one part
    return total, log_z


def _results(parts: Parts, task: Task[Result], chunks: list[Chunk] | None) -> Iterator[Result]:
    """The task's results for these parts, or for all, each told when it is there."""
    of = len(parts.chunks if chunks is None else chunks)
    for number, result in enumerate(parts.map(task, chunks), start=1):
        if of > 1:
            tell("parts of the data", number, of)
        yield result


def _local(problem: Problem, gp: SparseGP, posterior: Posterior) -> Local:
    return local_pass(Projection.streamed(gp, problem), posterior, problem)[0]


@dataclass(frozen=True)
class ForwardTask:
    """The forward sums of the collapsed bound at ``gp``, theta and pi being those of ``before`` and ``posterior``."""

    gp: SparseGP
    before: SparseGP
    posterior: Posterior
    log_z: bool

    def __call__(self, problem: Problem) -> Forward:
        """Sums over the part."""
        return CollapsedBound(problem, _local(problem, self.before, self.posterior), self.log_z).forward(self.gp)


@dataclass(frozen=True)
class BackwardTask:
    """The backward sums of the collapsed bound; see :class:`ForwardTask`."""

    gp: SparseGP
    before: SparseGP
    posterior: Posterior
    log_z: bool
    adjoint: Adjoint

    def __call__(self, problem: Problem) -> Backward:
        """Sums over the part."""
        bound = CollapsedBound(problem, _local(problem, self.before, self.posterior), self.log_z)
        bound.forward(self.gp)  # leaves K and V for the way back
        return bound.backward(self.gp, self.adjoint)


@dataclass(frozen=True, eq=False)
class PartedCollapsedBound:
    """The collapsed bound as sums over parts; see :class:`psimil.inference.collapsed.CollapsedBound`."""

    parts: Parts
    before: SparseGP
    posterior: Posterior
    log_z: bool = True
    chunks: list[Chunk] | None = None

    def __call__(self, gp: SparseGP) -> Collapsed:
        """F and dF / d log parameters at the kernel of ``gp``."""
        fixed = (self.before, self.posterior, self.log_z)
        forward = Forward.zero(gp.size)
        for part in _results(self.parts, ForwardTask(gp, *fixed), self.chunks):
            forward = forward + part

        def backward(adjoint: Adjoint) -> Backward:
            total = Backward.zero(gp)
            for part in _results(self.parts, BackwardTask(gp, *fixed, adjoint), self.chunks):
                total = total + part
            return total

        return maximised(gp, forward, backward)
