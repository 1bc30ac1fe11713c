"""Scans beside what the model says about them: tables and scores, all from one prediction object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psimil.ct.report.report_content import ELSEWHERE, SINGLE, UNREAD
from psimil.ct.report.reported_scan import ReportedScan, model_words, obstacle_words
from psimil.ct.report.slice_truth import slice_truth, truth_scores
from psimil.ct.scans.cohort import Cohort, Failure
from psimil.ct.scans.purpose import UNNAMED, Purpose
from psimil.ct.scans.scan import Slices, Source, thumbnails
from psimil.ct.scans.study import CT_CLASSES
from psimil.foundations.arrays import Array
from psimil.predictive.prediction import BagLayout, Prediction
from psimil.predictive.prediction_table import estimate
from psimil.predictive.referral import UNLIKE, not_analysed
from psimil.results.edges import Edges
from psimil.results.heat import shown_heat
from psimil.results.localisation import Localisation, Places
from psimil.results.model_card import model_card
from psimil.results.result_set import ResultSet

if TYPE_CHECKING:
    import pandas as pd

    from psimil.ct.pipeline import CTPipeline

UNKNOWN = (0.0,) * 6  # orientation
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
    purpose : what the model finds, and where.
    heat : (B,) heat maps (S, h, h) of the scans, see :attr:`psimil.results.result_set.ResultSet.heat`; empty without.
    files : (B,) the files of each scan, of which patient and study can be copied; empty when unknown.
    """

    slices: Sequence[Slices]
    prediction: Prediction
    failures: Sequence[Failure] = ()
    truth: Array | None = None
    series: Sequence[str] = ()
    model: Mapping[str, str] = field(default_factory=dict)
    purpose: Purpose = UNNAMED
    files: Sequence[Sequence[Path]] = field(default=(), repr=False)
    heat: Sequence[Array] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        obstacles = np.array([_obstacle(scan, self.purpose) for scan in self.slices], dtype=np.str_)
        known = replace(self.prediction, obstacles=obstacles) if obstacles.any() else self.prediction
        object.__setattr__(self, "prediction", known)

    @property
    def positions(self) -> Array:
        """(N,) millimetres along the axis, feet to head, scan after scan."""
        return np.concatenate([scan.positions for scan in self.slices]).astype(np.float64)

    def localisation(self) -> Localisation | None:
        """How well the slices with a lesion are found inside scans, in millimetres; None without slice labels."""
        if self.truth is None:
            return None
        places = Places(self.positions, "mm")
        return Localisation.of(self.truth, self.prediction.instance_log_odds, self.prediction.offsets, places)

    def result_set(self) -> ResultSet:
        """What a page or a report shows about the scans."""
        return ResultSet.of(
            self.prediction,
            kind="ct",
            truth=None if self.truth is None else np.maximum.reduceat(self.truth, self.prediction.offsets[:-1]),
            instance_truth=self.truth,
            positions=self.positions,
            images=thumbnails(self.slices),
            heat=np.concatenate(self.heat) if self.heat else None,
            orientation=np.array([scan.orientation if Edges.of(scan.orientation) else UNKNOWN for scan in self.slices]),
            notes=tuple("; ".join(scan.notes) for scan in self.slices),
            series=tuple(self.series) or None,
            model=self.model,
        )

    def scan_table(self) -> pd.DataFrame:
        """One row per scan: the prediction, number and thickness of its slices, and what was odd about it."""
        frame = self.prediction.to_frame()
        frame["slices"] = [len(scan) for scan in self.slices]
        frame["thickness_mm"] = [np.nan if scan.thickness is None else scan.thickness for scan in self.slices]
        frame["not_analysed"] = [self.obstacle(number) for number in range(len(self.slices))]
        frame["notes"] = ["; ".join(scan.notes) for scan in self.slices]
        frame["use"] = RESEARCH
        return frame

    def slice_table(self) -> pd.DataFrame:
        """One row per slice, feet to head: its number, position and prediction, and the truth where it is known.

        ``instance`` counts from 0, as in every table; ``slice`` from 1, as in the viewer and in DICOM reports.
        """
        frame = with_slices(self.prediction.to_frame("instance"))
        frame.insert(3, "position_mm", self.positions)
        if self.truth is not None:
            frame.insert(4, "y", self.truth)
        return frame

    def failure_table(self) -> pd.DataFrame:
        """One row per scan that could not be read, all of which are for a human reader."""
        import pandas as pd

        return pd.DataFrame([(f.scan, True, f.reason) for f in self.failures], columns=["bag", "refer", "reason"])

    def reasons(self) -> Counter[str]:
        """How many scans are referred for which reason, those that could not be read among them."""
        return Counter(self.prediction.reason.tolist()) + Counter({not_analysed(UNREAD): len(self.failures)})

    def obstacle(self, number: int) -> str:
        """Why scan ``number`` does not count as analysed, whatever its numbers are; empty when it does.

        It is a single slice, its files name a body part that no training scan is of, or it is unlike the training data.
        """
        given = self.prediction.obstacles
        known = "" if given is None else str(given[number])
        return known or (UNLIKE if self.prediction.novel[number] else "")

    def reported(self, number: int) -> ReportedScan:
        """What a DICOM report says about scan ``number``."""
        from psimil.report.calls import Words, reason_words

        source, prediction, obstacle = self.slices[number], self.prediction, self.obstacle(number)
        scan, rows = estimate(prediction, number), prediction.instances_of(number)
        slices = {name: column[rows] for name, column in prediction.instance_numbers.items()}
        return ReportedScan(
            source.study_uid,
            source.series_uid,
            source.sources,
            scan["prob"],
            scan["std"],
            (scan["lower"], scan["upper"]),
            bool(scan["label"]),
            slices["prob"],
            slices["std"],
            slices["label"],
            (prediction.threshold, prediction.instance_threshold),
            scan.get("novelty"),
            slices.get("novelty"),
            scan["reason"],
            obstacle_words(obstacle, self.purpose) or reason_words(prediction, number, Words.of("ct")),
            self.purpose,
            model_words(self.model),
            obstacle,
        )

    def unread(self, failure: Failure) -> ReportedScan:
        """What a DICOM report says about a scan that could not be read, as far as its headers could."""
        images = [image for image in failure.images if image.sop_class in CT_CLASSES]
        first = images[0] if images else None
        return ReportedScan(
            "" if first is None else first.study,
            "" if first is None else first.series,
            tuple(Source(image.sop_class, image.sop_instance, image.frame) for image in images),
            reason=not_analysed(UNREAD),
            words=obstacle_words(UNREAD, self.purpose),
            purpose=self.purpose,
            model=model_words(self.model),
            obstacle=UNREAD,
        )

    def facts(self) -> dict[str, Any]:
        """Counts that a summary names, and the scores where the truth is known."""
        prediction = self.prediction
        heat = {"heat_maps": sum(int(maps.any(axis=(1, 2)).sum()) for maps in self.heat)} if self.heat else {}
        facts: dict[str, Any] = heat | {
            "scans": len(self.slices),
            "slices": int(prediction.offsets[-1]),
            "called_positive": int(prediction.label.sum()),
            "to_refer": int(prediction.refer.sum()) + len(self.failures),
            "novel": int(prediction.novel.sum()),
            "failures": len(self.failures),
            "not_analysed": len(self.failures) + sum(bool(self.obstacle(number)) for number in range(len(self.slices))),
            "bag_threshold": prediction.threshold,
            "instance_threshold": prediction.instance_threshold,
        }
        if self.truth is None or (inside := self.localisation()) is None:
            return facts
        return facts | {"scores": truth_scores(prediction, self.truth), "localisation": inside._asdict()}

    def order(self) -> Array:
        """(B,) scans from the most to the least probable."""
        return np.argsort(-self.prediction.log_odds, kind="stable")


