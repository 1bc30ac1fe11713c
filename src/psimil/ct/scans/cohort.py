"""The scans of a folder: one series of each study, read one after another; a scan that cannot be read is listed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from psimil.ct.dicom.folder import LIMITS, NIFTI, Limits
from psimil.ct.dicom.headers import Header
from psimil.ct.dicom.sandbox import Sandbox
from psimil.ct.scans.index import Index
from psimil.ct.scans.scan import Slices
from psimil.ct.scans.series import read_series
from psimil.ct.scans.study import Series, Study, choose_series
from psimil.ct.scans.windows import WINDOWS, Window
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Failure:
    """A scan that was left out, by its opaque id, and why; ``images`` are the headers that could be read.

    Examples
    --------
    >>> Failure("a1", "no axial series.").reason
    'no axial series.'
    """

    scan: str
    reason: str
    images: tuple[Header, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True)
class ReadingRules:
    """Which series of a study is read, and what is accepted.

    Parameters
    ----------
    thickness : wanted, in millimetres, where a study has several series.
    series : ids of series that are taken where a study has one of them.
    skip_bad : leave out slices that cannot be read; by default their scan fails.
    modalities : that are read.
    limits : sizes above which a file is refused.

    Examples
    --------
    >>> ReadingRules(thickness=2.5).modalities
    ('CT',)
    """

    thickness: float = 5.0
    series: tuple[str, ...] = ()
    skip_bad: bool = False
    modalities: tuple[str, ...] = ("CT",)
    limits: Limits = LIMITS


@dataclass(frozen=True, eq=False)
class Cohort:
    """One chosen series per study, and the studies that have none.

    Parameters
    ----------
    studies, chosen : (B,) pairs; ``chosen[b].reason`` says why that series.
    failures : studies without a series to read.
    rules : how they are read.

    Examples
    --------
    >>> series = Series("b2", "a1", "axial CT")
    >>> len(Cohort.of([Study("a1", (series,)), Study("c3", ())]))
    1
    """

    studies: tuple[Study, ...]
    chosen: tuple[Series, ...]
    failures: tuple[Failure, ...] = ()
    rules: ReadingRules = ReadingRules()

    @classmethod
    def of(cls, studies: Index | Sequence[Study], rules: ReadingRules | None = None) -> Cohort:
        """The series that the rules pick.

        Parameters
        ----------
        studies : an index, which must have studies, or studies of one.
        rules : None is ReadingRules().
        """
        if isinstance(studies, Index):
            studies = _usable(studies)
        if not isinstance(studies, Sequence) or not all(isinstance(study, Study) for study in studies):
            raise InputError(
                f"studies must be an Index or a sequence of Study, got {type(studies).__name__}. "
                "Write Cohort.of(index_folder(directory))."
            )
        if rules is not None and not isinstance(rules, ReadingRules):
            raise InputError(
                f"rules must be ReadingRules, got {type(rules).__name__}. Write e.g. ReadingRules(skip_bad=True)."
            )
        rules = rules or ReadingRules()
        known = {series.id for study in studies for series in study.series}
        if unknown := [name for name in rules.series if name not in known]:
            raise InputError(f'no study has the series "{unknown[0]}". psimil ct index lists the ids of all series.')
        readable, chosen, failures = [], [], []
        for study in studies:
            wanted = next((series.id for series in study.series if series.id in rules.series), None)
            try:
                chosen.append(choose_series(study, series=wanted, thickness=rules.thickness))
                readable.append(study)
            except InputError as error:
                failures.append(Failure(study.id, str(error), study.series[0].images if study.series else ()))
        return cls(tuple(readable), tuple(chosen), tuple(failures), rules)

    def __len__(self) -> int:
        return len(self.chosen)

    def table(self) -> pd.DataFrame:
        """One row per scan: its study, the series that is read, and why that one."""
        import pandas as pd

        rows = [(study.id, series.id, series.reason) for study, series in zip(self.studies, self.chosen, strict=True)]
        return pd.DataFrame(rows, columns=["scan", "series", "reason"])

    def some(self, studies: Collection[str]) -> Cohort:
        """The studies of these ids alone, without failures."""
        pairs = [pair for pair in zip(self.studies, self.chosen, strict=True) if pair[0].id in studies]
        return replace(self, studies=tuple(a for a, _ in pairs), chosen=tuple(b for _, b in pairs), failures=())

    def read(self, *, windows: Sequence[Window] = WINDOWS, size: int = 128) -> Iterator[Slices | Failure]:
        """Each scan in turn, windowed and named by its study; a Failure in place of one that cannot be read."""
        rules = self.rules
        with Sandbox() as sandbox:
            for study, series in zip(self.studies, self.chosen, strict=True):
                try:
                    scan = read_series(
                        series,
                        skip_bad=rules.skip_bad,
                        modalities=rules.modalities,
                        limits=rules.limits,
                        sandbox=sandbox,
                    )
                    yield Slices.of(replace(scan, id=study.id), windows, size)
                except InputError as error:
                    yield Failure(study.id, str(error), series.images)

    def read_all(
        self, *, windows: Sequence[Window], size: int, progress: Callable[[str], None]
    ) -> tuple[list[tuple[Study, Series, Slices]], list[Failure]]:
        """The scans that can be read, with their studies and series, and the failures, those of the cohort first."""
        scans, failures = [], list(self.failures)
        for study, series, item in zip(self.studies, self.chosen, self.read(windows=windows, size=size), strict=True):
            if isinstance(item, Failure):
                failures.append(item)
            else:
                scans.append((study, series, item))
            progress("scans")
        return scans, failures


def check_read(scans: Sequence[object], failures: Sequence[Failure], where: str = "") -> None:
    """Refuse to go on without any scan.

    Parameters
    ----------
    where : what else is to be said.

    Raises
    ------
    InputError
        When there is none.

    Examples
    --------
    >>> check_read([], [Failure("a1", "no axial series.")])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: none of 1 scans can be read. The first: no axial series.
    """
    if not scans:
        first = f" The first: {failures[0].reason}" if failures else ""
        raise InputError(f"none of {len(failures)} scans can be read.{first}{where}")


def _usable(index: Index) -> tuple[Study, ...]:
    """Studies of an index, refused when there are none."""
    if index.studies:
        return index.studies
    what = f"{len(index.unread)} files cannot be read" if index.unread else index.listing.words or "the folder is empty"
    if index.listing.skipped.get(NIFTI):
        what += ". NIfTI files are read in Python alone, one by one: psimil.ct.read_series(file)"
    raise InputError(f"no CT study was found; {what}.")
