"""What a command says: tables and JSON on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

import typer

from psimil.cli.exits import printable
from psimil.cli.groups import asked
from psimil.cli.progress import Display
from psimil.foundations.phases import following

WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
GAP = 2  # letters between two columns of a table


class Shell:
    """The voice of one command.

    Parameters
    ----------
    as_json : stdout carries one JSON object and nothing else.
    quiet : stdout carries no words and there is no progress bar; warnings, errors and JSON that was asked for remain.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.warnings: list[str] = []
        self.display = Display(quiet)

    @classmethod
    @contextmanager
    def of(cls, context: typer.Context) -> Iterator[Shell]:
        """The voice that the root was asked for, listening while the command works."""
        options = asked(context)
        shell = cls(options["as_json"], options["quiet"])
        with shell.listening():
            yield shell

    def say(self, *lines: str) -> None:
        """Plain lines for a human reader, folded between words on a terminal; indented ones are commands and stay."""
        self.display.rest()
        if not (self.as_json or self.quiet):
            width = get_terminal_size().columns if sys.stdout.isatty() else None
            for line in lines:
                indent, text = " " * (len(line) - len(line.lstrip())), printable(line)
                folded = [text] if indent or width is None else wrap(text, width, **WHOLE_WORDS)
                typer.echo(indent + "\n".join(folded))

    def table(self, title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
        """A table for a human reader; the first column is text, the others are numbers.

        One that is wider than the terminal goes on below with its next columns, the first of them beside.
        """
        if self.as_json or self.quiet:
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table

        console = Console(markup=False, emoji=False, highlight=False)
        self.say(title)
        heads, cells = list(columns), [list(map(printable, row)) for row in rows]
        for block in blocks(heads, cells, console.width):
            table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
            for position, width in block.items():
                justify: Any = "right" if position else "left"
                table.add_column(heads[position], justify=justify, overflow="fold", width=width)
            for row in cells:
                table.add_row(*(row[position] for position in block))
            console.print(table)

    def facts(self, title: str, facts: dict[str, Any]) -> None:
        """A table of facts, nested ones with dots between their names; long lists are cut."""
        self.table(title, ("fact", "value"), _flat(facts))

    def result(self, **facts: Any) -> None:
        """The machine's version of the answer, when asked for."""
        if self.as_json:
            typer.echo(json.dumps(finite({**facts, "warnings": self.warnings}), allow_nan=False))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Turn Python warnings into ``warning: ...`` lines on stderr, and phases that are told into signs of life."""
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
            try:
                with following(self.display.hear):
                    yield
            finally:
                self.display.rest()

    @contextmanager
    def progress(
        self, total: float, what: str, done: float = 0.0, *, at_most: bool = False
    ) -> Iterator[Callable[..., None]]:
        """A function to call with a note, and its size if not 1, after every step of ``total``.

        Parameters
        ----------
        done : steps that were done before.
        at_most : there may be fewer steps, so the time left is one too.
        """
        course = self.display.course
        course.count(total, what, done, at_most=at_most)

        def step(note: str, size: float = 1.0) -> None:
            course.step(note, size)
            self.display.show()

        try:
            self.display.show()
            yield step
        finally:
            course.count(0.0, "")
            self.display.rest()


def blocks(heads: list[str], rows: list[list[str]], width: int) -> list[dict[int, int]]:
    """Which columns stand beside each other, and how wide, so that each part of a table fits ``width``.

    The first column is in all parts. It is folded where it leaves too little to the others, as is a column that is too
    wide for a part of its own; heads are folded between words where they would be the widest.

    Examples
    --------
    >>> blocks(["model", "accuracy", "AUC"], [["VGPMIL", "0.9", "0.95"]], 80)
    [{0: 6, 1: 8, 2: 4}]
    >>> blocks(["model", "accuracy", "AUC"], [["VGPMIL", "0.9", "0.95"]], 20)
    [{0: 6, 1: 8}, {0: 6, 2: 4}]
    """
    cells = [[row[position] for row in rows] for position in range(len(heads))]
    whole = [max(map(len, [*column, head])) for column, head in zip(cells, heads, strict=True)]
    if sum(whole) + GAP * (len(whole) - 1) <= width:
        return [dict(enumerate(whole))]
    widest = [max(map(len, [*column, *head.split()])) for column, head in zip(cells, heads, strict=True)]
    first = min(widest[0], max(width // 3, 1))
    parts: list[dict[int, int]] = [{0: first}]
    for position, wanted in enumerate(widest[1:], start=1):
        if len(parts[-1]) > 1 and sum(parts[-1].values()) + GAP * len(parts[-1]) + wanted > width:
            parts.append({0: first})
        parts[-1][position] = min(wanted, max(width - first - GAP, 1))
    for block in parts:
        rest = sum(block.values()) - first + GAP * (len(block) - 1)
        block[0] = min(widest[0], max(width - rest, first))
    return parts


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown.

    Examples
    --------
    >>> markdown(["score", "value"], [["AUC", "0.9"]])
    ['| score | value |', '|---|---|', '| AUC | 0.9 |']
    """
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def _flat(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
            continue
        values = value if isinstance(value, list) else [value]
        form = ".4g" if isinstance(value, list) else ".6g"
        cut = values if len(values) <= 4 else values[:3]
        words = [format(v, form) if isinstance(v, float) else "-" if v is None else str(v) for v in cut]
        more = f", ... ({len(values)} values)" if len(values) > len(cut) else ""
        rows.append((prefix + name, ", ".join(words) + more))
    return rows


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
