"""The command ``psimil``: its subcommands."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated

import typer

from psimil.cli.ct_index import index
from psimil.cli.ct_options import also, ct
from psimil.cli.ct_predict import predict as ct_predict
from psimil.cli.ct_synthetic import demo as ct_demo
from psimil.cli.ct_synthetic import phantom
from psimil.cli.ct_train import train
from psimil.cli.ct_watch import watch
from psimil.cli.data import data
from psimil.cli.demo import demo
from psimil.cli.exits import TERMINATED, set_debug
from psimil.cli.export import export
from psimil.cli.fit import fit
from psimil.cli.groups import EVERYWHERE, Root, epilog, group
from psimil.cli.info import info
from psimil.cli.options import ClusterAddress, Split
from psimil.cli.predict import evaluate, predict
from psimil.cli.reproduce import reproduce
from psimil.cli.settings import CommandWithSettings
from psimil.cli.view import report, view
from psimil.version import VERSION

app = group(cls=Root)


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
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, nothing else, also with --quiet.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No words on stdout, no progress bar.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.", callback=set_debug, is_eager=True)] = False,
    cluster: ClusterAddress = None,
    split: Split = None,
) -> None:
    """Learn from bags: probabilities with uncertainty for every bag and every instance.

    Research use only, not a medical device. Options may stand before or after the command.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


COMMANDS: tuple[Callable[..., None], ...] = (demo, fit, predict, evaluate, view, report, info, export, reproduce)
ON_SCANS: tuple[Callable[..., None], ...] = (index, train, ct_predict, watch, phantom, ct_demo)
for command in COMMANDS:
    app.command(cls=CommandWithSettings if command is fit else None, epilog=epilog(command.__name__))(command)
for command in ON_SCANS:
    ct.command(epilog=f"{also(command.__name__)} {EVERYWHERE}")(command)
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
