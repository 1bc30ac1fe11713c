"""Synthetic head CT: skull, brain, ventricles, what is bright without being blood, and blood in positive scans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from psimil.ct.phantom.anatomy import GREY, HIGHEST, LOWEST, Anatomy, Grid, blend
from psimil.ct.phantom.lesions import KINDS, Array, Blood, check_kind, draw_blood
from psimil.foundations.errors import InputError

Positions = NDArray[np.float64]  # (S,) middle of the slices in mm

SLICES = (16, 32)
RUN = (2, 10)  # slices of a run with blood at least, and of all of them in a scan at most
MOST_LESIONS, APART = 3, 10  # in a scan, and lesions that are tried to find some with slices between them
SAMPLES = 3  # through the thickness of a slice
VISIBLE_AREA, VISIBLE_CONTRAST = 60.0, 15.0  # mm² and HU over brain: less cannot be seen, and is left out


@dataclass(frozen=True, eq=False)
class Phantom:
    """One synthetic scan of S slices, from the lowest to the highest.

    Parameters
    ----------
    hu : (S, size, size) Hounsfield units in [-1024, 3071].
    truth : (S,) 1 for a slice with blood.
    blood : (S, size, size) where it is.
    positions : (S,) middle of the slices in mm.
    thickness : of a slice in mm; there may be gaps between slices.
    spacing : mm between rows, between columns.
    kinds : of the blood, empty for a negative scan.

    Examples
    --------
    >>> phantom = head(np.random.default_rng(0), positive=False, size=32, n_slices=8)
    >>> phantom.truth.tolist(), phantom.positions.shape
    ([0, 0, 0, 0, 0, 0, 0, 0], (8,))
    """

    hu: NDArray[np.int16]
    truth: NDArray[np.int8]
    blood: NDArray[np.bool_]
    positions: Positions
    thickness: float
    spacing: tuple[float, float]
    kinds: tuple[str, ...]


def head(
    rng: np.random.Generator,
    *,
    positive: bool,
    kind: str | None = None,
    lesions: int = 1,
    size: int = 256,
    n_slices: int | None = None,
) -> Phantom:
    """A synthetic head CT scan.

    Parameters
    ----------
    rng : source of chance; the same state gives the same scan.
    positive : with blood in one or more runs of slices.
    kind : of the blood, one of ``psimil.ct.phantom.lesions.KINDS``; None draws one, and sometimes a second one with it.
    lesions : bleeds in a positive scan at most, up to 3, each in a run of slices; some runs touch.
    size : rows and columns.
    n_slices : S; None takes 16 to 32, by the thickness.

    Returns
    -------
    phantom : Phantom. The truth of a slice is 1 when at least 60 mm² of blood stand out by 15 HU or more over brain;
        fainter traces are not drawn.

    Examples
    --------
    >>> phantom = head(np.random.default_rng(0), positive=True, kind="epidural", size=32)
    >>> phantom.hu.shape == (len(phantom.truth), 32, 32), phantom.kinds, int(phantom.truth.sum())
    (True, ('epidural',), 4)
    """
    if size < 32 or (n_slices is not None and n_slices < 8):
        raise InputError("a head needs size >= 32 and n_slices >= 8.")
    check_lesions(lesions)
    if kind is not None:
        check_kind(kind)
    thickness = float(rng.uniform(2.5, 7.0))
    count = n_slices or int(np.clip(round((HIGHEST - LOWEST) / thickness), *SLICES))
    step = round((HIGHEST - LOWEST) / count, 2)
    thickness = step if step < 1.1 * thickness else round(thickness, 2)
    positions = np.round(LOWEST + step * (np.arange(count) + 0.5), 3)
    anatomy = Anatomy(rng)
    grid = Grid(anatomy, size)
    several = int(rng.integers(1, lesions + 1)) if positive and lesions > 1 else 1
    while True:
        bleeds = _bleeding(rng, anatomy, kind, positions, thickness, several) if positive else ()
        clean, truth, blood = _drawn(anatomy, grid, positions, thickness, bleeds)
        if not positive or _in_runs(truth, RUN[1], several):
            break
    hu = np.clip(np.rint(_scanned(rng, clean, positions)), -1024, 3071).astype(np.int16)
    return Phantom(hu, truth, blood, positions, thickness, (grid.spacing,) * 2, tuple(bleed.kind for bleed in bleeds))


def check_lesions(lesions: int) -> None:
    """Refuse more lesions than a scan has room for.

    Examples
    --------
    >>> check_lesions(4)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: lesions must be a whole number from 1 to 3, got 4.
    """
    if not isinstance(lesions, (int, np.integer)) or not 1 <= lesions <= MOST_LESIONS:
        raise InputError(f"lesions must be a whole number from 1 to {MOST_LESIONS}, got {lesions!r}.")


def _bleeding(
    rng: np.random.Generator, anatomy: Anatomy, kind: str | None, positions: Positions, thickness: float, lesions: int
) -> tuple[Blood, ...]:
    """Lesions, each seen in an unbroken run of slices, tried out on a coarse grid; apart where that is easy."""
    step, coarse = positions[1] - positions[0], Grid(anatomy, 48)
    near = positions[(positions > -25) & (positions < 80)]
    most, least = min(RUN[1], len(positions) // 2) // lesions, 9.0 if lesions == 1 else 1.25 * step
    bleeds, taken, tries = list[Blood](), np.zeros(len(near)), 0
    while True:
        half = float(np.clip(0.5 * step * rng.integers(RUN[0] + 1, max(most, 3) + 1), least, 32.0))
        kinds = [kind or str(rng.choice(KINDS))]
        if kind is None and rng.uniform() < 0.2:
            kinds.append(str(rng.choice([other for other in KINDS if other != kinds[0]])))
        lesion = [draw_blood(rng, name, anatomy.skull, half) for name in kinds]
        seen = _drawn(anatomy, coarse, near, thickness, tuple(lesion))[1]
        tries += 1
        if _in_runs(seen, most, 1) and (tries > APART or not (seen * taken).any()):
            bleeds, taken, lesions = bleeds + lesion, taken + np.convolve(seen, [1, 1, 1], "same"), lesions - 1
            if not lesions:
                return tuple(bleeds)


def _in_runs(truth: NDArray[np.int8], most: int, several: int) -> bool:
    """Whether blood is seen in so many runs of slices at most, none too short, and in so many slices at most."""
    lengths = [len(run) for run in "".join(map(str, truth)).split("0") if run]
    return 1 <= len(lengths) <= several and min(lengths) >= RUN[0] and sum(lengths) <= most


def _drawn(
    anatomy: Anatomy, grid: Grid, positions: Positions, thickness: float, bleeds: tuple[Blood, ...]
) -> tuple[Array, NDArray[np.int8], NDArray[np.bool_]]:
    """(S, size, size) Hounsfield units without noise, means through each slice; where blood is, by slice and pixel."""
    offsets = thickness * ((np.arange(SAMPLES) + 0.5) / SAMPLES - 0.5)
    size, truth = len(grid.weights), np.zeros(len(positions), dtype=np.int8)
    clean = np.full((len(positions), size, size), -1000.0, dtype=np.float32)
    shown = np.zeros(clean.shape, dtype=bool)
    for number, position in enumerate(positions):
        window = grid.window(anatomy.skull, position)
        hu, place = anatomy.paint(grid, position + offsets, window)
        picture = hu.mean(axis=0)
        if bleeds:
            filled = np.zeros_like(picture)
            for blood in bleeds:
                share = blood.share(place)
                blend(hu, blood.value, share)
                filled = np.maximum(filled, share.mean(axis=0))
            bled = hu.mean(axis=0)
            seen = (filled > 0.4) & (bled - GREY > VISIBLE_CONTRAST) & (bled - picture > 0.5 * VISIBLE_CONTRAST)
            if np.count_nonzero(seen) * grid.spacing**2 >= VISIBLE_AREA:
                picture, truth[number], shown[number][window] = bled, 1, seen
        clean[number][window] = picture
    return clean, truth, shown


def _scanned(rng: np.random.Generator, clean: Array, positions: Positions) -> Array:
    """Through the scanner: blur, a wrong zero, noise that is stronger at the base of the skull."""
    from scipy.ndimage import gaussian_filter

    kernel = (0.0, *(float(rng.uniform(0.45, 0.8)),) * 2)
    noise = gaussian_filter(rng.standard_normal(clean.shape, dtype=np.float32), kernel, truncate=3.0)
    level = rng.uniform(4.0, 10.0) / noise.std() * (1 + 0.5 * np.clip(-positions / 40, 0.0, 1.0))
    blurred = gaussian_filter(clean, kernel, truncate=3.0)
    blurred += np.where(blurred > -300, np.float32(rng.uniform(-4.0, 4.0)), np.float32(0.0))
    return np.asarray(blurred + noise * level.astype(np.float32)[:, None, None], dtype=np.float32)
