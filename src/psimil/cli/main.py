"""The command ``psimil``: its subcommands, and how errors become exit codes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from psimil.cli.ct import ct
from psimil.cli.data import data
from psimil.cli.demo import demo
from psimil.cli.evaluate import evaluate
from psimil.cli.exits import TERMINATED
from psimil.cli.exits import report as exit_code
from psimil.cli.fit import fit
from psimil.cli.info import info
from psimil.cli.predict import predict
from psimil.cli.report import report
from psimil.cli.reproduce import reproduce
from psimil.cli.view import view
from psimil.version import VERSION


class Commands(TyperGroup):
    """The subcommands; whatever one of them raises becomes one line on stderr and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line and leave with its exit code."""
        kwargs["standalone_mode"] = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # a name in any encoding can be shown
        try:
            code = super().main(*args, **kwargs)
        except Exception as error:
            code = exit_code(error)
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(cls=Commands, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"psimil {VERSION}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Learn from bags: probabilities with uncertainty for every bag and every instance.

    Research use only, not a medical device.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (demo, fit, predict, evaluate, view, report, info, reproduce):
    app.command()(command)
app.add_typer(ct)
app.add_typer(data)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``psimil`` with the given arguments, or with those of the process; always ends in SystemExit.

    Examples
    --------
    >>> try:
    ...     main(["--version"])
    ... except SystemExit as stop:
    ...     print(stop.code)
    psimil ...
    0
    """
    with suppress(ValueError):  # only the main thread can be told what to do when the process is to end
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    app(None if arguments is None else list(arguments), prog_name="psimil")
