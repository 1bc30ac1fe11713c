"""Folders with one file per bag: opened by their layout, and written to a store bag by bag."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from psimil.data.bagtable import TableOptions
from psimil.datasets.slides import SLIDE, SlideFolder, is_slides
from psimil.datasets.torchmil_folder import TorchmilFolder, is_torchmil
from psimil.foundations.errors import DataWarning, InputError
from psimil.store.manifest import Manifest
from psimil.store.writer import StoreWriter

Progress = Callable[[int], AbstractContextManager[Callable[[str], None]]]
BagFolder = TorchmilFolder | SlideFolder


def open_folder(path: Path, options: TableOptions, split: str | None, labels: Any = None) -> BagFolder | None:
    """The bags of a folder of torchmil or of slides, to be read one by one; None of any other folder.

    Parameters
    ----------
    split, labels : as of :func:`psimil.store.tables.import_bags`.
    """
    if is_torchmil(path):
        given = {"bag": options.named_bag, "drop": options.drop, "positive": options.positive, "labels": labels}
        refuse_options(given, f"{path.name} is a folder")
        return TorchmilFolder(path, options, split)
    if not is_slides(path):
        return None
    refuse_options({"split": split}, f"{path.name} is no folder of bags with splits")
    refuse_position(path, options)
    given = {"instance_label": options.instance_label, "features": options.features, "drop": options.drop}
    refuse_options(given, f"{path.name} is a folder of slides, not a table")
    return SlideFolder(
        path,
        labels,
        bag=options.named_bag or SLIDE,
        label=options.label,
        positive=options.positive,
        classes=options.classes,
        optional=options.labels_optional,
    )


def refuse_options(given: Mapping[str, Any], why: str) -> None:
    """Refuse options that would have no effect."""
    for option, value in given.items():
        if value is not None:
            raise InputError(f"{why}: {option}={value!r} would have no effect. Leave it out.")


def refuse_position(path: Path, options: TableOptions) -> None:
    """Refuse a column of positions where there can be none."""
    if options.position is not None:
        raise InputError(
            f'{path.name} has no column "{options.position}". Give positions in a .csv, .tsv, .txt or .parquet file.'
        )


def import_folder(folder: BagFolder, store: str | Path, options: dict[str, Any], steps: Progress) -> Manifest:
    """Write a store from bags that are read one by one, each in the order of its positions."""
    bags = iter(folder)
    first = next(bags)
    if first.X.ndim != 2:
        raise InputError(f"bag {first.name} has shape {first.X.shape}, expected (instances, features).")
    placed = 0
    options |= {"feature_names": first.feature_names, "classes": folder.classes}
    with StoreWriter(store, first.X.shape[1], **options) as writer, steps(len(folder)) as step:
        for one in chain([first], bags):
            order = slice(None) if one.positions is None else np.argsort(one.positions, kind="stable")
            writer.add(one.X[order], one.label, one.name, None if one.known is None else one.known[order])
            step(one.name)
            placed += len(one.slides)
        manifest = writer.finish()
    if placed:
        kept = f"a store has no coords, those of {placed} slides are not kept: predictions of it have no heat maps"
        warnings.warn(f"{kept}. psimil predict RUN SLIDES, with the folder, writes them.", DataWarning, stacklevel=3)
    return manifest
