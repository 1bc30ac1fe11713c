"""Predict the scans of a cohort."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from psimil.ct.cohort import Cohort, Failure
from psimil.ct.pipeline import CTPipeline
from psimil.ct.results import CTResults
from psimil.ct.slices import Slices
from psimil.ct.truth import slice_truth
from psimil.foundations.errors import InputError
from psimil.results.model_card import model_card


def predict_cohort(
    pipeline: CTPipeline,
    cohort: Cohort,
    *,
    truth: Mapping[str, int] | None = None,
    file: Path | None = None,
    progress: Callable[[str], None] = lambda note: None,
) -> CTResults:
    """Read and predict every scan; those that cannot be read are listed.

    Parameters
    ----------
    truth : slice labels by SOP instance UID.
    file : the Gaussian process's model file, for the model's card.
    progress : called after each scan.

    Raises
    ------
    InputError
        When no scan can be read.
    """
    extractor = pipeline.extractor_
    slices: list[Slices] = []
    series: list[str] = []
    failures = list(cohort.failures)
    for chosen, item in zip(
        cohort.chosen, cohort.read(windows=extractor.weights_.windows, size=extractor.size), strict=True
    ):
        if isinstance(item, Failure):
            failures.append(item)
        else:
            slices.append(item)
            series.append(chosen.id)
        progress("scans")
    if not slices:
        raise InputError(f"none of {len(failures)} scans can be read. The first: {failures[0].reason}")
    known = None if truth is None else slice_truth(slices, truth)
    prediction = pipeline.predict_dist(slices)
    return CTResults(slices, prediction, failures, known, series, model_card(pipeline.gp_, file))
