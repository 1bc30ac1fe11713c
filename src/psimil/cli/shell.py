"""What a command says: tables and JSON on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from psimil.cli.exits import printable


class Shell:
    """The voice of one command.

    Parameters
    ----------
    as_json : stdout carries one JSON object and nothing else.
    quiet : stdout carries nothing and there is no progress bar; warnings and errors remain.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.warnings: list[str] = []

    def say(self, *lines: str) -> None:
        """Plain lines for a human reader."""
        if not (self.as_json or self.quiet):
            for line in lines:
                typer.echo(" " * (len(line) - len(line.lstrip())) + printable(line))

    def table(self, title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        """A table for a human reader; the first column is text, the others are numbers."""
        if self.as_json or self.quiet:
            return
        from rich.console import Console
        from rich.table import Table

        console = Console(markup=False, emoji=False, highlight=False)
        self.say(title)
        table = Table()
        for position, column in enumerate(columns):
            table.add_column(column, justify="right" if position else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(printable, row))
        console.print(table)

    def result(self, **facts: Any) -> None:
        """The machine's version of the answer, when asked for."""
        if self.as_json:
            typer.echo(json.dumps(finite({**facts, "warnings": self.warnings}), allow_nan=False))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn Python warnings into ``warning: ...`` lines on stderr."""
        from sklearn.exceptions import ConvergenceWarning

        from psimil.foundations.errors import DataWarning

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            line = printable(message)
            if line not in self.warnings:
                self.warnings.append(line)
                typer.echo(f"warning: {line}", err=True)

        with warnings.catch_warnings():
            for category in (DataWarning, ConvergenceWarning):
                warnings.simplefilter("always", category)
            warnings.showwarning = show
            yield

    @contextmanager
    def progress(self, total: int, what: str, done: int = 0) -> Iterator[Callable[[str], None]]:
        """A function that moves a bar by one step and shows a note; silent unless stderr is a terminal."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda note: None
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=total, completed=done)
            yield lambda note: bar.update(task, advance=1, description=f"{what}: {note}")


def finite(value: Any) -> Any:
    """The value with nan and infinities as None, which JSON can say.

    Examples
    --------
    >>> finite({"auc": float("nan"), "n": [1, 2.5]})
    {'auc': None, 'n': [1, 2.5]}
    """
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
