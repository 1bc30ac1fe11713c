"""The options that the commands of ``psimil ct`` share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from psimil.ct.scans.cohort import Cohort, ReadingRules
    from psimil.ct.scans.index import Index

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with DICOM files, in sub-folders or not.", show_default=False)
]
ShowIds = Annotated[
    bool, typer.Option("--show-ids", help="Name studies by their UIDs in place of keyed hashes. They identify people.")
]
Thickness = Annotated[
    float, typer.Option("--thickness", min=0.1, help="Wanted slice thickness in mm, where a study has several series.")
]
SeriesIds = Annotated[
    list[str] | None,
    typer.Option("--series", metavar="ID", help="Read this series of its study; may be given more than once."),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out slices that cannot be read; by default their scan fails.")
]
Modalities = Annotated[
    list[str] | None, typer.Option("--allow-modality", metavar="CODE", help="Read this modality, too; CT always is.")
]
MaxPixels = Annotated[
    int, typer.Option("--max-pixels", min=1, max=65535, help="Rows and columns above which a slice is refused.")
]


def rules(
    thickness: float, series: list[str] | None, skip_bad: bool, modalities: list[str] | None, max_pixels: int
) -> ReadingRules:
    """How the scans of a folder are read."""
    from dataclasses import replace

    from psimil.ct.dicom.folder import LIMITS
    from psimil.ct.scans.cohort import ReadingRules

    limits = replace(LIMITS, side=max_pixels)
    return ReadingRules(thickness, tuple(series or ()), skip_bad, ("CT", *(modalities or ())), limits)


def hasher(show_ids: bool) -> Callable[[str], str]:
    """What turns UIDs to the ids that are shown."""
    from psimil.ct.scans.identity import Hasher

    return str if show_ids else Hasher.of_user()


def chosen(directory: Path, show_ids: bool, how: ReadingRules) -> tuple[Index, Cohort]:
    """The index of a folder, and the series that are read of it."""
    from psimil.ct.scans.cohort import Cohort
    from psimil.ct.scans.index import index_folder

    index = index_folder(directory, hasher=hasher(show_ids), modalities=how.modalities, limits=how.limits)
    return index, Cohort.of(index, how)
