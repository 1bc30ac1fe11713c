"""Folders with one file per bag: read into memory, or written to a store bag by bag."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from psimil.data.bagtable import BagTable
from psimil.data.feature_choice import Names
from psimil.datasets.labelled import together
from psimil.datasets.slides import SlideFolder
from psimil.datasets.torchmil_folder import TorchmilFolder
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.labels import UNKNOWN
from psimil.store.manifest import Manifest
from psimil.store.writer import StoreWriter

Progress = Callable[[int], AbstractContextManager[Callable[[str], None]]]


def one_set(features: Names) -> str | None:
    """The name of a set of features in a torchmil folder."""
    given = [features] if isinstance(features, str) else list(features or ())
    if len(given) > 1:
        raise InputError(f"a folder is read with one set of features, got {', '.join(map(str, given))}.")
    return str(given[0]) if given else None


def folder_table(folder: TorchmilFolder, name: str, *, optional: bool) -> BagTable:
    """The bags of a torchmil folder in memory; without labels that cannot be used, if these are optional."""
    each = list(folder)
    usable = all(one.label in (0, 1) for one in each)
    if optional and not usable:
        if any(one.label != UNKNOWN for one in each):
            warnings.warn(f"labels are not used: those of {name} are not all 0 or 1.", DataWarning, stacklevel=3)
        each = [one._replace(label=0) for one in each]
    bags, y, known = together(each)
    positions = [one.positions for one in each if one.positions is not None]
    return BagTable(
        bags,
        y if usable or not optional else None,
        known if any(one.known is not None for one in each) else None,
        positions=None if bags.links is None else np.concatenate(positions).astype(np.float64)[bags.rows],
    )


def import_folder(
    bags: TorchmilFolder | SlideFolder, store: str | Path, options: dict[str, Any], steps: Progress
) -> Manifest:
    """Write a store from bags that are read one by one, each in the order of its positions."""
    found = iter(bags)
    first = next(found)
    if first.X.ndim != 2:
        raise InputError(f"bag {first.name} has shape {first.X.shape}, expected (instances, features).")
    options |= {"feature_names": first.feature_names}
    if isinstance(bags, SlideFolder) and bags.known:
        options |= {"classes": bags.classes}
    with StoreWriter(store, first.X.shape[1], **options) as writer, steps(len(bags)) as step:
        for one in chain([first], found):
            order = slice(None) if one.positions is None else np.argsort(one.positions, kind="stable")
            writer.add(one.X[order], one.label, one.name, None if one.known is None else one.known[order])
            step(one.name)
        return writer.finish()
