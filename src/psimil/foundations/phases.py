"""What long work is doing, told to whoever listens: nobody, unless a command or ``verbose`` asks.

Listeners belong to the calling context, so the functions between them and the work need not hand them on. What they
answer does not matter: only callbacks can stop a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

INDUCING = "inducing points"
LEARNING = "steps of the kernel"
JUDGING = {"none": "steps of the kernel without context", "bag": "steps of the kernel in context"}  # to compare them
PASSES = {"fit": "passes", "batches": "passes"}  # by stage
THRESHOLDS = "thresholds"
CLIMB, REST, LAST = 20.0, 12.0, 1.0  # in passes, about: of learning the kernel, the passes after it, and thresholds


class Step(NamedTuple):
    """A phase has come this far.

    Parameters
    ----------
    phase : its name, in words for a reader.
    done, of : steps that are done, and steps that it is expected to take; None where nobody knows.
    note : more words, such as how the bound moves.
    """

    phase: str
    done: int
    of: int | None
    note: str = ""


class Plan(NamedTuple):
    """What is to come: the phases in order, and how long each takes next to the others, about; none: it is done."""

    phases: Mapping[str, float]


Listener = Callable[[Step | Plan], object]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def following(listener: Listener) -> Iterator[None]:
    """Within this context the listener hears what is told, beside those that listen already.

    Examples
    --------
    >>> with following(print):
    ...     tell("passes", 1, 8)
    Step(phase='passes', done=1, of=8, note='')
    >>> tell("passes", 2, 8)
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def tell(phase: str, done: int, of: int | None = None, note: str = "") -> None:
    """Tell how far a phase has come; see :class:`Step`.

    Examples
    --------
    >>> heard = []
    >>> with following(heard.append):
    ...     tell("inducing points", 0)
    >>> heard[0].phase, heard[0].of
    ('inducing points', None)
    """
    for listener in _listeners.get():
        listener(Step(phase, done, of, note))


def tell_plan(phases: Mapping[str, float]) -> None:
    """Tell which phases are to come; see :class:`Plan`.

    Examples
    --------
    >>> with following(print):
    ...     tell_plan({"passes": 40, "thresholds": 2})
    Plan(phases={'passes': 40, 'thresholds': 2})
    """
    for listener in _listeners.get():
        listener(Plan(phases))
