"""A small search around the collapsed optimum, steered by the out-of-bag log predictive."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.fitting import Record, first_posterior, iterate
from psimil.inference.learning import KernelState, with_kernel
from psimil.inference.loo import loo_score, loo_scores
from psimil.inference.phases import RIVALS, tell
from psimil.inference.problem import Problem
from psimil.inference.sparse_gp import SparseGP
from psimil.model.kernels import RBF

Array = NDArray[Any]

PASSES = 15  # passes before a candidate is scored
STEPS = (1.0, 0.5)  # log steps of the pattern: a factor of 2.7, then of 1.6
REACH = 3.0  # log distance from the collapsed optimum that the search may go: a factor of twenty
LEAST_GAIN = 0.05  # nats per bag that a fixed kernel must gain over the learned one
MAX_PARAMETERS = 4  # beyond this, length scales move together


def search_kernel(record: Record, problem: Problem, aggregate: str) -> SparseGP:
    """Pattern search in the log parameters from the kernel of ``record``; the best kernel by out-of-bag score."""
    best, score = record.gp, loo_score(record, problem, aggregate)
    centre = best.kernel.log_parameters
    size, tried = len(centre), 0
    directions = np.eye(size) if size <= MAX_PARAMETERS else np.array([np.eye(size)[0], 1.0 - np.eye(size)[0]])
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for direction in (sign * d for d in directions for sign in (1.0, -1.0)):
                moved = best.kernel.log_parameters + step * direction
                if np.abs(moved - centre).max() > REACH:
                    continue
                tried += 1
                tell(RIVALS, tried)
                candidate = with_kernel(best, moved)
                found = float(np.average(_scores(candidate, problem, aggregate), weights=problem.weights))
                if found > score + 1e-4:
                    best, score, improved = candidate, found, True
    return best


def guard_kernel(record: Record, problem: Problem, aggregate: str) -> SparseGP:
    """The learned kernel, or a fixed RBF kernel where leave-one-bag-out clearly prefers it.

    The bound of few bags is a poor guide: it may rise while predictions fall (docs/derivations.md). The rivals have
    variance 1 or 10 and length scale sqrt(D) or six tenths of it. A rival must raise the mean log predictive by more
    than two standard errors of the difference over bags, and by 0.05: leave-one-bag-out flatters flexible kernels.
    """
    best, learned = record.gp, loo_scores(record, problem, aggregate)
    gain, weights, D = 0.0, problem.weights, problem.X.shape[1]
    rivals = list(product((1.0, 10.0), (1.0, 0.6)))
    for number, (variance, scale) in enumerate(rivals):
        tell(RIVALS, number, len(rivals))
        kernel = RBF(variance, float(scale * np.sqrt(D)))
        candidate = SparseGP.build(kernel, record.gp.Z, bias=record.gp.bias, residual=record.gp.residual)
        difference = _scores(candidate, problem, aggregate) - learned
        found = float(np.average(difference, weights=weights))
        error = np.sqrt(np.average((difference - found) ** 2, weights=weights) / len(difference))
        if found > max(gain, LEAST_GAIN, 2.0 * float(error)):
            best, gain = candidate, found
    return best


def _scores(gp: SparseGP, problem: Problem, aggregate: str) -> Array:
    passes = iterate(problem, KernelState(gp, first_posterior(gp)))
    for record in islice(passes, PASSES):
        tell("passes with another kernel", record.step, PASSES)
    return loo_scores(record, problem, aggregate)
