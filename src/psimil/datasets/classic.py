"""Classic benchmarks of multiple instance learning: CSV without a header, label, bag id, features."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from psimil.data.columns import BagLabels
from psimil.datasets.content import read_content
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError
from psimil.model.bags import Bags

MAX_BYTES = 1 << 30


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
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "zoo.csv"
    ...     _ = path.write_text("1,7,0.5,2\n0,8,0.1,3\n1,7,0.7,1\n")
    ...     bags, y = read_classic(path)
    >>> bags.ids.tolist(), bags[0].tolist(), y.tolist()
    ([7, 8], [[0.5, 2.0], [0.7, 1.0]], [1, 0])
    """
    path = as_path(path)
    content = read_content(path, MAX_BYTES)
    if not content.strip():
        raise InputError(f"{path.name} is empty: 0 bags. Give at least 1 bag.")
    try:
        table = np.loadtxt(io.StringIO(content.decode("utf-8")), delimiter=",", comments=None, ndmin=2)
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
