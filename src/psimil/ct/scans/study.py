"""Studies and series as their headers tell of them, and the rule that picks one series of a study."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from psimil.ct.dicom.folder import SliceFile
from psimil.ct.dicom.headers import Header
from psimil.ct.scans.geometry import plane_of
from psimil.foundations.errors import InputError

CT_CLASSES = frozenset(f"1.2.840.10008.5.1.4.1.1.2{end}" for end in ("", ".1", ".2"))
SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
SCOUT, CAPTURE, MODALITY, OBJECT = "scout", "secondary capture", "another modality", "another kind of object"
LEFT_OUT = (SCOUT, CAPTURE, MODALITY, OBJECT)
SCREENS = frozenset(("SCREEN SAVE", "SCREENSHOT", "DOSE", "DOSE_INFO"))
ENOUGH_SLICES, ENOUGH_MM = 10, 80.0


@dataclass(frozen=True)
class Unread:
    """A file that is no readable image, and why."""

    file: SliceFile = field(repr=False)
    reason: str

    @property
    def words(self) -> str:
        """File and reason."""
        return f"{self.file.words}: {self.reason}"


@dataclass(frozen=True, eq=False)
class Series:
    """Images of one series, orientation, frame of reference and size.

    Parameters
    ----------
    id, study_id : opaque, unless real ids were asked for.
    kind : e.g. "axial CT"; one of ``LEFT_OUT`` for what is never read.
    images : headers of all its files and frames.
    slices : those in order along the normal, without copies; positions : (S,) theirs, millimetres.
    thickness : millimetres; the distance of slices when the files do not say. None when unknown.
    coverage : millimetres from the first slice to the last.
    problems : why slices cannot be read, and what is missing; one line each.
    notes : what is odd but mended: copies, gaps, tilt.
    unread : files of the same folders that are no readable image.
    reason : the sentence of :func:`choose_series`.

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


def kind_of(header: Header, modalities: Collection[str] = ("CT",)) -> str:
    """Kind in words, e.g. "axial CT"; one of ``LEFT_OUT`` for what is no slice of a series.

    Parameters
    ----------
    header : of the image.
    modalities : that are accepted.

    Examples
    --------
    >>> from pathlib import Path
    >>> file = SliceFile(Path("a"), 1, 9)
    >>> kind_of(Header(file, modality="CT", orientation=(1, 0, 0, 0, 1, 0)))
    'axial CT'
    >>> kind_of(Header(file, modality="CT", image_type=("ORIGINAL", "PRIMARY", "LOCALIZER")))
    'scout'
    """
    words = set(header.image_type)
    if header.sop_class.startswith(SECONDARY_CAPTURE):
        return CAPTURE
    if header.modality not in modalities:
        return MODALITY
    if header.modality == "CT" and header.sop_class and header.sop_class not in CT_CLASSES:
        return OBJECT
    if "LOCALIZER" in words:
        return SCOUT
    if words & SCREENS or ("SECONDARY" in words and "AXIAL" not in words) or header.samples != 1:
        return CAPTURE
    plane = plane_of(header.orientation)
    return f"{plane} {header.modality}" if plane else f"{header.modality} without orientation"


def choose_series(study: Study, *, series: str | None = None, thickness: float = 5.0) -> Series:
    """The series of a study that is read, with the reason in ``reason``.

    Axial series of at least 10 slices over at least 80 mm come first, then, in this order: the thickness nearest to the
    wanted one, a kernel that is not for bone, no contrast agent, more slices, the smaller id.

    Parameters
    ----------
    study : of an index.
    series : id of the wanted series; the rule is not asked then.
    thickness : wanted, in millimetres.

    Raises
    ------
    InputError
        When the study has no axial series, or none of that id.

    Examples
    --------
    >>> thin, thick = (Series(f"s{mm}", "a", "axial CT", thickness=mm, coverage=150.0) for mm in (0.6, 5.0))
    >>> choose_series(Study("a", (thin, thick))).id
    's5.0'
    """
    usable = [candidate for candidate in study.series if candidate.usable]
    if series is not None:
        for candidate in usable:
            if candidate.id == series:
                return replace(candidate, reason=f"series {series} was asked for.")
        ids = ", ".join(candidate.id for candidate in usable) or "none"
        raise InputError(f"study {study.id} has no series {series} that can be read. It has: {ids}.")
    axial = [candidate for candidate in usable if candidate.kind.startswith("axial")]
    axial = axial or [candidate for candidate in usable if candidate.kind.endswith("without orientation")]
    if not axial:
        kinds = ", ".join(sorted({candidate.kind for candidate in study.series})) or "nothing"
        cure = " Name one with series=ID (--series)." if usable else ""
        raise InputError(f"no axial series; the study has: {kinds}.{cure}")
    best = min(axial, key=lambda candidate: _rank(candidate, thickness))
    return replace(best, reason=_sentence(best, axial, thickness))


def _rank(candidate: Series, thickness: float) -> tuple[bool, float, bool, bool, int, str]:
    distance = float("inf") if candidate.thickness is None else round(abs(candidate.thickness - thickness), 1)
    sharp = any(header.sharp for header in candidate.slices)
    contrast = any(header.contrast for header in candidate.slices)
    return (not _is_long(candidate), distance, sharp, contrast, -candidate.n_slices, candidate.id)


def _is_long(candidate: Series) -> bool:
    return candidate.n_slices >= ENOUGH_SLICES and candidate.coverage >= ENOUGH_MM


def _sentence(best: Series, axial: list[Series], thickness: float) -> str:
    thick = "unknown" if best.thickness is None else f"{best.thickness:g} mm"
    size = f"{best.n_slices} slices over {best.coverage:.0f} mm, thickness {thick}"
    if len(axial) == 1:
        return f"the only axial series: {size}."
    short = "" if _is_long(best) else f"; none has {ENOUGH_SLICES} slices over {ENOUGH_MM:g} mm"
    rule = f"thickness nearest to {thickness:g} mm, then soft kernel, no contrast, most slices"
    return f"one of {len(axial)} axial series ({rule}): {size}{short}."
