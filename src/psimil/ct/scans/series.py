"""Reading a series: from DICOM files, or from a NIfTI file, to Hounsfield units in order."""

from __future__ import annotations

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.dicom.folder import LIMITS, NIFTI_ENDINGS, Limits, Listing, SliceFile
from psimil.ct.dicom.headers import Header
from psimil.ct.dicom.pixels import HIGHEST_HU, LOWEST_HU, read_stored, readable, to_hu
from psimil.ct.dicom.sandbox import Sandbox
from psimil.ct.scans.geometry import arrange
from psimil.ct.scans.identity import Hasher
from psimil.ct.scans.index import index_files, index_folder
from psimil.ct.scans.purpose import region_of
from psimil.ct.scans.scan import Scan, Source
from psimil.ct.scans.study import Series
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile
from psimil.foundations.extras import needed

BURNED_IN = "pixels may show text about the patient (BurnedInAnnotation)"
COUNTED = "Files are counted by name in their folder, from 1."
SHOWN = 10  # reasons that a message lists, and files of each


def read_series(
    source: Series | str | Path,
    *,
    series: str | None = None,
    skip_bad: bool = False,
    hasher: Callable[[str], str] | None = None,
    modalities: Collection[str] = ("CT",),
    limits: Limits = LIMITS,
    sandbox: Sandbox | None = None,
) -> Scan:
    """Hounsfield units of one series.

    Parameters
    ----------
    source : a series of an index, a folder with one series, a DICOM file, or a NIfTI file.
    series : id of the wanted series when a folder has several.
    skip_bad : leave out slices that cannot be read, and note how many; by default they are an error.
    hasher : turns UIDs to ids; None takes the keyed hash of this user.
    modalities : that are accepted.
    limits : sizes above which a file is refused.
    sandbox : decodes compressed slices; None starts one for this scan. Share one among many scans.

    Returns
    -------
    scan : slices ascending along their normal.

    Raises
    ------
    InputError
        When there is no series or more than one, or slices cannot be read; these are named by the place of their file
        in its folder.

    Examples
    --------
    >>> read_series("scans/0042")  # doctest: +SKIP
    Scan('3f9c2f6f6e0c1d55', 34 slices of 512 x 512)
    >>> read_series("no-such-folder")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: the scan was not found. Check its name.
    """
    if isinstance(source, Series):
        return _read(source, skip_bad, modalities, limits, sandbox)
    path = Path(os.path.realpath(as_path(source, "source")))
    if not path.exists():
        raise MissingFile("the scan was not found. Check its name.")
    if path.name.lower().endswith(NIFTI_ENDINGS):
        return _read_nifti(path, hasher, limits)
    return _read(_only_series(path, series, hasher, modalities, limits), skip_bad, modalities, limits, sandbox)


def _only_series(
    path: Path,
    wanted: str | None,
    hasher: Callable[[str], str] | None,
    modalities: Collection[str],
    limits: Limits,
) -> Series:
    """The one series of a folder or a file, or the one that was named."""
    if path.is_dir():
        index = index_folder(path, hasher=hasher, modalities=modalities, limits=limits)
    else:
        listing = Listing((SliceFile(path, 1, path.stat().st_size),), {})
        index = index_files(listing, hasher, modalities, limits)
    everything = [series for study in index.studies for series in study.series]
    usable = [series for series in everything if series.usable]
    chosen = [series for series in usable if wanted in (None, series.id)]
    if len(chosen) == 1:
        return chosen[0]
    if usable:
        sizes = " and ".join(str(series.n_slices) for series in usable)
        ids = ", ".join(series.id for series in usable)
        count = f"{len(usable)} series" if len(usable) > 1 else "another series"
        raise InputError(f"folder has {count} ({sizes} slices). Choose one with --series (series= in Python): {ids}.")
    for series in everything:
        first = series.slices[0]
        _, refused = readable([first], modalities)
        raise InputError(refused[0] if refused else f"no CT series: {first.words} is a {series.kind}.")
    if index.unread:
        raise _refusal([unread.words for unread in index.unread], len(index.unread), some_left=False)
    raise InputError(f"no DICOM image was found; {index.listing.words or 'the folder is empty'}.")


