"""Thumbnails as one PNG picture."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS = 16


def grid(images: NDArray[Any], columns: int = COLUMNS) -> NDArray[np.uint8]:
    """Pictures side by side in rows; what is left of the last row is black.

    Parameters
    ----------
    images : (n, h, w) in 0..255.

    Returns
    -------
    picture : (ceil(n / columns) h, columns w).

    Examples
    --------
    >>> grid(np.array([[[1]], [[2]], [[3]]], np.uint8), columns=2).tolist()
    [[1, 2], [3, 0]]
    """
    n, height, width = images.shape
    rows = -(-n // columns)
    cells = np.zeros((rows * columns, height, width), np.uint8)
    cells[:n] = images
    return cells.reshape(rows, columns, height, width).swapaxes(1, 2).reshape(rows * height, columns * width)


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    r"""A grey picture (rows, columns) in the PNG format.

    Examples
    --------
    >>> encode_png(np.zeros((2, 3), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    rows, columns = picture.shape
    lines = np.zeros((rows, columns + 1), np.uint8)  # each line begins with its filter: none
    lines[:, 1:] = picture
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 3)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
