"""Studies and series as their headers tell of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from psimil.ct.folder import SliceFile
from psimil.ct.headers import Header
from psimil.ct.kinds import LEFT_OUT


@dataclass(frozen=True)
class Unread:
    """A file that is no readable image, and why.

    Examples
    --------
    >>> from pathlib import Path
    >>> Unread(SliceFile(Path("a"), 12, 9), "not a DICOM file.").words
    'slice 12: not a DICOM file.'
    """

    file: SliceFile = field(repr=False)
    reason: str

    @property
    def words(self) -> str:
        """Slice and reason."""
        return f"slice {self.file.number}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Series:
    """Images of one series, orientation, frame of reference and size.

    Parameters
    ----------
    id, study_id : opaque, unless real ids were asked for.
    kind : e.g. "axial CT"; one of ``psimil.ct.kinds.LEFT_OUT`` for what is never read.
    images : headers of all its files and frames.
    slices : those in order along the normal, without copies; positions : (S,) theirs, millimetres.
    thickness : millimetres; the distance of slices when the files do not say. None when unknown.
    coverage : millimetres from the first slice to the last.
    problems : why slices cannot be read, and what is missing; one line each.
    notes : what is odd but mended: copies, gaps, tilt.
    unread : files of the same folders that are no readable image.
    reason : the sentence of :func:`psimil.ct.selection.choose_series`.

    Examples
    --------
    >>> Series("b2", "a1", "axial CT").n_slices
    0
    """

    id: str
    study_id: str
    kind: str
    images: tuple[Header, ...] = field(default=(), repr=False)
    slices: tuple[Header, ...] = field(default=(), repr=False)
    positions: tuple[float, ...] = field(default=(), repr=False)
    thickness: float | None = None
    coverage: float = 0.0
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = field(default=(), repr=False)
    reason: str = ""

    @property
    def n_slices(self) -> int:
        """Slices that are different."""
        return len(self.slices)

    @property
    def usable(self) -> bool:
        """Whether it can be read as a scan."""
        return self.kind not in LEFT_OUT

    @property
    def burned_in(self) -> bool:
        """Whether a file says that its pixels show text about the patient."""
        return any(header.burned_in for header in self.slices)


@dataclass(frozen=True, eq=False)
class Study:
    """Series of one study, the longest first.

    Examples
    --------
    >>> Study("a1", (Series("b2", "a1", "axial CT"),))
    Study(id='a1', 1 series)
    """

    id: str
    series: tuple[Series, ...]

    def __repr__(self) -> str:
        return f"Study(id={self.id!r}, {len(self.series)} series)"
