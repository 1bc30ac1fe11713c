"""Small grey pictures of slices for pages and reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.slices import Slices, slice_images
from psimil.ct.windows import BLOOD, Window

SIDE = 96
BUDGET = 2**29  # bytes of all thumbnails; large cohorts get smaller ones
GREY = Window("grey", 127.5, 255)  # shades 0 to 255 as they are


def thumbnails(slices: Sequence[Slices], side: int = SIDE) -> NDArray[np.uint8]:
    """(N, h, h) thumbnails of all slices in the blood window, or in the first one where there is no such window.

    Parameters
    ----------
    slices : scans of one size, N slices in all.
    side : pixels along a side at most; slices that are smaller stay as they are.

    Examples
    --------
    >>> from psimil.ct.scan import Scan
    >>> from psimil.ct.windows import WINDOWS
    >>> scan = Scan("a1", np.full((2, 4, 4), 80, np.int16), np.array([0.0, 5.0]), (0.5, 0.5))
    >>> thumbnails([Slices.of(scan, WINDOWS, 4)], side=2)[0].tolist()
    [[128, 128], [128, 128]]
    """
    N = sum(map(len, slices))
    side = min(side, max(1, math.isqrt(BUDGET // N)))
    return np.concatenate([_small(_channel(part), min(side, part.size)) for part in slices])


def _channel(part: Slices) -> NDArray[np.uint8]:
    names = [window.name for window in part.windows]
    return part.images[:, names.index(BLOOD.name) if BLOOD.name in names else 0]


def _small(images: NDArray[Any], side: int) -> NDArray[np.uint8]:
    if images.shape[-1] == side:
        return images
    return slice_images(images.astype(np.int16), [GREY], side)[:, 0]
