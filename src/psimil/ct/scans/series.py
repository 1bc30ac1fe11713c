"""Reading a series: from files to Hounsfield units in order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from psimil.ct.dicom.folder import NIFTI_ENDINGS, Listing, SliceFile
from psimil.ct.dicom.headers import Header
from psimil.ct.dicom.limits import LIMITS, Limits
from psimil.ct.dicom.pixels import check_image, read_stored, to_hu
from psimil.ct.dicom.sandbox import Sandbox
from psimil.ct.scans.geometry import arrange
from psimil.ct.scans.index import index_files, index_folder
from psimil.ct.scans.nifti import read_nifti
from psimil.ct.scans.scan import Scan, Source
from psimil.ct.scans.study import Series
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile

BURNED_IN = "pixels may show text about the patient (BurnedInAnnotation)"
SHOWN = 10  # bad slices that a message lists


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
        When there is no series or more than one, or slices cannot be read; slices are named by the place of their file
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
        return read_nifti(path, hasher=hasher, limits=limits)
    return _read(_only(path, series, hasher, modalities, limits), skip_bad, modalities, limits, sandbox)


def _only(
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
    everything = [part for study in index.studies for part in study.series]
    usable = [part for part in everything if part.usable]
    found = [part for part in usable if wanted in (None, part.id)]
    if len(found) == 1:
        return found[0]
    if usable:
        sizes = " and ".join(str(part.n_slices) for part in usable)
        ids = ", ".join(part.id for part in usable)
        count = f"{len(usable)} series" if len(usable) > 1 else "another series"
        raise InputError(f"folder has {count} ({sizes} slices). Choose one with --series (series= in Python): {ids}.")
    for part in everything:
        check = part.slices[0]
        try:
            check_image(check, modalities)
        except InputError as error:
            raise InputError(f"{check.words}: {error}") from None
        raise InputError(f"no CT series: {check.words} is a {part.kind}.")
    if index.unread:
        raise _refusal([unread.words for unread in index.unread], len(index.unread))
    raise InputError(f"no DICOM image was found; {index.listing.words or 'the folder is empty'}.")


def _read(series: Series, skip_bad: bool, modalities: Collection[str], limits: Limits, sandbox: Sandbox | None) -> Scan:
    bad = [unread.words for unread in series.unread]
    good = []
    for header in series.images:
        try:
            check_image(header, modalities)
            good.append(header)
        except InputError as error:
            bad.append(f"{header.words}: {error}")
    if not good or (bad and not skip_bad):
        raise _refusal(bad, len(series.images) + len(series.unread))
    order = arrange(good)
    n = len(order.slices) + len(bad)
    first = order.slices[0]
    if 2 * len(good) * first.rows * first.columns > limits.scan_bytes:
        raise InputError(f"scan of {len(good)} slices is above the limit of {limits.scan_bytes >> 20} MB.")
    hu = np.empty((len(order.slices), first.rows, first.columns), np.int16)
    with Sandbox() if sandbox is None else nullcontext(sandbox) as decoder:
        read, mended = _filled(hu, order.slices, bad, limits, decoder)
    if not read or (bad and not skip_bad):
        raise _refusal(bad, n)
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
    )


def _filled(
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


def _refusal(bad: list[str], n: int) -> InputError:
    """One line about all slices that cannot be read."""
    shown = " ".join(bad[:SHOWN]) + (f" And {len(bad) - SHOWN} more." if len(bad) > SHOWN else "")
    return InputError(
        f"{len(bad)} of {n} slices cannot be read. {shown} Leave them out with skip_bad=True (--skip-bad)."
    )