def _obstacle(scan: Slices, purpose: Purpose) -> str:
    """Why a scan does not count as analysed, as far as the scan itself tells; empty when it does."""
    if np.ptp(scan.positions) == 0:
        return SINGLE
    return ELSEWHERE if scan.region and purpose.regions and scan.region not in purpose.regions else ""


def with_slices(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of instances, in place with the column ``slice`` that counts them from 1."""
    frame.insert(2, "slice", frame["instance"] + 1)
    return frame


def predict_cohort(
    pipeline: CTPipeline,
    cohort: Cohort,
    *,
    truth: Mapping[str, int] | None = None,
    file: Path | None = None,
    heat: bool = False,
    progress: Callable[[str], None] = lambda note: None,
) -> CTResults:
    """Read and predict every scan; those that cannot be read are listed, also when none can.

    Parameters
    ----------
    truth : slice labels by SOP instance UID.
    file : the Gaussian process's model file, for the model's card.
    heat : work out where the evidence lies in slices that are called positive.
    progress : called after each scan.
    """
    extractor = pipeline.extractor_
    if heat:  # refused before anything is read
        from psimil.predictive.torch_gp import check_torch

        check_torch(pipeline.gp_.model_.gp)
    scans, failures = cohort.read_all(windows=extractor.weights_.windows, size=extractor.size, progress=progress)
    slices = [scan for _, _, scan in scans]
    known = None if truth is None or not slices else slice_truth(slices, truth)
    card = {"finding": pipeline.purpose_.words, **model_card(pipeline.gp_, file)}
    if failures:
        card["not read"] = f"{len(failures)} scans, which are to be referred and not shown here; see failures.csv"
    nothing = np.empty(0)
    results = CTResults(
        slices,
        pipeline.predict_dist(slices)
        if slices
        else pipeline.gp_.model_.assemble(BagLayout(nothing, np.zeros(1, np.int64)), (nothing, nothing)),
        failures,
        known,
        [series.id for _, series, _ in scans],
        card,
        pipeline.purpose_,
        [[image.file.path for image in series.slices] for _, series, _ in scans],
    )
    return replace(results, heat=_heat(pipeline, results)) if heat and slices else results


def _heat(pipeline: CTPipeline, results: CTResults) -> list[Array]:
    """Heat maps, as large as thumbnails, of the slices called positive in scans that could be analysed."""
    analysed = np.array([not results.obstacle(number) for number in range(len(results.slices))])
    prediction, side = results.prediction, thumbnails(results.slices).shape[-1]
    wanted = (prediction.instance_label == 1) & np.repeat(analysed, np.diff(prediction.offsets))
    return [shown_heat(maps, side) for maps in pipeline.heat_maps(results.slices, wanted)]
