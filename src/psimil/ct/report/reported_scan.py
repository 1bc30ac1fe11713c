"""What DICOM reports say about one scan: its numbers, or why it could not be analysed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from psimil.ct.report.report_content import COLUMNS, ELSEWHERE, NUMBERS, OBSTACLES, REASONS, uid_of
from psimil.ct.scans.purpose import UNNAMED, Purpose
from psimil.foundations.errors import InputError
from psimil.version import VERSION

if TYPE_CHECKING:
    from psimil.ct.scans.scan import Source

NOTHING_KNOWN = ("scan", 0, "", 0, *[np.nan] * len(NUMBERS), False, None, "")
EMPTY: dict[str, Any] = dict(zip(COLUMNS, NOTHING_KNOWN, strict=True))  # the row of a scan


@dataclass(frozen=True, eq=False)
class ReportedScan:
    """What a report says about a scan of S slices.

    Parameters
    ----------
    study_uid, series_uid : of the source.
    sources : S slices, in order.
    prob, std : probability of the finding in the scan, and its standard deviation.
    interval : lower and upper end of the interval of the probability.
    called : the scan is called positive.
    slice_prob, slice_std : (S,) the same for the slices.
    slice_called : (S,) the slices that are called positive.
    thresholds : probabilities from which on the scan and a slice are called positive; the report says them when given.
    novelty, slice_novelty : how unlike the training data the scan and its slices (S,) are; None where it is not known.
    reason : why the scan is referred to a reader, as in the tables, "" when it is not; None says nothing.
    words : the same in a sentence, for the comment.
    purpose : finding and procedure.
    model : what tells one model from another, such as hashes of its files; UIDs depend on it, or, when it is empty, on
        the numbers.
    obstacle : why the scan could not be analysed, one of ``OBSTACLES``; the report then has neither probabilities nor
        calls. Empty when it was.
    identity : elements of patient and study by keyword, for filing; none by default.

    Examples
    --------
    >>> from psimil.ct.scans.scan import Source
    >>> slices = (Source("1.2.840.10008.5.1.4.1.1.2", "1.2.3.1", None),)
    >>> scan = ReportedScan("1.2.3", "1.2.4", slices, 0.9, 0.1, (0.6, 1.0), True, [0.8], [0.2], [True])
    >>> [(row["level"], row["prob"]) for row in scan.rows()]
    [('scan', 0.9), ('slice', 0.8)]
    """

    study_uid: str = field(repr=False)
    series_uid: str = field(repr=False)
    sources: tuple[Source, ...] = field(repr=False)
    prob: float = np.nan
    std: float = np.nan
    interval: tuple[float, float] = (np.nan, np.nan)
    called: bool = False
    slice_prob: ArrayLike = ()
    slice_std: ArrayLike = ()
    slice_called: ArrayLike = ()
    thresholds: tuple[float, float] | None = None
    novelty: float | None = None
    slice_novelty: ArrayLike | None = None
    reason: str | None = None
    words: str = ""
    purpose: Purpose = UNNAMED
    model: str = ""
    obstacle: str = ""
    identity: Mapping[str, str] = field(default_factory=dict, repr=False)

    def uid(self, what: str) -> str:
        """UID of a DICOM object about this scan, the same whenever the same model looks at the same slices."""
        slices = [(source.sop_instance_uid, source.frame) for source in self.sources]
        maker = self.model or repr(self.rows())
        who = sorted(self.identity.items())
        return uid_of(f"{VERSION} {what} {maker} {self.purpose} {self.study_uid} {self.series_uid} {slices} {who}")

    def rows(self) -> list[dict[str, Any]]:
        """The scan and then its slices, as the rows that :func:`read_report` gives back.

        Raises
        ------
        InputError
            When there are no slices to refer to, numbers are missing or not finite, or reason or obstacle is unknown.
        """
        count = len(self.sources)
        if count == 0:
            raise InputError("a report refers to slices of DICOM files, and this scan has none.")
        if self.reason is not None and self.reason not in REASONS:
            raise InputError(f"the reason of a referral must be one of {list(REASONS)}, got {self.reason!r}.")
        scan = EMPTY | {"reason": self.reason, "obstacle": self.obstacle}
        if self.novelty is not None:
            scan["novelty"] = float(self.novelty)
        if self.obstacle:
            if self.obstacle not in OBSTACLES:
                raise InputError(f"the obstacle must be one of {list(OBSTACLES)}, got {self.obstacle!r}.")
            return [scan]
        low, high = (float(end) for end in self.interval)
        scan |= {
            "prob": float(self.prob),
            "std": float(self.std),
            "low": low,
            "high": high,
            "called": bool(self.called),
        }
        unknown = np.full(count, np.nan) if self.slice_novelty is None else self.slice_novelty
        columns = [np.asarray(column) for column in (self.slice_prob, self.slice_std, unknown, self.slice_called)]
        if any(column.shape != (count,) for column in columns):
            raise InputError(f"a report of {count} slices needs as many probabilities, deviations and calls.")
        table = [scan]
        for number, (source, prob, std, novelty, called) in enumerate(zip(self.sources, *columns, strict=True), 1):
            place = {"number": number, "sop_instance_uid": source.sop_instance_uid, "frame": source.frame or 0}
            numbers = {"prob": float(prob), "std": float(std), "novelty": float(novelty), "called": bool(called)}
            table.append(EMPTY | {"level": "slice"} | place | numbers)
        needed = [value for row in table for value in (row["prob"], row["std"])] + [low, high]
        needed += [] if self.novelty is None else [scan["novelty"]]
        needed += [] if self.slice_novelty is None else [row["novelty"] for row in table[1:]]
        if not np.isfinite(needed).all():
            raise InputError("a report needs finite numbers.")
        return table

    def called_sources(self) -> tuple[Source, ...]:
        """The slices that are called positive; none when the scan could not be analysed."""
        called = np.zeros(len(self.sources), bool) if self.obstacle else np.asarray(self.slice_called, bool)
        return tuple(source for source, one in zip(self.sources, called, strict=True) if one)


def obstacle_words(obstacle: str, purpose: Purpose) -> str:
    """Why a scan could not be analysed, and what to do, in sentences; empty when it was.

    Examples
    --------
    >>> obstacle_words("a single slice", UNNAMED)
    'Could not be analysed: a single slice. Refer this scan to a reader.'
    """
    known = f" (trained on: {', '.join(purpose.regions)})" if obstacle == ELSEWHERE else ""
    return f"Could not be analysed: {obstacle}{known}. Refer this scan to a reader." if obstacle else ""


def model_words(card: Mapping[str, str]) -> str:
    """What tells one model from another: the hash of its file and the fingerprint of its network; empty without file.

    Examples
    --------
    >>> model_words({"sha256": "0a1b", "feature fingerprint": "attcnn sha256:2c3d"}), model_words({})
    ('sha256:0a1b, attcnn sha256:2c3d', '')
    """
    return f"sha256:{card['sha256']}, {card.get('feature fingerprint', '')}" if "sha256" in card else ""
