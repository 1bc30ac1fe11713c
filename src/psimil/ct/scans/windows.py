"""Windows of Hounsfield units as radiologists use them, stacked as channels of small images."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psimil.ct.dicom.pixels import LOWEST_HU
from psimil.foundations.errors import InputError

INT16_MAX = 32767


@dataclass(frozen=True)
class Window:
    """Hounsfield units from ``level - width / 2`` (black, 0) to ``level + width / 2`` (white, 1).

    Examples
    --------
    >>> BRAIN.low, BRAIN.high
    (0.0, 80.0)
    """

    name: str
    level: float
    width: float

    def __post_init__(self) -> None:
        numbers = all(isinstance(v, Real) and not isinstance(v, bool) for v in (self.level, self.width))
        if not numbers or not np.isfinite(self.level) or not 0 < self.width < np.inf:
            raise InputError(
                f"window {self.name!r} has level {self.level} and width {self.width}; both must be numbers "
                "and the width must be > 0."
            )

    @property
    def low(self) -> float:
        """Hounsfield units shown black."""
        return self.level - self.width / 2

    @property
    def high(self) -> float:
        """Hounsfield units shown white."""
        return self.level + self.width / 2


BRAIN = Window("brain", 40, 80)
BLOOD = Window("blood", 80, 200)
SOFT = Window("soft tissue", 40, 380)
BONE = Window("bone", 600, 2800)
WINDOWS = (BRAIN, BLOOD, SOFT)
WRITTEN = re.compile(r"([^:,]+):(-?\d+\.?\d*)/(\d+\.?\d*)")


def read_windows(text: str) -> tuple[Window, ...]:
    """Windows written as ``name:level/width``, with commas between them.

    Raises
    ------
    InputError
        When the text is not of that form.

    Examples
    --------
    >>> read_windows("brain:40/80, bone:600/2800")
    (Window(name='brain', level=40.0, width=80.0), Window(name='bone', level=600.0, width=2800.0))
    """
    matches = [WRITTEN.fullmatch(words.strip()) for words in text.split(",")]
    if not all(matches):
        raise InputError(f"windows are written as name:level/width with commas between them, got {text!r}.")
    return tuple(Window(match[1], float(match[2]), float(match[3])) for match in matches if match)


def apply_windows(hu: ArrayLike, windows: Sequence[Window] = WINDOWS, *, size: int | None = 128) -> NDArray[np.float32]:
    """Slices as images with one channel per window, averaged over areas to a smaller size.

    Each window is applied first and the averages are taken after, so a small bright spot stays a spot.

    Parameters
    ----------
    hu : (S, rows, columns) Hounsfield units.
    windows : W of them, the channels in their order.
    size : side of the images; slices that are not square are padded with air first. None keeps rows and columns.

    Returns
    -------
    images : (S, W, size, size) float32 in [0, 1].

    Raises
    ------
    InputError
        When ``hu`` is not an array of slices of finite numbers, or ``windows`` holds no window or something else.

    Examples
    --------
    >>> apply_windows(np.full((1, 2, 2), 60), size=1).round(2).ravel().tolist()
    [0.75, 0.4000000059604645, 0.550000011920929]
    """
    slices = np.asarray(hu)
    if slices.ndim != 3 or 0 in slices.shape or slices.dtype.kind not in "iuf":
        raise InputError(f"hu has shape {slices.shape}, expected numbers of shape (slices, rows, columns).")
    if slices.dtype.kind == "f" and not np.isfinite(slices).all():
        raise InputError("hu has values that are not finite; replace them by -1024 (air).")
    chosen = check_windows(windows)
    if size is not None and (isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1):
        raise InputError(f"size is {size!r}; it must be a whole number >= 1, or None to keep rows and columns.")
    if size is not None:
        slices = _square(slices)
    rows, columns = (size, size) if size is not None else slices.shape[1:]
    images = np.empty((len(slices), len(chosen), rows, columns), np.float32)
    for channels, image in zip(images, slices, strict=True):
        for channel, window in zip(channels, chosen, strict=True):
            _fill(channel, image, window)
    return images


def check_windows(windows: Any) -> tuple[Window, ...]:
    """The windows as a tuple, refused when they are not windows or none.

    Examples
    --------
    >>> check_windows(["brain"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: windows must be a sequence of Window, got ['brain']. Write ...
    """
    if not isinstance(windows, Sequence) or not all(isinstance(window, Window) for window in windows):
        raise InputError(f"windows must be a sequence of Window, got {windows!r}. Write e.g. [psimil.ct.BRAIN].")
    if not windows:
        raise InputError("no window was chosen; name at least one, e.g. psimil.ct.BRAIN.")
    return tuple(windows)


def _square(slices: NDArray[Any]) -> NDArray[Any]:
    """Slices padded with air to the longer of their sides, the image in the middle."""
    _, rows, columns = slices.shape
    side = max(rows, columns)
    if rows == columns:
        return slices
    top, left = (side - rows) // 2, (side - columns) // 2
    padding = ((0, 0), (top, side - rows - top), (left, side - columns - left))
    return np.pad(slices.astype(np.promote_types(slices.dtype, np.int16)), padding, constant_values=LOWEST_HU)


def _fill(channel: NDArray[np.float32], image: NDArray[Any], window: Window) -> None:
    """Write the window of one slice to a channel of the wanted size."""
    factor, rest = divmod(image.shape[0], channel.shape[0])
    whole = window.low == round(window.low) and window.high == round(window.high)
    fits = image.dtype == np.int16 and -INT16_MAX <= window.low and window.high <= INT16_MAX
    if rest == 0 and whole and fits and factor > 0 and window.width * factor**2 <= INT16_MAX:
        _add_squares(channel, image, round(window.low), round(window.high), factor)
        channel *= np.float32(1.0 / (window.width * factor**2))
    else:
        scaled = (np.clip(image, window.low, window.high) - window.low).astype(np.float32) / np.float32(window.width)
        rows, columns = (_area_weights(image.shape[a], channel.shape[a]) for a in (0, 1))
        np.matmul(rows @ scaled, columns.T, out=channel)
    np.clip(channel, 0.0, 1.0, out=channel)


def _add_squares(channel: NDArray[np.float32], image: NDArray[Any], low: int, high: int, factor: int) -> None:
    """Sums over squares of factor x factor pixels above the black level; they fit in 16 bits."""
    clipped = np.clip(image, np.int16(low), np.int16(high))
    clipped -= np.int16(low)
    rows = clipped.reshape(-1, factor, image.shape[1]).sum(axis=1, dtype=np.int16) if factor > 1 else clipped
    total = rows[:, ::factor].copy()
    for place in range(1, factor):
        total += rows[:, place::factor]
    channel[...] = total


@lru_cache(maxsize=16)
def _area_weights(n: int, size: int) -> NDArray[np.float32]:
    """(size, n) share of each of n pixels in each of ``size`` cells of equal length; rows sum to 1."""
    edges = np.linspace(0.0, n, size + 1)
    pixels = np.arange(n)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights: NDArray[np.float32] = (np.maximum(overlap, 0.0) * (size / n)).astype(np.float32)
    return weights
