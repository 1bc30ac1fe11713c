"""The IDX file format of MNIST: a magic number, big-endian sizes, then raw bytes."""

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from psimil.datasets.content import read_content
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError

UNSIGNED_BYTE = 0x08
MAX_BYTES = 1 << 30


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Array stored in an IDX file of unsigned bytes, plain or gzipped.

    Parameters
    ----------
    path : file to read; gzip is recognised by its content, not by its name.

    Returns
    -------
    array : uint8, of the shape given in the header: (n,) for labels, (n, 28, 28) for MNIST images.

    Raises
    ------
    MissingFile
        When there is no such file.
    InputError
        When the file is not IDX, is cut short or has bytes left over.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "labels"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 9]))
    ...     read_idx(path)
    array([7, 2, 9], dtype=uint8)
    """
    path = as_path(path)
    content = read_content(path, MAX_BYTES)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTE or content[3] == 0:
        raise InputError(f"{path.name}: not an IDX file of unsigned bytes (magic {content[:4].hex() or 'missing'}).")
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise InputError(f"{path.name}: header has {len(content)} of {header} bytes; the file is cut short.")
    shape = struct.unpack(f">{content[3]}I", content[4:header])
    expected = math.prod(shape)
    if len(content) - header != expected:
        raise InputError(f"{path.name}: {len(content) - header} of {expected} data bytes; the file is damaged.")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)
