"""Progress of a command: how far it has come, what is left, and how that is shown on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import typer

from psimil.cli.exits import printable
from psimil.foundations.phases import Plan, Step

FIRST, EVERY = 20.0, 30.0  # seconds before the first line in a file, and between two of them
REDRAWN = 0.05  # seconds between two changes of the bar
WIDEST = 44  # letters that the bar leaves for words at 80 columns


class Course:
    """Where a command stands.

    A command may count steps; the phases told between two of them are parts of the next one. Without counted steps a
    plan is the whole, and without a plan every phase is one of its own.

    Examples
    --------
    >>> course = Course(clock=iter([0.0, 0.0, 8.0]).__next__)
    >>> course.count(5, "folds")
    >>> course.step("fold 1")
    >>> course.share, course.left
    (0.2, 32.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = clock
        self._plan: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._first: dict[str, float] = {}
        self._rest = 0.0
        self._step: Step | None = None
        self.count(0.0, "")

    def count(self, total: float, heading: str, done: float = 0.0, *, at_most: bool = False) -> None:
        """So many steps are to come in all; ``at_most`` when there may be fewer. A total of 0 ends the counting."""
        self._total, self._counted, self._heading, self._note, self.at_most = total, done, heading, "", at_most
        self._size = min(1.0, total)
        self._forget()
        self._start()

    def step(self, note: str = "", size: float = 1.0) -> None:
        """A counted step is done, which is worth ``size`` of the total."""
        self._counted, self._size, self._note = self._counted + size, size, note
        self._forget()

    def hear(self, event: Step | Plan) -> None:
        """What :func:`psimil.foundations.phases.following` brings."""
        if isinstance(event, Plan):
            if self._counts and not event.phases:  # nothing is left of this step
                self._done, self._rest = dict(self._plan), 0.0
                return
            self._forget()
            self._plan = dict(event.phases)
            if not self._counts:
                self._start()
            return
        if event.phase in self._plan:
            self._advance(event)
        elif not self._plan and event.phase != (self._step.phase if self._step else None) and not self._counts:
            self._step = event
            self._start()
        self._step = event

    @property
    def share(self) -> float:
        """What is done of the whole, between 0 and 1."""
        if not self._counts:
            return self._within
        return min(1.0, (self._counted + self._size * self._within) / self._total)

    @property
    def left(self) -> float | None:
        """Seconds that the rest may take; None where nobody knows."""
        known = self._counts or self._step is None or self._step.phase not in self._plan or self._step.of is not None
        share, before = self.share, self._before
        elapsed = self._now() - self._since
        return elapsed * (1.0 - share) / (share - before) if known and share > before and elapsed > 0 else None

    @property
    def lines(self) -> list[str]:
        """What is done at the moment, in words: the counted steps, then the phase."""
        lines = []
        if self._counts:
            number = f" {self._counted:g} of {self._total:g}" if self._total > 1 else ""
            lines.append(f"{self._heading}{number}" + (f", {self._note}" if self._note else ""))
        if (step := self._step) is not None:
            many = f" {step.done} of {step.of}" if step.of else f" {step.done}"
            lines.append(step.phase + (many if step.done else "") + (f", {step.note}" if step.note else ""))
        return lines

    @property
    def _counts(self) -> bool:
        return self._counted < self._total

    @property
    def _within(self) -> float:
        """What is done of the plan, or else of the phase."""
        if self._plan:
            ahead = sum(weight for phase, weight in self._plan.items() if phase not in self._done)
            done = sum(self._done.values())
            return done / max(done + self._rest + ahead, 1e-12)
        step = self._step
        return min(1.0, step.done / step.of) if step is not None and step.of else 0.0

    def _advance(self, step: Step) -> None:
        """A phase of the plan has moved: what it takes is scaled when it expects more or fewer steps than at first."""
        order = list(self._plan)
        for earlier in order[: order.index(step.phase)]:
            self._done[earlier] = self._done.get(earlier, 0.0) or self._rest * (earlier in self._done)
        weight = self._plan[step.phase]
        of = max(step.of, step.done) if step.of else max(weight, step.done + 1)  # weights are in steps, about
        weight *= of / self._first.setdefault(step.phase, of)
        done = weight * step.done / of
        self._done[step.phase], self._rest = done, weight - done

    def _forget(self) -> None:
        self._plan, self._done, self._first, self._rest, self._step = {}, {}, {}, 0.0, None

    def _start(self) -> None:
        self._since, self._before = self._now(), self.share


def words(seconds: float) -> str:
    """A time for a reader.

    Examples
    --------
    >>> words(8.2), words(170), words(12000)
    ('8 s', '3 min', '3 h 20 min')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class Display:
    """What a command shows of its course while it works: a bar on a terminal, a line now and then in a file.

    Parameters
    ----------
    quiet : show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet, self.course = quiet, Course()
        self._begun = time.monotonic()
        self._next = {"line": self._begun + FIRST, "bar": self._begun}
        self._bar: Any = None

    def hear(self, event: Step | Plan) -> None:
        """A phase has moved."""
        self.course.hear(event)
        self.show()

    def show(self) -> None:
        """Redraw the bar, or write a line if it is time for one."""
        if self.quiet or sys.stderr is None or not self.course.lines:
            return
        now, terminal = time.monotonic(), sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        kind = "bar" if terminal else "line"
        if now < self._next[kind]:
            return
        self._next[kind] = now + (REDRAWN if terminal else EVERY)
        left = self.course.left
        rest = "" if left is None else f"{'at most' if self.course.at_most else 'about'} {words(left)} left"
        lines = [printable(line) for line in self.course.lines]
        if terminal:
            self._draw(lines, rest)
        else:
            typer.echo(f"{': '.join(lines)}; {words(now - self._begun)} so far{', ' * bool(rest)}{rest}", err=True)

    def rest(self) -> None:
        """Take the bar away, for something else is to be written."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _draw(self, lines: list[str], rest: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        if self._bar is None:
            from rich.console import Console

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=None),
                TimeElapsedColumn(),
                TextColumn("{task.fields[rest]}", markup=False),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True, expand=True)
            self._bar.add_task("", total=1.0, rest="", start=True)
            self._bar.start()
        text = "\n".join(line if len(line) <= WIDEST else line[: WIDEST - 3] + "..." for line in lines)
        self._bar.update(self._bar.task_ids[0], completed=self.course.share, description=text, rest=rest)
