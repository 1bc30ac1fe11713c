"""Groups of commands, whose own options may stand anywhere on the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from psimil.cli.exits import UsageProblem, report

STAY = ("--help", "--version")  # mean what they follow
EVERYWHERE = "--json, --quiet and --debug may follow any command; see psimil --help."
SHARED = {  # options of the root that only some commands take
    "cluster": ("fit", "predict", "reproduce"),
    "split": ("fit", "predict", "evaluate", "data import"),
}


class Group(TyperGroup):
    """Commands that share options: ``psimil --json fit`` and ``psimil fit --json`` are the same."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the options of the group from wherever they stand."""
        takes = {
            name: not getattr(param, "is_flag", True)
            for param in self.params
            for name in (*param.opts, *param.secondary_opts)
            if name not in STAY
        }
        return super().parse_args(ctx, own_first(args, takes))


class Root(Group):
    """All commands; whatever one of them raises becomes one line on stderr and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line and leave with its exit code."""
        kwargs["standalone_mode"] = False
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # a name in any encoding can be shown
        try:
            code = super().main(*args, **kwargs)
        except Exception as error:
            code = report(error)
        sys.exit(code if isinstance(code, int) else 0)


def epilog(command: str) -> str:
    """What the help of a command says of the root's options that it takes.

    Examples
    --------
    >>> epilog("evaluate")
    '--json, --quiet and --debug may follow any command, --split this one; see psimil --help.'
    """
    taken = " and ".join(f"--{name}" for name, commands in SHARED.items() if command in commands)
    return EVERYWHERE.replace(";", f", {taken} this one;") if taken else EVERYWHERE


def asked(context: typer.Context) -> dict[str, Any]:
    """The options of the root, for one of the commands; refused where they do not concern it."""
    options, command = context.find_root().params, " ".join(context.command_path.split()[1:])
    for name, commands in SHARED.items():
        if options[name] is not None and command not in commands:
            raise UsageProblem(f"No such option: --{name} (of psimil {command}).")
    return options


def group(name: str | None = None, cls: type[TyperGroup] = Group, **more: Any) -> typer.Typer:
    """An empty group of commands in plain text."""
    plain: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
    return typer.Typer(name=name, cls=cls, **plain, **more)


def own_first(args: Sequence[str], takes: dict[str, bool]) -> list[str]:
    """The arguments with some options first, wherever they stand before ``--``.

    Parameters
    ----------
    takes : by the name of an option, whether a value follows it.

    Examples
    --------
    >>> own_first(["fit", "bags.csv", "--json", "--out", "run"], {"--json": False})
    ['--json', 'fit', 'bags.csv', '--out', 'run']
    >>> own_first(["index", "scans", "--thickness", "3", "--", "--thickness"], {"--thickness": True})
    ['--thickness', '3', 'index', 'scans', '--', '--thickness']
    """
    own: list[str] = []
    others: list[str] = []
    rest = iter(args)
    for arg in rest:
        if arg == "--":
            others += [arg, *rest]
        elif arg.partition("=")[0] not in takes:
            others.append(arg)
        else:
            own.append(arg)
            if takes.get(arg):
                own += [value for value in [next(rest, None)] if value is not None]
    return [*own, *others]
