"""One fit of an experiment: its row of scores, its predictions, and the way back from the stored arrays."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from psimil import GVGPMIL, RBF, VGPMIL
from psimil.datasets import LabelledBags, load_musk1, make_bags
from psimil.foundations.errors import InputError
from psimil.paper.experiments import trial as trials
from psimil.paper.experiments.models import CANDIDATES, REGISTRY, entry
from psimil.paper.experiments.plans import Job
from psimil.paper.experiments.scores import ModelOutput, restored
from psimil.paper.experiments.trial import run_trial
from psimil.paper.experiments.trial_data import TO_CQ500, TO_RSNA, split_of
from psimil.results.localisation import NAMES as INSIDE
from psimil.results.localisation import auc_within_bags, closeness_to_middle, localisation_error
from psimil.results.metrics import NAMES

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
needs_ich = pytest.mark.skipif(not (DATA / "ich").is_dir(), reason="the ICH files are not at hand")
FACTS = {
    "experiment", "protocol", "model", "preset", "split", "repeat", "cnn", "n_features", "n_inducing", "alpha", "beta",
    "n_train", "seconds", "task", "measured_on", "n_test", "threshold",
}  # fmt: skip
OURS = {"standardize", "aggregate", "sharing", "coupling", "context", "kernel", "passes", "select_accuracy"}
SCORES = {f"{level}_{name}" for level in ("bag", "instance") for name in NAMES}
SCORES |= {f"{level}_{name}" for level in ("instance", "middle") for name in INSIDE}
SMALL = {"n_inducing": 10}
JOBS = {
    "svm": Job("musk1", "nested", "svm", split=1),
    "default": Job("musk1", "nested", "vgpmil", split=1, **SMALL),
    "stopped": Job("musk1", "nested", "vgpmil-bound", split=1, **SMALL),
    "paper": Job("musk1", "paper", "gvgpmil-bound", split=1, alpha=0.5, beta=2.5, **SMALL),
    "published": Job("musk1", "published", "vgpmil-published", split=1, **SMALL),
}


@pytest.fixture(scope="module")
def done():
    return {name: run_trial(job, None) for name, job in JOBS.items()}


@pytest.mark.parametrize("name", JOBS)
def test_a_row_has_every_column_and_says_what_it_was_measured_on(done, name):
    job, [row] = JOBS[name], done[name].rows
    assert set(row) == FACTS | SCORES | (set() if name == "svm" else OURS)
    split = split_of(job, load_musk1()[1], stopping=name == "stopped")
    assert (row["n_train"], row["n_test"]) == (len(split.train), len(split.test))
    assert row["measured_on"] == ("training bags" if name == "published" else "held-out bags")
    assert (row["experiment"], row["protocol"], row["task"]) == ("musk1", job.protocol, "cross-validation")
    assert (row["model"], row["preset"]) == (entry(job.model).label, entry(job.model).preset)
    assert (row["alpha"], row["beta"], row["n_inducing"]) == (job.alpha, job.beta, job.n_inducing)
    assert row["seconds"] > 0
    unknown = SCORES - {f"bag_{score}" for score in NAMES}
    assert all(np.isnan(row[score]) for score in unknown)  # MUSK has no instance labels


@pytest.mark.parametrize("name", JOBS)
def test_scores_are_those_of_the_stored_predictions(done, name):
    [row], [arrays] = done[name].rows, done[name].predictions
    y, prob = arrays["y"], 1 / (1 + np.exp(-arrays["log_odds"]))
    np.testing.assert_array_equal(y, load_musk1()[1][split_of(JOBS[name], load_musk1()[1]).test])
    assert row["bag_auc"] == pytest.approx(roc_auc_score(y, arrays["log_odds"]))
    assert row["bag_log_loss"] == pytest.approx(np.logaddexp(0, np.where(y == 1, -1, 1) * arrays["log_odds"]).mean())
    assert row["bag_accuracy"] == pytest.approx(np.mean((prob >= row["threshold"]) == y))
    assert arrays["threshold"] == row["threshold"]


def test_selection_looks_at_the_stopping_bags_only(done):
    assert np.isnan(done["default"].rows[0]["select_accuracy"])  # nothing stopped it
    [row] = done["published"].rows
    assert row["select_accuracy"] == row["bag_accuracy"]  # the stopping bags are the measured ones
    assert done["paper"].rows[0]["select_accuracy"] * 8 == pytest.approx(
        round(done["paper"].rows[0]["select_accuracy"] * 8)
    )


def test_the_protocol_stops_by_its_own_score(done):
    passes = [row for row in done["paper"].history if row["stage"] == "fit"]
    assert all("eval_auc" in row for row in passes) and "eval_log_loss" in done["published"].history[0]
    assert not any(name.startswith("eval") for row in done["default"].history for name in row)
    assert done["svm"].history == [] and len(done["published"].history) <= 60


def test_the_model_learns_from_the_training_bags_and_no_others(monkeypatch):
    bags, y = load_musk1()
    seen = {}

    class Spy(VGPMIL):
        def fit(self, bags, y, eval_set=None, **more):
            seen.update(train=bags, stop=eval_set)
            return super().fit(bags, y, eval_set=eval_set, **more)

    job = Job("musk1", "paper", "vgpmil-published", split=2, **SMALL)
    spied = {"vgpmil-published": trials.Entry("VGPMIL", "published", lambda job: Spy.preset("published", **SMALL))}
    monkeypatch.setattr(trials, "entry", spied.__getitem__)
    run_trial(job, None)
    split = split_of(job, y)
    np.testing.assert_array_equal(seen["train"].X, bags[split.train].X)
    np.testing.assert_array_equal(seen["stop"][0].X, bags[split.stop].X)


@pytest.mark.parametrize("name", ["svm", "default"])
def test_the_same_seed_gives_the_same_row(done, name):
    again = run_trial(JOBS[name], None)
    first, second = ({k: v for k, v in t.rows[0].items() if k != "seconds"} for t in (done[name], again))
    np.testing.assert_equal(second, first)
    for key, array in done[name].predictions[0].items():
        np.testing.assert_array_equal(again.predictions[0][key], array)


def test_the_seed_belongs_to_the_split_not_to_the_model():
    seeds = {Job("musk1", "nested", model, split=3, repeat=2).seed for model in ("svm", "vgpmil")}
    assert seeds == {2003}
    built = entry("vgpmil").build(Job("musk1", "nested", "vgpmil", split=3, repeat=2, n_inducing=7))
    assert (built.random_state, built.n_inducing) == (2003, 7)
    gamma = entry("gvgpmil-paper").build(Job("musk1", "paper", "gvgpmil-paper", alpha=0.5, beta=4.0)).density
    assert (gamma.alpha, gamma.beta) == (0.5, 4.0)


def test_the_registry():
    with pytest.raises(InputError, match=r"no model is called 'bert'.*vgpmil, gvgpmil"):
        entry("bert")
    for name, found in REGISTRY.items():
        assert found.is_gaussian_process == ("vgpmil" in name)
        if found.build is not None and name != "attention":
            grid = found.build(Job("musk1", "nested", name)).get_params()
            assert set(found.grid) <= set(grid)
        assert (found.label == "G-VGPMIL") == name.startswith("gvgpmil")


# ModelOutputs


@pytest.mark.parametrize("aggregate", ["max", "noisy_or"])
@pytest.mark.parametrize("model", [VGPMIL, GVGPMIL])
def test_stored_arrays_give_the_prediction_back_bit_by_bit(model, aggregate, tmp_path):
    bags, y, y_instances = make_bags(n_bags=30, seed=1)
    truth = LabelledBags(bags, y, y_instances)
    fitted = model(n_inducing=8, aggregate=aggregate, hyperparameters=None, random_state=0).fit(bags, y)
    prediction = fitted.predict_dist(bags)
    verdict = ModelOutput.of(fitted, truth)
    np.savez(tmp_path / "stored.npz", **verdict.arrays(truth))
    with np.load(tmp_path / "stored.npz", allow_pickle=False) as archive:
        arrays = dict(archive)
    found = restored(arrays)
    for name in (
        "prob", "std", "lower", "upper", "log_odds", "label", "refer", "instance_prob", "instance_std", "offsets",
        "instance_lower", "instance_upper", "instance_log_odds", "instance_label", "latent_mean", "latent_variance",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(found, name), getattr(prediction, name))
    assert (found.threshold, found.instance_threshold) == (prediction.threshold, prediction.instance_threshold)
    assert found.aggregate == aggregate == prediction.aggregate
    np.testing.assert_array_equal(arrays["y_instances"], y_instances)
    scores = verdict.scores(truth)
    assert scores["instance_auc"] == pytest.approx(roc_auc_score(y_instances, prediction.instance_log_odds))
    assert scores["bag_auc"] == pytest.approx(roc_auc_score(y, prediction.log_odds))


@pytest.mark.parametrize("ordered", [True, False])
def test_scores_inside_bags_are_in_rows_where_bags_have_an_order(ordered):
    """Chosen bags keep their order; without one, neither the middle nor a distance means anything."""
    bags, y, y_instances = make_bags(n_bags=12, seed=1)
    chosen = (bags.in_order() if ordered else bags)[np.arange(8)]
    truth = LabelledBags(chosen, y[:8], y_instances[: len(chosen.X)])
    log_odds = np.random.default_rng(0).normal(size=len(chosen.X))
    scores = ModelOutput(np.zeros(8), np.ones(8), instance_log_odds=log_odds).scores(truth)
    asked = truth.y_instances, log_odds, chosen.offsets
    rows = np.concatenate([np.arange(n) for n in chosen.sizes])
    assert scores["instance_auc_within_bags"] == auc_within_bags(*asked)
    if ordered:
        assert scores["instance_localisation_error"] == localisation_error(*asked, rows) > 0
        middle = closeness_to_middle(chosen.offsets, rows)
        assert scores["middle_auc_within_bags"] == auc_within_bags(truth.y_instances, middle, chosen.offsets)
    else:
        assert all(np.isnan(scores[f"middle_{name}"]) for name in INSIDE)
        assert np.isnan(scores["instance_localisation_error"])


def test_a_baseline_has_no_uncertainty_and_no_instances(done):
    arrays = done["svm"].predictions[0]
    assert np.isnan(arrays["std"]).all() and "latent_mean" not in arrays


# Stored predictions of the CNNs

PRINTED = [  # AUC of the bags as computed from the published files
    (TO_RSNA, 0, 0.9535), (TO_RSNA, 1, 0.9452), (TO_RSNA, 2, 0.9587), (TO_RSNA, 3, 0.9347), (TO_RSNA, 4, 0.9601),
    (TO_CQ500, 0, 0.9034), (TO_CQ500, 3, 0.9224),
]  # fmt: skip


@pytest.mark.data
@needs_ich
@pytest.mark.parametrize(("task", "cnn", "auc"), PRINTED)
def test_stored_cnn_predictions(task, cnn, auc):
    done = run_trial(Job("ich", "nested", "cnn", task=task, cnn=cnn), str(DATA))
    [row] = done.rows
    assert round(row["bag_auc"], 4) == auc
    assert row["n_test"] == {TO_RSNA: 150, TO_CQ500: 490}[task]
    assert (row["task"], row["cnn"], row["measured_on"]) == (task, cnn, "held-out bags")
    for score in SCORES - {f"bag_{name}" for name in NAMES}:
        assert np.isnan(row[score]) == (task == TO_CQ500), score


@pytest.mark.data
@needs_ich
def test_cross_validated_scans_are_measured_once():
    y, slices = [], 0
    for split in range(5):
        done = run_trial(Job("ich", "nested", "cnn", split=split, cnn=2), str(DATA))
        y.append(done.predictions[0]["y"])
        slices += len(done.predictions[0]["y_instances"])
        assert done.rows[0]["n_train"] + done.rows[0]["n_test"] == 150
    assert len(np.concatenate(y)) == 150 and np.concatenate(y).sum() == 72 and slices == 5254


def test_the_nested_protocol_chooses_among_candidates_by_left_out_bags(monkeypatch):
    job = Job("musk1", "nested", "vgpmil", **SMALL)
    choices = [
        {"kernel": RBF(1e-6, 0.01), "hyperparameters": None},
        {"kernel": RBF(10.0, 8.0), "hyperparameters": None},
    ]
    for listed in (choices, choices[::-1]):
        monkeypatch.setitem(CANDIDATES, "musk1", listed)
        assert run_trial(job, None).rows[0]["kernel"] == str(RBF(10.0, 8.0))
