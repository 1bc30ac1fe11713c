"""Classic benchmarks of multiple instance learning: MUSK, which is embedded, and others as CSV without a header.

MUSK1 and MUSK2 (UCI) are CC BY 4.0; see ``data/README.md`` for the attribution.
"""

import io
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from psimil.data.columns import BagLabels
from psimil.datasets.content import read_content
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags

MAX_BYTES = 1 << 30


def load_musk1() -> tuple[Bags, NDArray[np.int64]]:
    """MUSK1: 92 molecules with 476 conformations described by 166 features.

    Returns
    -------
    bags : Bags of 92 bags, X (476, 166) float64.
    y : (92,) 1 for musk, 0 for non-musk.

    Examples
    --------
    >>> bags, y = load_musk1()
    >>> len(bags), bags.X.shape, int(y.sum())
    (92, (476, 166), 47)
    """
    return _load("musk1")


def load_musk2() -> tuple[Bags, NDArray[np.int64]]:
    """MUSK2: 102 molecules with 6598 conformations described by 166 features.

    Returns
    -------
    bags : Bags of 102 bags, X (6598, 166) float64.
    y : (102,) 1 for musk, 0 for non-musk.

    Examples
    --------
    >>> bags, y = load_musk2()
    >>> len(bags), bags.X.shape, int(y.sum())
    (102, (6598, 166), 39)
    """
    return _load("musk2")


def read_classic(path: str | Path) -> tuple[Bags, NDArray[np.int64]]:
    r"""Bags of a benchmark such as Elephant, Fox, Tiger or Birds.

    Parameters
    ----------
    path : CSV of numbers without a header, plain or gzipped; the columns are bag label (0 or 1, the same on all rows
        of a bag), bag id (a whole number), features.

    Returns
    -------
    bags : B bags in the order of their ids, X (N, D) float64.
    y : (B,) labels.

    Raises
    ------
    MissingFile
        When there is no such file.
    InputError
        When the file or a value in it breaks a rule.

    Examples
    --------
    >>> path = Path("zoo.csv")
    >>> _ = path.write_text("1,7,0.5,2\n0,8,0.1,3\n1,7,0.7,1\n")
    >>> bags, y = read_classic(path)
    >>> bags.ids.tolist(), bags[0].tolist(), y.tolist()
    ([7, 8], [[0.5, 2.0], [0.7, 1.0]], [1, 0])
    """
    path = as_path(path)
    content = read_content(path, MAX_BYTES)
    if not content.strip():
        raise InputError(f"{path.name} is empty: 0 bags. Give at least 1 bag.")
    try:
        table = np.loadtxt(io.StringIO(content.decode("utf-8", "replace")), delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        reason = str(error).split(";")[0].rstrip(".")
        raise InputError(
            f"{path.name} is not a CSV of numbers without a header: {reason}. "
            "The columns are label, bag id, features; read tables with a header with psimil.read_bags."
        ) from error
    if table.shape[1] < 3:
        raise InputError(f"{path.name} has {table.shape[1]} columns, expected label, bag id and at least one feature.")
    ids = table[:, 1]
    broken = np.flatnonzero(~(np.abs(ids) < 2**53) | (np.rint(ids) != ids))
    if len(broken):
        raise InputError(
            f"{path.name}: row {broken[0] + 1} has the bag id {ids[broken[0]]:g}, expected a whole number."
        )
    bags = Bags.from_arrays(table[:, 2:], ids.astype(np.int64))
    labels = BagLabels()
    labels.look(table[:, 0], bags.in_input_order(bags.bag_index), bags.names)
    return bags, np.asarray(labels.coded(len(bags))[1])


def _load(name: str) -> tuple[Bags, NDArray[np.int64]]:
    """The archive ``data/<name>.npz``: X (N, D), offsets (B+1,), y (B,)."""
    with (files("psimil.datasets") / "data" / f"{name}.npz").open("rb") as stream:
        with np.load(stream, allow_pickle=False) as archive:
            X, offsets, y = archive["X"].astype(np.float64), archive["offsets"], archive["y"].astype(np.int64)
    width = len(str(len(y)))
    ids = np.array([f"{name}-{number:0{width}d}" for number in range(1, len(y) + 1)])
    return Bags(X, offsets, ids, feature_names=[f"f{d}" for d in range(1, X.shape[1] + 1)]), y
