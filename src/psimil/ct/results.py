"""What a prediction of CT scans leaves behind: tables, figures and DICOM reports, all from one prediction object."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.cohort import Failure
from psimil.ct.slices import Slices
from psimil.ct.thumbnails import thumbnails
from psimil.ct.truth import truth_scores
from psimil.foundations.errors import InputError
from psimil.inference.prediction import Prediction
from psimil.results.localisation import Localisation, Places
from psimil.results.result_set import ResultSet

if TYPE_CHECKING:
    import pandas as pd

    from psimil.ct.structured_report import ReportedScan
    from psimil.files.rundir import RunDirectory

Array = NDArray[Any]

RESEARCH = "Research use only, not a medical device."


@dataclass(frozen=True, eq=False)
class CTResults:
    """Scans, what the model says about them, and, where it is known, the truth about their slices.

    Parameters
    ----------
    slices : B scans, in the order of the prediction's bags.
    prediction : of the pipeline for these scans.
    failures : scans that could not be read.
    truth : (N,) slice labels, -1 for unknown; None when all are unknown.
    series : (B,) ids of the series that were read; empty when unknown.
    model : the model's card.
    """

    slices: Sequence[Slices]
    prediction: Prediction
    failures: Sequence[Failure] = ()
    truth: Array | None = None
    series: Sequence[str] = ()
    model: Mapping[str, str] = field(default_factory=dict)

    @property
    def positions(self) -> Array:
        """(N,) millimetres along the axis, feet to head, scan after scan."""
        return np.concatenate([part.positions for part in self.slices]).astype(np.float64)

    def localisation(self) -> Localisation | None:
        """How well the slices with a lesion are found inside scans, in millimetres; None without slice labels."""
        if self.truth is None:
            return None
        places = Places(self.positions, "mm")
        return Localisation.of(self.truth, self.prediction.instance_log_odds, self.prediction.offsets, places)

    def result_set(self) -> ResultSet:
        """What a page or a report shows about the scans."""
        found = self.truth
        return ResultSet.of(
            self.prediction,
            kind="ct",
            truth=None if found is None else np.maximum.reduceat(found, self.prediction.offsets[:-1]),
            instance_truth=found,
            positions=self.positions,
            images=thumbnails(self.slices),
            notes=tuple("; ".join(part.notes) for part in self.slices),
            series=tuple(self.series) or None,
            model=self.model,
        )

    def scan_table(self) -> pd.DataFrame:
        """One row per scan: the prediction, number and thickness of its slices, and what was odd about it."""
        frame = self.prediction.to_frame()
        frame["slices"] = [len(part) for part in self.slices]
        frame["thickness_mm"] = [np.nan if part.thickness is None else part.thickness for part in self.slices]
        frame["notes"] = ["; ".join(part.notes) for part in self.slices]
        frame["use"] = RESEARCH
        return frame

    def slice_table(self) -> pd.DataFrame:
        """One row per slice, feet to head: its number, position and prediction, and the truth where it is known.

        ``instance`` counts from 0, as in every table; ``slice`` from 1, as in the viewer and in DICOM reports.
        """
        frame = _with_slices(self.prediction.to_frame("instance"))
        frame.insert(3, "position_mm", self.positions)
        if self.truth is not None:
            frame.insert(4, "y", self.truth)
        return frame

    def failure_table(self) -> pd.DataFrame:
        """One row per scan that could not be read."""
        import pandas as pd

        return pd.DataFrame([(f.scan, f.reason) for f in self.failures], columns=["bag", "reason"])

    def reported(self, number: int) -> ReportedScan:
        """What a DICOM report says about scan ``number``."""
        from psimil.ct.structured_report import ReportedScan
        from psimil.report.calls import Words, reason_words

        part, found = self.slices[number], self.prediction
        rows = slice(int(found.offsets[number]), int(found.offsets[number + 1]))
        known, of_bag = found.instance_novelty, found.novelty
        return ReportedScan(
            part.study_uid,
            part.series_uid,
            part.sources,
            float(found.prob[number]),
            float(found.std[number]),
            (float(found.lower[number]), float(found.upper[number])),
            bool(found.label[number]),
            found.instance_prob[rows],
            found.instance_std[rows],
            found.instance_label[rows],
            (found.threshold, found.instance_threshold),
            None if of_bag is None else float(of_bag[number]),
            None if known is None else known[rows],
            str(found.reason[number]),
            reason_words(found, number, Words.of("ct")),
        )

    def facts(self) -> dict[str, Any]:
        """Counts that a summary names, and the scores where the truth is known."""
        found = self.prediction
        facts: dict[str, Any] = {
            "scans": len(self.slices),
            "slices": int(found.offsets[-1]),
            "called_positive": int(found.label.sum()),
            "to_refer": int(found.refer.sum()),
            "novel": int(found.novel.sum()),
            "failures": len(self.failures),
            "bag_threshold": found.threshold,
            "instance_threshold": found.instance_threshold,
        }
        if self.truth is None or (inside := self.localisation()) is None:
            return facts
        return facts | {"scores": truth_scores(found, self.truth), "localisation": inside._asdict()}

    def order(self) -> Array:
        """(B,) scans from the most to the least probable."""
        return np.argsort(-self.prediction.log_odds, kind="stable")


def write_results(
    run: RunDirectory,
    results: CTResults,
    *,
    figures: int = 20,
    reports: bool = True,
    now: datetime | None = None,
    progress: Callable[[str], None] = lambda note: None,
) -> list[Failure]:
    """Write tables, results.safetensors, strips of the most probable scans and one DICOM report per scan.

    Parameters
    ----------
    run : directory to fill.
    figures : strips to draw, at most.
    reports : whether to write DICOM Structured Reports, which refer to the slices of the source files.
    now : time that the reports carry; None for the present.
    progress : called with a note after each figure and report.

    Returns
    -------
    refused : scans without a report, and why.
    """
    run.write_table("bags.csv", results.scan_table())
    run.write_table("instances.csv", results.slice_table())
    run.write_table("failures.csv", results.failure_table())
    results.result_set().save(run)
    for place, number in enumerate(results.order()[:figures], start=1):
        _draw(run, results, int(number), place)
        progress("figures")
    return _reports(run, results, now or datetime.now(), progress) if reports else []


def _with_slices(frame: pd.DataFrame) -> pd.DataFrame:
    frame.insert(2, "slice", frame["instance"] + 1)
    return frame


def _draw(run: RunDirectory, results: CTResults, number: int, place: int) -> None:
    from matplotlib.pyplot import close

    from psimil.figures import plot_strip, save_figure, strip_table
    from psimil.figures.lettering import noted

    truth = None if results.truth is None else results.prediction.split(results.truth)[number]
    slices = results.slices[number]
    name = str(results.prediction.ids[number])
    ax = plot_strip(results.prediction, name, truth, slices.images[:, 0])
    figure = ax.get_figure(root=True)
    assert figure is not None  # plot_strip made one
    noted(ax, RESEARCH)
    save_figure(ax, run.figure(f"scan-{place:03d}"), _with_slices(strip_table(results.prediction, name, truth)))
    close(figure)


def _reports(run: RunDirectory, results: CTResults, now: datetime, progress: Callable[[str], None]) -> list[Failure]:
    from psimil.ct.structured_report import write_report

    refused = []
    (run.aside / "reports").mkdir(exist_ok=True)
    for number, part in enumerate(results.slices):
        try:
            name = hashlib.sha256(str(part.id).encode()).hexdigest()[:16]  # an id that was asked for may be a real one
            write_report(run.file(f"reports/{name}.dcm"), results.reported(number), when=now, burned_in=part.burned_in)
        except InputError as error:
            refused.append(Failure(str(part.id), str(error)))
        progress("reports")
    return refused
