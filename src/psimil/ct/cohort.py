"""The scans of a folder: one series of each study, read one after another; a scan that cannot be read is listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from psimil.ct.index import Index
from psimil.ct.selection import choose_series
from psimil.ct.series import read_series
from psimil.ct.slices import Slices
from psimil.ct.study import Series, Study
from psimil.ct.windows import WINDOWS, Window
from psimil.foundations.errors import InputError


@dataclass(frozen=True)
class Failure:
    """A scan that was left out, by its opaque id, and why.

    Examples
    --------
    >>> Failure("a1", "no axial series.").reason
    'no axial series.'
    """

    scan: str
    reason: str


@dataclass(frozen=True, eq=False)
class Cohort:
    """One chosen series per study, and the studies that have none.

    Parameters
    ----------
    studies, chosen : (B,) pairs; ``chosen[b].reason`` says why that series.
    failures : studies without a series to read.

    Examples
    --------
    >>> series = Series("b2", "a1", "axial CT")
    >>> len(Cohort.of([Study("a1", (series,)), Study("c3", ())]))
    1
    """

    studies: tuple[Study, ...]
    chosen: tuple[Series, ...]
    failures: tuple[Failure, ...] = ()

    @classmethod
    def of(cls, studies: Sequence[Study], *, thickness: float = 5.0, series: Sequence[str] = ()) -> Cohort:
        """The series that the rule picks, or those of these ids.

        Parameters
        ----------
        thickness : wanted, in millimetres.
        series : ids of series that are taken where a study has one of them.
        """
        kept, chosen, failures = [], [], []
        for study in studies:
            wanted = next((part.id for part in study.series if part.id in series), None)
            try:
                chosen.append(choose_series(study, series=wanted, thickness=thickness))
                kept.append(study)
            except InputError as error:
                failures.append(Failure(study.id, str(error)))
        return cls(tuple(kept), tuple(chosen), tuple(failures))

    def __len__(self) -> int:
        return len(self.chosen)

    def read(
        self, *, windows: Sequence[Window] = WINDOWS, size: int = 96, skip_bad: bool = False
    ) -> Iterator[Slices | Failure]:
        """Each scan in turn, windowed and named by its study; a Failure in place of one that cannot be read."""
        for study, series in zip(self.studies, self.chosen, strict=True):
            try:
                scan = replace(read_series(series, skip_bad=skip_bad), id=study.id)
                yield Slices.of(scan, windows, size)
            except InputError as error:
                yield Failure(study.id, str(error))


def usable_studies(index: Index) -> tuple[Study, ...]:
    """Studies of an index, refused when there are none.

    Examples
    --------
    >>> from psimil.ct.folder import Listing
    >>> usable_studies(Index((), {}, (), Listing((), {})))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: no CT study was found; the folder is empty.
    """
    if index.studies:
        return index.studies
    what = f"{len(index.unread)} files cannot be read" if index.unread else index.listing.words or "the folder is empty"
    raise InputError(f"no CT study was found; {what}.")
