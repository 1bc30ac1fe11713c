"""Thumbnails as one PNG picture."""

from __future__ import annotations

import io
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
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, format="png", compress_level=3)
    return stream.getvalue()
