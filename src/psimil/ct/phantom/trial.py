"""The demo: synthetic studies as DICOM files, training from scan labels, prediction of studies that were not seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from psimil.ct.phantom.studies import PhantomFiles, write_phantoms
from psimil.ct.pipeline import CTPipeline
from psimil.ct.report.scan_results import CTResults, predict_cohort
from psimil.ct.report.slice_truth import area, truth_scores
from psimil.ct.scans.cohort import Cohort
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.label_file import read_slice_labels
from psimil.ct.scans.purpose import HEMORRHAGE
from psimil.ct.scans.training_set import read_training_set
from psimil.estimators.psi_vgpmil import VGPMIL

if TYPE_CHECKING:
    import pandas as pd

PIXELS, SIZE = 128, 64  # sides of a phantom's slices, and of what the network sees of them
EPOCHS, INDUCING = 20, 100
LESIONS = 2  # in a positive scan, at most
FIRST_SEED = 10  # the phantoms of lower seeds were looked at while the settings were chosen


class Demo(NamedTuple):
    """A trained pipeline, its results on studies it has not seen, and their scores.

    ``scores["without_links"]`` are those of a Gaussian process on the same features whose slices are not linked.
    """

    pipeline: CTPipeline
    results: CTResults
    scores: dict[str, Any]


def write_demo_studies(
    folder: Path, train: int, test: int, *, seed: int = 0, progress: Callable[[str], None] = lambda note: None
) -> tuple[PhantomFiles, PhantomFiles]:
    """Synthetic studies to train on and others to predict, in the folders ``train`` and ``test``."""
    first, same = FIRST_SEED + 2 * seed, {"size": PIXELS, "lesions": LESIONS}
    learn = write_phantoms(folder / "train", train, seed=first, progress=progress, **same)
    unseen = write_phantoms(folder / "test", test, seed=first + 1, progress=progress, **same)
    return learn, unseen


def run_demo(
    learn: PhantomFiles,
    unseen: PhantomFiles,
    model: CTPipeline,
    progress: Callable[[str], None] = lambda note: None,
) -> Demo:
    """Train on some studies from scan labels alone, predict the others and score them by their slice labels.

    Parameters
    ----------
    model : pipeline to train.
    progress : called with a note after every scan and every epoch.
    """
    training = read_training_set(_cohort(learn), learn.scans, size=model.size, progress=progress)
    model.set_params(callback=lambda record: progress(f"epoch {record.epoch}")).fit(training.slices, training.y)
    truth = read_slice_labels(unseen.truth)
    results = predict_cohort(model, _cohort(unseen), truth=truth, progress=progress)
    assert results.truth is not None  # given above
    scores = truth_scores(results.prediction, results.truth)
    attention = np.concatenate(model.extractor_.attention(results.slices))
    scores["attention_slice_auc"] = area(results.truth, attention)
    T = np.maximum.reduceat(results.truth, results.prediction.offsets[:-1])
    scores["cnn_scan_auc"] = area(T, model.extractor_.predict_proba(results.slices)[:, 1])
    apart = clone(model.gp_).set_params(labels="independent").fit(model.transform(training.slices), training.y)
    scores["without_links"] = truth_scores(apart.predict_dist(model.transform(results.slices)), results.truth)
    return Demo(model, results, scores | {"localisation": results.facts()["localisation"]})


def demo_pipeline(seed: int = 0, joint_epochs: int = 0) -> CTPipeline:
    """What the demo trains: small slices and few inducing points, for a few minutes on two cores."""
    gp = VGPMIL(n_inducing=INDUCING, labels="chain", random_state=seed)
    return CTPipeline(size=SIZE, epochs=EPOCHS, gp=gp, joint_epochs=joint_epochs, random_state=seed, purpose=HEMORRHAGE)


def score_table(scores: dict[str, Any]) -> pd.DataFrame:
    """The scores that the demo shows, one row each; those of slices without links beside the others."""
    import pandas as pd

    inside, middle = (scores["localisation"][score] for score in ("model", "middle"))
    plain, apart = scores["without_links"], "Gaussian process without links between slices"
    rows = [
        ("scan AUC, Gaussian process", scores["scans"]["auc"]),
        (f"scan AUC, {apart}", plain["scans"]["auc"]),
        ("scan AUC, attention CNN", scores["cnn_scan_auc"]),
        ("scan accuracy, Gaussian process", scores["scans"]["accuracy"]),
        ("slice AUC, Gaussian process", scores["slices"]["auc"]),
        (f"slice AUC, {apart}", plain["slices"]["auc"]),
        ("slice AUC, attention weights", scores["attention_slice_auc"]),
        ("slice AUC within scans, Gaussian process", inside["auc_within_bags"]),
        (f"slice AUC within scans, {apart}", plain["auc_within_scans"]),
        ("slice AUC within scans, middle of the scan", middle["auc_within_bags"]),
        ("localisation error in mm, Gaussian process", inside["localisation_error"]),
        ("localisation error in mm, middle of the scan", middle["localisation_error"]),
        ("slice F1 at the stored threshold", scores["slices"]["f1"]),
        (f"slice F1 at the stored threshold, {apart}", plain["slices"]["f1"]),
        ("AUC of the standard deviation for wrong slices", scores["uncertainty_auc"]),
    ]
    return pd.DataFrame(rows, columns=["score", "value"])


def _cohort(files: PhantomFiles) -> Cohort:
    return Cohort.of(index_folder(files.studies).studies)
