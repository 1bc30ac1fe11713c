"""``psimil ct phantom``: synthetic head CT studies as DICOM files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from psimil.cli.ct_options import shared
from psimil.cli.exits import NOTE
from psimil.cli.next_steps import next_step
from psimil.cli.shell import Shell


def phantom(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.", show_default=False)],
    scans: Annotated[int, typer.Option("--scans", min=1, help="Studies to write.")] = 60,
    size: Annotated[int, typer.Option("--size", min=32, max=1024, help="Rows and columns of a slice.")] = 256,
    share: Annotated[float, typer.Option("--share", min=0.0, max=1.0, help="Share of studies with a bleed.")] = 0.5,
    lesions: Annotated[int, typer.Option("--lesions", min=1, max=3, help="Bleeds in a study, at most.")] = 1,
) -> None:
    """Write synthetic head CT studies as DICOM files, with labels of scans and, kept aside, of slices."""
    seed = shared(context)["seed"]
    with Shell.of(context) as shell:
        from psimil.ct.phantom_files import write_phantoms

        with shell.progress(scans, "phantom") as step:
            drawn = partial(write_phantoms, seed=seed, size=size, share=share, lesions=lesions)
            files = drawn(out, scans, progress=step)
        shell.say(
            f"{scans} studies are in {files.studies}, their labels in {files.scans}, slice labels in {files.truth}.",
            "Next:",
            f"  {next_step('ct', 'index', files.studies)}",
            f"  {next_step('ct', 'train', files.studies, '--labels', files.scans, '--out', 'runs/model')}",
            NOTE,
        )
        shell.result(studies=str(files.studies), labels=str(files.scans), truth=str(files.truth), scans=scans)
