"""The scans of a cohort that can be read and have a label."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from psimil.ct.dicom.headers import Header
from psimil.ct.scans.cohort import Cohort, Failure, check_read
from psimil.ct.scans.label_file import read_scan_labels
from psimil.ct.scans.purpose import UNNAMED, Purpose
from psimil.ct.scans.scan import Slices
from psimil.ct.scans.scan_labels import ScanLabels, ScanNames
from psimil.ct.scans.study import Series, Study
from psimil.ct.scans.windows import WINDOWS, Window
from psimil.foundations.errors import MissingFile
from psimil.model.bags import Bags

NO_LABEL = "the label file has no row for it."


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """B scans with labels y (B,), the scans that were left out, and what is known about slices.

    ``known`` (N,) are labels of slices, -1 for unknown; None when nothing is known. ``purpose`` is what the label file
    says that label 1 means.
    """

    slices: list[Slices]
    y: NDArray[np.int64]
    failures: list[Failure]
    known: NDArray[np.int64] | None = None
    purpose: Purpose = UNNAMED

    def corrected(self, feedback: str | Path) -> TrainingSet:
        """The set as readers corrected it in the viewer.

        Raises
        ------
        InputError
            When the feedback is about a scan or slice that is not here.
        """
        from psimil.data.bagtable import BagTable
        from psimil.results.feedback import read_feedback, with_feedback

        offsets = np.concatenate([[0], np.cumsum([len(scan) for scan in self.slices])])
        bags = Bags(np.zeros((offsets[-1], 1)), offsets, np.array([str(scan.id) for scan in self.slices]))
        corrected = with_feedback(BagTable(bags, self.y, None), read_feedback(feedback), Path(feedback).name)
        assert corrected.y is not None  # with_feedback keeps it
        return replace(self, y=corrected.y, known=corrected.y_instances)


def read_training_set(
    cohort: Cohort,
    labels: ScanLabels | str | Path,
    *,
    windows: Sequence[Window] = WINDOWS,
    size: int = 128,
    progress: Callable[[str], None] = lambda note: None,
) -> TrainingSet:
    """Read the scans that have a label; the others, and those that cannot be read, are listed.

    Parameters
    ----------
    labels : or the path of a label file.
    progress : called after each scan.

    Raises
    ------
    InputError
        When no scan has a label, or none can be read.
    """
    given = labels if isinstance(labels, ScanLabels) else read_scan_labels(labels)
    pairs = list(zip(cohort.studies, cohort.chosen, strict=True))
    others = [called([failure.scan], failure.images) for failure in cohort.failures]
    matched = given.match({study.id: names_of(study, series) for study, series in pairs}, others)
    failures = [*cohort.failures, *(Failure(study.id, NO_LABEL) for study, _ in pairs if study.id not in matched)]
    labelled = cohort.some(matched)
    scans, unread = labelled.read_all(windows=windows, size=size, progress=progress)
    check_read(scans, unread)
    y = np.array([matched[study.id] for study, _, _ in scans], dtype=np.int64)
    return TrainingSet([slices for _, _, slices in scans], y, failures + unread, purpose=given.purpose)


def names_of(study: Study, series: Series) -> ScanNames:
    """What a label file may call a scan: its opaque ids, UIDs, the names of its folders, and its slices.

    Examples
    --------
    >>> names_of(Study("a1", ()), Series("b2", "a1", "axial CT")).names
    ('a1', 'b2')
    """
    return called([study.id, series.id], series.slices)


def called(ids: Iterable[str], slices: Sequence[Header]) -> ScanNames:
    """The same from ids and headers, as far as these could be read.

    Examples
    --------
    >>> called(["a1"], ()).slices
    ()
    """
    names = list(ids)
    for header in slices[:1]:
        names += [header.study, header.series, *(folder.name for folder in list(header.file.path.parents)[:3])]
    return ScanNames(tuple(names), tuple(header.sop_instance for header in slices))


def digest(path: str | Path) -> str:
    """What tells one file of labels from another: the start of its SHA-256.

    Raises
    ------
    MissingFile
        When there is no such file.
    """
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError:
        raise MissingFile(f"{Path(path).name} was not found. Check its name.") from None
