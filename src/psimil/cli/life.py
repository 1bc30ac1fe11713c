"""Signs of life on stderr: a bar on a terminal, a line now and then in a file, nothing for the quiet."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import typer

from psimil.cli.course import Course, words
from psimil.cli.exits import printable

if TYPE_CHECKING:
    from psimil.foundations.phases import Plan, Step

FIRST, EVERY = 20.0, 30.0  # seconds before the first line in a file, and between two of them
REDRAWN = 0.05  # seconds between two changes of the bar
WIDEST = 44  # letters that the bar leaves for words at 80 columns


class Life:
    """What a command shows of its course while it works.

    Parameters
    ----------
    quiet : show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self.quiet, self.course = quiet, Course()
        self._begun = time.monotonic()
        self._next = {"line": self._begun + FIRST, "bar": self._begun}
        self._bar: Any = None

    def hear(self, told: Step | Plan) -> None:
        """A phase has moved."""
        self.course.hear(told)
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