def _read(series: Series, skip_bad: bool, modalities: Collection[str], limits: Limits, sandbox: Sandbox | None) -> Scan:
    good, refused = readable(series.images, modalities)
    bad = [unread.words for unread in series.unread] + refused
    if not good or (bad and not skip_bad):
        raise _refusal(bad, len(series.images) + len(series.unread), some_left=bool(good))
    order = arrange(good)
    n = len(order.slices) + len(bad)
    first = order.slices[0]
    if 2 * len(good) * first.rows * first.columns > limits.scan_bytes:
        raise InputError(f"scan of {len(good)} slices is above the limit of {limits.scan_bytes >> 20} MB.")
    hu = np.empty((len(order.slices), first.rows, first.columns), np.int16)
    with Sandbox() if sandbox is None else nullcontext(sandbox) as decoder:
        read, mended = _read_slices(hu, order.slices, bad, limits, decoder)
    if not read or (bad and not skip_bad):
        raise _refusal(bad, n, some_left=bool(read))
    slices = [order.slices[i] for i in read]
    notes = [*order.notes, *_summed(mended, len(read)), *(f"{s.words} {note}" for s in slices for note in s.notes)]
    if bad:
        notes.append(f"incomplete {len(read)}/{n}")
        notes += bad
    if series.burned_in:
        notes.append(BURNED_IN)
    if first.spacing is None:
        notes.append("PixelSpacing is missing; 1 mm is assumed")
    rows, columns = first.spacing or (1.0, 1.0)
    return Scan(
        id=series.id,
        hu=hu if len(read) == len(hu) else hu[read],
        positions=order.positions[read],
        spacing=(rows, columns),
        sources=tuple(Source(header.sop_class, header.sop_instance, header.frame) for header in slices),
        study_uid=first.study,
        series_uid=first.series,
        thickness=series.thickness,
        notes=tuple(notes),
        burned_in=series.burned_in,
        orientation=first.orientation,
        region=region_of(first.body_part),
    )


def _read_slices(
    hu: NDArray[np.int16], slices: tuple[Header, ...], bad: list[str], limits: Limits, sandbox: Sandbox
) -> tuple[list[int], Counter[str]]:
    """Places of the slices that could be read, and what was mended how often; the others are added to ``bad``."""
    read: list[int] = []
    mended: Counter[str] = Counter()
    for place, header in enumerate(slices):
        try:
            mended.update(to_hu(read_stored(header, hu[place], sandbox, limits), header, hu[place]))
            read.append(place)
        except InputError as error:
            bad.append(f"{header.words}: {error}")
    return read, mended


def _summed(mended: Counter[str], n: int) -> list[str]:
    return [note if count == n else f"{note} ({count} of {n} slices)" for note, count in mended.items()]


def _refusal(bad: list[str], n: int, *, some_left: bool) -> InputError:
    """One line about all slices that cannot be read, each reason told once; leaving them out is advised if it helps."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for line in bad:
        file, _, reason = line.partition(": ")
        files[reason].append(file)
    lines = [f"{_listed(names)}: {reason}" for reason, names in files.items()]
    shown = " ".join(lines[:SHOWN]) + (f" And {len(lines) - SHOWN} reasons more." if len(lines) > SHOWN else "")
    cure = " Leave them out with skip_bad=True (--skip-bad)." if some_left else ""
    return InputError(f"{len(bad)} of {n} slices cannot be read. {shown} {COUNTED}{cure}")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _read_nifti(path: Path, hasher: Callable[[str], str] | None, limits: Limits) -> Scan:
    """Axial slices of a NIfTI file, feet to head; rows run to the back and columns to the left, as in DICOM."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError("the NIfTI file is not a regular file.")
    with needed("reading NIfTI needs nibabel", "nifti"):
        import nibabel

        canonical: Any = nibabel.as_closest_canonical
    try:
        image: Any = nibabel.load(path)
        _check_volume(image.shape, path.stat().st_size, limits)
        placed = int(image.header["sform_code"]) > 0 or int(image.header["qform_code"]) > 0
        image = canonical(image.slicer[..., 0] if len(image.shape) == 4 else image)
        values = np.asarray(image.dataobj, dtype=np.float32)
    except InputError:
        raise
    except Exception:  # nibabel raises many kinds on damaged files, and quotes their names
        raise InputError("the NIfTI file is damaged or cut short.") from None
    hasher = hasher or Hasher.of_user()
    # Axes go right, anterior and superior; DICOM columns go left and rows go posterior.
    values = np.nan_to_num(values, nan=LOWEST_HU, posinf=HIGHEST_HU, neginf=LOWEST_HU)
    hu = np.rint(np.clip(values, LOWEST_HU, HIGHEST_HU)).astype(np.int16)[::-1, ::-1].transpose(2, 1, 0)
    width, height, step = (float(x) for x in image.header.get_zooms()[:3])
    positions = float(image.affine[2, 3]) + step * np.arange(len(hu), dtype=np.float64)
    across, down = (image.affine[:3, axis] * (1, 1, -1) / np.linalg.norm(image.affine[:3, axis]) for axis in (0, 1))
    return Scan(
        hasher(path.name),
        np.ascontiguousarray(hu),
        positions,
        (height, width),
        thickness=step,
        orientation=(*across.tolist(), *down.tolist()) if placed else None,
    )


def _check_volume(shape: tuple[int, ...], size: int, limits: Limits) -> None:
    if len(shape) not in (3, 4) or min(shape) < 1 or (len(shape) == 4 and shape[3] != 1):
        raise InputError(f"the NIfTI file has shape {shape}, expected one volume.")
    voxels = int(np.prod([int(n) for n in shape], dtype=object))
    if max(shape) > limits.side or 4 * voxels > limits.scan_bytes or size > limits.scan_bytes:
        raise InputError(f"the NIfTI file of shape {shape} is above the limit of {limits.scan_bytes >> 20} MB.")
