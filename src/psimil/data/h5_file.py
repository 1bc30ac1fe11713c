"""Arrays in HDF5 files: those that the file itself holds are read, none that it points to elsewhere."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from psimil.data.chunks import explained
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.extras import needed

MAX_BYTES = 16 << 30
LONGEST = 4  # numbers of an attribute that is kept


def read_h5_arrays(path: Path, needed: str, others: Collection[str] = ()) -> tuple[dict[str, Array], dict[str, Array]]:
    """Datasets of a file by name, and the numbers among their attributes; text, which may say where or whose, is left.

    Parameters
    ----------
    needed : name of a dataset that must be there.
    others : names of those to read if they are there.

    Raises
    ------
    InputError
        When h5py is not installed, or the file is damaged, lies about its size, or points to other files.
    """
    h5py = _h5py()
    with explained(path, "HDF5"), h5py.File(path, "r") as file:
        if not _links(file, needed):
            raise InputError(f'{path.name} has no dataset "{needed}". It has {", ".join(file) or "nothing"}.')
        datasets = {key: _own_dataset(h5py, file, key, path.name) for key in (needed, *others) if _links(file, key)}
        arrays = {key: np.asarray(dataset[()]) for key, dataset in datasets.items()}
        attributes = {
            name: np.asarray(value) for one in (file, *datasets.values()) for name, value in one.attrs.items()
        }
    return arrays, {
        name: value for name, value in attributes.items() if value.dtype.kind in "iuf" and value.size <= LONGEST
    }


def h5_bytes(arrays: Mapping[str, Array], attributes: Mapping[str, Mapping[str, Any]] | None = None) -> bytes:
    """The content of an HDF5 file with these datasets, and with attributes by dataset, "/" for those of the file."""
    h5py, buffer = _h5py(), io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
        for key, values in (attributes or {}).items():
            file[key].attrs.update(values)
    return buffer.getvalue()


def _h5py() -> ModuleType:
    with needed("HDF5 files need h5py", "h5"):
        import h5py
    module: ModuleType = h5py
    return module


def _links(file: Any, key: str) -> Any:
    """How the file names a dataset, which is not opened; None where it does not."""
    return file.get(key, getlink=True)


def _own_dataset(h5py: ModuleType, file: Any, key: str, name: str) -> Any:
    """A dataset that is stored in this very file: links to other files are not followed."""
    dataset = file[key] if isinstance(_links(file, key), h5py.HardLink) else None
    if not isinstance(dataset, h5py.Dataset) or dataset.external or dataset.is_virtual:
        raise InputError(f"{name}: {key} must be a dataset stored in the file itself.")
    if dataset.nbytes > MAX_BYTES:
        raise InputError(f"{name}: {key} are above the limit of {MAX_BYTES >> 30} GB.")
    return dataset
