"""The demo: synthetic studies as DICOM files, training from scan labels, prediction of studies that were not seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from psimil.ct.cohort import Cohort
from psimil.ct.index import index_folder
from psimil.ct.phantom_files import PhantomFiles, write_phantoms
from psimil.ct.pipeline import CTPipeline
from psimil.ct.prediction import predict_cohort
from psimil.ct.results import CTResults
from psimil.ct.slice_labels import read_slice_labels
from psimil.ct.training_set import read_training_set
from psimil.ct.truth import area, truth_scores

if TYPE_CHECKING:
    import pandas as pd

TRAIN, TEST = 80, 40  # scans
PIXELS = 128  # rows and columns of a phantom's slices


class Demo(NamedTuple):
    """A trained pipeline, its results on studies it has not seen, and their scores."""

    pipeline: CTPipeline
    results: CTResults
    scores: dict[str, Any]


def run_demo(
    folder: Path,
    *,
    train: int = TRAIN,
    test: int = TEST,
    seed: int = 0,
    pipeline: CTPipeline | None = None,
    progress: Callable[[str], None] = lambda note: None,
) -> Demo:
    """Write synthetic studies below a folder, train on some, predict the others.

    Parameters
    ----------
    folder : gets the folders ``train`` and ``test``.
    train, test : numbers of scans.
    pipeline : what is trained; None for the default.
    progress : called with a note after every scan and every epoch.
    """
    learn = write_phantoms(folder / "train", train, seed=2 * seed, size=PIXELS, progress=progress)
    unseen = write_phantoms(folder / "test", test, seed=2 * seed + 1, size=PIXELS, progress=progress)
    found = read_training_set(_cohort(learn), learn.scans, size=96, progress=progress)
    model = CTPipeline(random_state=seed) if pipeline is None else pipeline
    model.set_params(callback=lambda record: progress(f"epoch {record.epoch}")).fit(found.slices, found.y)
    truth = read_slice_labels(unseen.truth)
    results = predict_cohort(model, _cohort(unseen), truth=truth, progress=progress)
    assert results.truth is not None  # given above
    scores = truth_scores(results.prediction, results.truth)
    attention = np.concatenate(model.extractor_.attention(results.slices))
    scores["attention_slice_auc"] = area(results.truth, attention)
    T = np.maximum.reduceat(results.truth, results.prediction.offsets[:-1])
    scores["cnn_scan_auc"] = area(T, model.extractor_.predict_proba(results.slices)[:, 1])
    return Demo(model, results, scores)


def score_table(scores: dict[str, Any]) -> pd.DataFrame:
    """The scores that the demo shows, one row each."""
    import pandas as pd

    rows = [
        ("scan AUC, Gaussian process", scores["scans"]["auc"]),
        ("scan AUC, attention CNN", scores["cnn_scan_auc"]),
        ("scan accuracy, Gaussian process", scores["scans"]["accuracy"]),
        ("slice AUC, Gaussian process", scores["slices"]["auc"]),
        ("slice AUC, attention weights", scores["attention_slice_auc"]),
        ("slice F1 at the stored threshold", scores["slices"]["f1"]),
        ("AUC of the standard deviation for wrong slices", scores["uncertainty_auc"]),
    ]
    return pd.DataFrame(rows, columns=["score", "value"])


def _cohort(files: PhantomFiles) -> Cohort:
    return Cohort.of(index_folder(files.studies, hasher=str).studies)
