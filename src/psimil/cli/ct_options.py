"""The options that the commands of ``psimil ct`` share: those of the group, each declared once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.exits import UsageProblem
from psimil.cli.groups import group
from psimil.cli.options import Overwrite

if TYPE_CHECKING:
    from psimil.ct.scans.cohort import Cohort, ReadingRules
    from psimil.ct.scans.index import Index

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with DICOM files, in sub-folders or not.", show_default=False)
]
ModelFolder = Annotated[Path, typer.Option("--model", metavar="MODEL", help="Folder of ct train.", show_default=False)]
READING = {"thickness", "series", "modalities", "max_pixels", "show_ids", "overwrite"}
USED = {  # options of the group, by command
    "index": READING | {"out"},
    "train": READING | {"out", "skip_bad", "device", "seed"},
    "predict": READING | {"out", "skip_bad", "device"},
    "watch": READING - {"series", "show_ids", "overwrite"} | {"out", "skip_bad", "device"},
    "phantom": {"seed"},
    "demo": {"out", "seed"},
}

ct = group(
    "ct",
    help="Head CT: index a folder, train from scan labels, predict scans and slices. Research use only.",
    no_args_is_help=True,
)


@ct.callback()
def _ct(
    context: typer.Context,
    thickness: Annotated[
        float,
        typer.Option("--thickness", min=0.1, help="Wanted slice thickness in mm, where a study has several series."),
    ] = 5.0,
    series: Annotated[
        list[str] | None,
        typer.Option("--series", metavar="ID", help="Read this series of its study; may be given more than once."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out slices that cannot be read; by default their scan fails.")
    ] = False,
    modalities: Annotated[
        list[str] | None,
        typer.Option("--allow-modality", metavar="CODE", help="Read this modality, too; CT always is."),
    ] = None,
    max_pixels: Annotated[
        int, typer.Option("--max-pixels", min=1, max=65535, help="Rows and columns above which a slice is refused.")
    ] = 4096,
    show_ids: Annotated[
        bool,
        typer.Option("--show-ids", help="Name studies by their UIDs in place of keyed hashes. They identify people."),
    ] = False,
    device: Annotated[str, typer.Option("--device", help="Torch device; tested on cpu alone.")] = "cpu",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of training and synthetic scans.")] = 0,
    overwrite: Overwrite = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder to write.")] = None,
) -> None:
    command = str(context.invoked_subcommand)
    for param in context.command.params:
        given = context.params.get(str(param.name)) or None  # an empty list is none
        if given != (param.get_default(context) or None) and param.name not in USED.get(command, READING):
            raise UsageProblem(f"No such option: {param.opts[0]} (of psimil ct {command}).")


def also(command: str) -> str:
    """What the help of a command says of the group's options that it takes.

    Examples
    --------
    >>> also("demo")
    'Also takes --out, --seed; see psimil ct --help.'
    """
    named = {"modalities": "allow-modality"}
    spelt = sorted(f"--{named.get(name, name.replace('_', '-'))}" for name in USED[command])
    return f"Also takes {', '.join(spelt)}; see psimil ct --help."


def shared(context: typer.Context) -> dict[str, Any]:
    """The options of the group, for one of its commands."""
    assert context.parent is not None  # commands of the group have it above them
    return context.parent.params


def out_of(context: typer.Context) -> Path:
    """The folder to write, for a command that cannot do without."""
    out: Path | None = shared(context)["out"]
    if out is None:
        raise UsageProblem("Missing option '--out'. Folder to write.")
    return out


def rules(
    thickness: float = 5.0,
    series: list[str] | None = None,
    skip_bad: bool = False,
    modalities: list[str] | None = None,
    max_pixels: int = 4096,
    **_: Any,
) -> ReadingRules:
    """How the scans of a folder are read, by the options of the group."""
    from dataclasses import replace

    from psimil.ct.dicom.folder import LIMITS
    from psimil.ct.scans.cohort import ReadingRules

    limits = replace(LIMITS, side=max_pixels)
    return ReadingRules(thickness, tuple(series or ()), skip_bad, ("CT", *(modalities or ())), limits)


def hasher(show_ids: bool) -> Callable[[str], str]:
    """What turns UIDs to the ids that are shown."""
    from psimil.ct.scans.identity import Hasher

    return str if show_ids else Hasher.of_user()


def chosen(directory: Path, options: dict[str, Any]) -> tuple[Index, Cohort]:
    """The index of a folder, and the series that are read of it, by the options of the group."""
    from psimil.ct.scans.cohort import Cohort
    from psimil.ct.scans.index import index_folder

    how = rules(**options)
    ids = hasher(options["show_ids"])
    index = index_folder(directory, hasher=ids, modalities=how.modalities, limits=how.limits)
    return index, Cohort.of(index, how)


def cohort_of(directory: Path, options: dict[str, Any]) -> Cohort:
    """The series that are read of a folder; a warning tells of files that are no image and part of no scan."""
    from psimil.foundations.errors import DataWarning

    index, cohort = chosen(directory, options)
    if index.strays:
        words = (
            f"{len(index.strays)} files cannot be read and belong to no scan; psimil ct index lists them. The first:"
        )
        warnings.warn(f"{words} {index.strays[0]}", DataWarning, stacklevel=2)
    return cohort
