"""What a worker's answer must satisfy before it counts: the right round and part, intact, of the right shapes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.inference.part_tasks import BackwardTask, ForwardTask, PassTask
from psimil.inference.posterior import Posterior
from psimil.inference.problem import Chunk, Problem
from psimil.inference.sparse_gp import SparseGP

Array = NDArray[Any]


@dataclass(frozen=True)
class LatentTask:
    """Mean and variance of f at the instances of a part, each (n,)."""

    gp: SparseGP
    posterior: Posterior

    def __call__(self, problem: Problem) -> tuple[Array, Array]:
        """Moments of the part."""
        from psimil.inference.latent import latent_moments

        return latent_moments(self.gp, self.posterior, problem.X)


@dataclass(frozen=True)
class Answer:
    """What a worker sends back for one part.

    Parameters
    ----------
    round, part : which question it answers.
    result : of the task.
    checksum : of the result, made where it was worked out.
    seconds : that the work took.
    worker : address of the worker, "" when unknown.
    """

    round: int
    part: int
    result: Any
    checksum: str
    seconds: float = 0.0
    worker: str = ""


def arrays_of(result: Any) -> list[Array]:
    """The numbers of a result, in order: of tuples and records of arrays and floats.

    Examples
    --------
    >>> arrays_of((1.0, (np.zeros(2), 3.0)))
    [array(1.), array([0., 0.]), array(3.)]
    """
    if is_dataclass(result):
        result = tuple(getattr(result, field.name) for field in fields(result))
    if isinstance(result, tuple):
        return [array for item in result for array in arrays_of(item)]
    return [np.asarray(result)]


def checksum(result: Any) -> str:
    """A digest of the types, shapes and bytes of a result.

    Examples
    --------
    >>> checksum((1.0, 2.0)) == checksum((1.0, 2.5))
    False
    """
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays_of(result):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def expected_shapes(task: Any, chunk: Chunk) -> list[tuple[int, ...]] | None:
    """Shapes of what a task gives for a part; None for a task that is not known here.

    Examples
    --------
    >>> expected_shapes(len, Chunk(0, 1, 0, 1)) is None
    True
    """
    if isinstance(task, LatentTask):
        return [(chunk.stop - chunk.start,)] * 2
    if not isinstance(task, (PassTask, ForwardTask, BackwardTask)):
        return None
    size, points = task.gp.size, len(task.gp.Z)
    if isinstance(task, BackwardTask):
        return [(len(task.gp.kernel.log_parameters),), (points, points)]
    return [(size, size), (size,), *[()] * (5 if isinstance(task, PassTask) else 1)]


def fault(answer: Any, task: Any, chunk: Chunk, *, round: int, part: int) -> str | None:
    """Why an answer does not count, in words; None for one that does, or whose numbers alone are not finite.

    Examples
    --------
    >>> answer = Answer(3, 0, 1.0, checksum(1.0))
    >>> fault(answer, len, Chunk(0, 1, 0, 1), round=4, part=0)
    'the answer belongs to another round'
    """
    if not isinstance(answer, Answer):
        return "the answer is none"
    if (answer.round, answer.part) != (round, part):
        return f"the answer belongs to another {'part' if answer.round == round else 'round'}"
    try:
        arrays = arrays_of(answer.result)
    except (TypeError, ValueError, RecursionError):
        arrays = []
    if not arrays or any(array.dtype.kind not in "fiu" for array in arrays):
        return "the answer has things that are no numbers"
    shapes = expected_shapes(task, chunk)
    if shapes is not None and [array.shape for array in arrays] != shapes:
        return "the answer has the wrong shape"
    return None if checksum(answer.result) == answer.checksum else "the answer was damaged on its way"


def is_finite(result: Any) -> bool:
    """Whether every number of a result is finite.

    Examples
    --------
    >>> is_finite((1.0, np.array([np.nan])))
    False
    """
    return all(bool(np.isfinite(array).all()) for array in arrays_of(result))
