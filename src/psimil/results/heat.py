"""A heat map as it is shown over a slice, and the words that go with it."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter, zoom

from psimil.foundations.arrays import Array

SMOOTH = 1 / 32  # standard deviation, by side of the slice
HEAT_WORDS = (
    "Heat: where in the slice its own evidence lies, by the gradients of the network from a blurred copy of it; the "
    "brighter, the more it adds to the log-odds, beside the strongest place of this scan. Only slices called positive "
    "have one. It outlines no lesion, and shows nothing of what the model missed."
)


def shown_heat(maps: Array, side: int) -> Array:
    """Maps of one scan as pictures: what raises the log-odds, smoothed, 255 for the most in the scan.

    Parameters
    ----------
    maps : (S, size, size) log-odds per pixel; what lowers them is not shown.
    side : pixels along a side of a picture, at most those of the maps.

    Returns
    -------
    pictures : (S, side, side) uint8; all 0 where nothing raises the log-odds.

    Examples
    --------
    >>> maps = np.zeros((2, 32, 32))
    >>> maps[1, 16, 8] = 1.0
    >>> shown_heat(maps, 16).max(axis=(1, 2)).tolist()
    [0, 255]
    """
    size = maps.shape[-1]
    smooth = gaussian_filter(np.asarray(maps), (0, size * SMOOTH, size * SMOOTH))
    small = zoom(smooth, (1, side / size, side / size), order=1, mode="nearest", grid_mode=True)
    rising = np.clip(small, 0.0, None)
    return np.asarray(np.rint(255.0 * rising / max(float(rising.max()), 1e-300)), dtype=np.uint8)
