"""What a folder of DICOM files holds: studies, series, slices, problems. Pixels are not read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from psimil.ct.dicom.folder import LIMITS, Limits, Listing, list_folder
from psimil.ct.dicom.headers import Header, read_headers
from psimil.ct.dicom.pixels import readable
from psimil.ct.scans.geometry import THICKEST, Arrangement, arrange
from psimil.ct.scans.identity import Hasher
from psimil.ct.scans.study import LEFT_OUT, Series, Study, Unread, kind_of
from psimil.foundations.errors import InputError
from psimil.foundations.phases import tell

SINGLE = "a single slice, which covers 0 mm, is no scan"


@dataclass(frozen=True, eq=False)
class Index:
    """Studies of a folder, what was left out and skipped, and files that cannot be read.

    Examples
    --------
    >>> index = Index((), {"scout": 2}, (), Listing((), {}))
    >>> index.left_out
    {'scout': 2}
    """

    studies: tuple[Study, ...]
    left_out: Mapping[str, int]
    unread: tuple[Unread, ...]
    listing: Listing = field(repr=False)

    @property
    def strays(self) -> tuple[str, ...]:
        """As ``problems``, of the files that belong to no series, so that no scan fails for them."""
        owned = {id(file) for study in self.studies for series in study.series for file in series.unread}
        lines = zip(self.problems, self.unread, strict=True)
        return tuple(line for line, file in lines if id(file) not in owned)

    @property
    def problems(self) -> tuple[str, ...]:
        """Why files cannot be read, one line each; folders are numbered by name when there are several."""
        several = any(file.folder > 1 for file in self.listing.files)
        return tuple(f"folder {u.file.folder}, {u.words}" if several else u.words for u in self.unread)


def index_folder(
    directory: str | Path,
    *,
    hasher: Callable[[str], str] | None = None,
    modalities: Collection[str] = ("CT",),
    limits: Limits = LIMITS,
) -> Index:
    """Read the headers of a folder and group its images.

    Parameters
    ----------
    directory : the folder, with its sub-folders.
    hasher : turns UIDs to the ids that are shown; None takes the keyed hash of this user.
    modalities : that are read; images of others are counted as left out.
    limits : sizes above which a file is refused.

    Returns
    -------
    index : studies in the order of their files. A file that cannot be read never ends it.

    Raises
    ------
    InputError
        When the folder is not there.

    Examples
    --------
    >>> _ = Path("a").write_text("no image")
    >>> index_folder(".", hasher=str.upper).problems
    ('file 1: not a DICOM file (no DICM marker).',)
    """
    return index_files(list_folder(directory), hasher, modalities, limits)


def index_files(
    listing: Listing, hasher: Callable[[str], str] | None, modalities: Collection[str], limits: Limits
) -> Index:
    """Index of files that were listed; see :func:`index_folder`."""
    hasher = hasher or Hasher.of_user()
    groups: defaultdict[tuple[object, ...], list[Header]] = defaultdict(list)
    planes: defaultdict[tuple[object, ...], list[tuple[float, ...]]] = defaultdict(list)
    unread: list[Unread] = []
    for number, file in enumerate(listing.files):
        tell("headers", number, len(listing.files))
        try:
            images = read_headers(file, limits)
        except InputError as error:
            unread.append(Unread(file, str(error)))
            continue
        for header in images:
            key = _key(header, kind_of(header, modalities))
            groups[(*key, _same_plane(header, planes[key]))].append(header)
    volumes = [_series(headers, hasher, modalities) for headers in groups.values()]
    studies: defaultdict[str, list[Series]] = defaultdict(list)
    for series in _with_unread(_distinct(volumes), unread):
        studies[series.study_id].append(series)
    left_out: Counter[str] = Counter()
    for series in volumes:
        left_out[series.kind] += 0 if series.usable else series.n_slices
    return Index(
        tuple(Study(id_, tuple(sorted(series, key=lambda s: -s.n_slices))) for id_, series in studies.items()),
        {kind: n for kind, n in sorted(left_out.items()) if n},
        tuple(unread),
        listing,
    )


def _key(header: Header, kind: str) -> tuple[object, ...]:
    """Images with the same key and the same plane are slices of one volume."""
    folder = "" if header.series and header.study else str(header.file.path.parent)
    size = (header.rows, header.columns)
    return (header.study, header.series, folder, header.frame_of_reference, size, kind)


def _same_plane(header: Header, planes: list[tuple[float, ...]]) -> int:
    """Place of the orientation among those seen so far; cosines may differ in the second decimal."""
    orientation = header.orientation or ()
    for place, seen in enumerate(planes):
        if len(seen) == len(orientation) and all(abs(a - b) < 0.01 for a, b in zip(seen, orientation, strict=True)):
            return place
    planes.append(orientation)
    return len(planes) - 1


def _series(headers: list[Header], hasher: Callable[[str], str], modalities: Collection[str]) -> Series:
    first, kind = headers[0], kind_of(headers[0], modalities)
    order: Arrangement = arrange(headers)
    steps = np.diff(order.positions)
    given = [header.thickness for header in headers if header.thickness and 0 < header.thickness < THICKEST]
    thickness = float(np.median(given)) if given else float(np.median(steps)) if len(steps) else None
    problems = []
    for name, uid in (("StudyInstanceUID", first.study), ("SeriesInstanceUID", first.series)):
        if not uid:
            problems.append(f"{len(headers)} slices have no {name}; they are grouped by folder")
    if kind not in LEFT_OUT:
        problems += readable(headers, modalities)[1]
        problems += [SINGLE] if len(order.slices) == 1 else []
    odd = [f"{header.words} {note}" for header in order.slices for note in header.notes]
    return Series(
        id=hasher(first.series or first.study),
        study_id=hasher(first.study),
        kind=kind,
        images=tuple(headers),
        slices=order.slices,
        positions=tuple(order.positions.tolist()),
        thickness=thickness,
        coverage=float(order.positions[-1] - order.positions[0]),
        problems=tuple(problems),
        notes=(*order.notes, *odd),
    )


def _distinct(volumes: list[Series]) -> list[Series]:
    """Volumes of one series get ids with a number, the largest keeps the plain one."""
    seen: Counter[str] = Counter()
    renamed: dict[int, Series] = {}
    for series in sorted(volumes, key=lambda volume: (not volume.usable, -volume.n_slices)):
        seen[series.id] += 1
        n = seen[series.id]
        renamed[id(series)] = series if n == 1 else replace(series, id=f"{series.id}-{n}")
    return [renamed[id(series)] for series in volumes]


def _with_unread(volumes: list[Series], unread: list[Unread]) -> list[Series]:
    """Unreadable files belong to the series beside them when it is the only one in their folder."""
    owners: defaultdict[Path, set[int]] = defaultdict(set)
    for place, series in enumerate(volumes):
        for header in series.slices if series.usable else ():
            owners[header.file.path.parent].add(place)
    given: defaultdict[int, list[Unread]] = defaultdict(list)
    for file in unread:
        beside = owners.get(file.file.path.parent, set())
        if len(beside) == 1:
            given[next(iter(beside))].append(file)
    return [
        replace(series, unread=tuple(given[i]), problems=(*series.problems, *(file.words for file in given[i])))
        for i, series in enumerate(volumes)
    ]
