"""A small search around the collapsed optimum, steered by the out-of-bag log predictive."""

from __future__ import annotations

from itertools import islice

import numpy as np

from psimil.inference.fitting import Record, first_posterior, iterate
from psimil.inference.learning import KernelState, with_kernel
from psimil.inference.loo import loo_score
from psimil.inference.problem import Problem
from psimil.inference.sparse_gp import SparseGP

PASSES = 15  # passes before a candidate is scored
STEPS = (1.0, 0.5)  # log steps of the pattern: a factor of 2.7, then of 1.6
MAX_PARAMETERS = 4  # beyond this, length scales move together


def search_kernel(record: Record, problem: Problem, aggregate: str) -> SparseGP:
    """Pattern search in the log parameters from the kernel of ``record``; the best kernel by out-of-bag score."""
    best, score = record.gp, loo_score(record, problem, aggregate)
    size = len(best.kernel.log_parameters)
    directions = np.eye(size) if size <= MAX_PARAMETERS else np.array([np.eye(size)[0], 1.0 - np.eye(size)[0]])
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for direction in (sign * d for d in directions for sign in (1.0, -1.0)):
                candidate = with_kernel(best, best.kernel.log_parameters + step * direction)
                found = _score(candidate, problem, aggregate)
                if found > score + 1e-4:
                    best, score, improved = candidate, found, True
    return best


def _score(gp: SparseGP, problem: Problem, aggregate: str) -> float:
    passes = iterate(problem, KernelState(gp, first_posterior(gp)))
    record = next(islice(passes, PASSES - 1, PASSES))
    return loo_score(record, problem, aggregate)
