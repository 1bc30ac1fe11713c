"""A small search around the collapsed optimum, steered by the out-of-bag log predictive."""

from __future__ import annotations

from itertools import islice, product

import numpy as np

from psimil.inference.fitting import Record, first_posterior, iterate
from psimil.inference.learning import KernelState, with_kernel
from psimil.inference.loo import loo_score
from psimil.inference.problem import Problem
from psimil.inference.sparse_gp import SparseGP

PASSES = 15  # passes before a candidate is scored
STEPS = (1.0, 0.5)  # log steps of the pattern: a factor of 2.7, then of 1.6
REACH = 3.0  # log distance from the collapsed optimum that the search may go: a factor of twenty
MAX_PARAMETERS = 4  # beyond this, length scales move together


def search_kernel(record: Record, problem: Problem, aggregate: str) -> SparseGP:
    """Pattern search in the log parameters from the kernel of ``record``; the best kernel by out-of-bag score."""
    best, score = record.gp, loo_score(record, problem, aggregate)
    centre = best.kernel.log_parameters
    size = len(centre)
    directions = np.eye(size) if size <= MAX_PARAMETERS else np.array([np.eye(size)[0], 1.0 - np.eye(size)[0]])
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for direction in (sign * d for d in directions for sign in (1.0, -1.0)):
                moved = best.kernel.log_parameters + step * direction
                if np.abs(moved - centre).max() > REACH:
                    continue
                candidate = with_kernel(best, moved)
                found = _score(candidate, problem, aggregate)
                if found > score + 1e-4:
                    best, score, improved = candidate, found, True
    return best


def guard_kernel(record: Record, problem: Problem, aggregate: str) -> SparseGP:
    """The learned RBF kernel, or a fixed one where leave-one-bag-out prefers it.

    The bound of few bags is a poor guide: it may rise while predictions fall (docs/derivations.md). The rivals have
    variance 1 or 10 and length scale sqrt(D) or six tenths of it.
    """
    best, score = record.gp, loo_score(record, problem, aggregate)
    for variance, scale in product((1.0, 10.0), (1.0, 0.6)):
        candidate = with_kernel(record.gp, np.log([variance, scale * np.sqrt(problem.X.shape[1])]))
        found = _score(candidate, problem, aggregate)
        if found > score:
            best, score = candidate, found
    return best


def _score(gp: SparseGP, problem: Problem, aggregate: str) -> float:
    passes = iterate(problem, KernelState(gp, first_posterior(gp)))
    record = next(islice(passes, PASSES - 1, PASSES))
    return loo_score(record, problem, aggregate)
