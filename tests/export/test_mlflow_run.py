"""Fits in MLflow runs: what is logged is what the fit says, nothing names a bag, and no tracker ends a fit."""

import shutil
import sys
from math import isfinite

import numpy as np
import pytest

from psimil import VGPMIL, Bags, DataWarning, InputError, MultiLabelMIL
from psimil.datasets import make_bags
from psimil.export import log_fit, log_passes
from psimil.foundations.errors import NotFitted
from psimil.results.metrics import bag_metrics

mlflow = pytest.importorskip("mlflow")
HOW = {"n_inducing": 5, "max_iter": 3, "tol": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    bags, y, _ = make_bags(n_bags=24, n_features=2, seed=1)
    ids = [f"canary{b}" for b in range(24)]
    return Bags(bags.X, bags.offsets, ids, feature_names=["canary size", "canary mass"]), y


@pytest.fixture(scope="module")
def clf(data):
    return VGPMIL(**HOW).fit(data[0][:16], data[1][:16])


def found(run):
    return mlflow.get_run(run.info.run_id).data


def metric(run, name):
    return [(one.step, one.value) for one in mlflow.MlflowClient().get_metric_history(run.info.run_id, name)]


@pytest.mark.parametrize(
    "more", [{}, {"context": "auto"}, {"early_stopping": "out_of_bag"}, {"posterior": "augmented"}]
)
def test_every_number_of_the_history_is_logged(more, data, tracker):
    with mlflow.start_run() as run:
        model = VGPMIL(**HOW | more).fit(*data, callbacks=[log_passes()])
    stages = {row["stage"] for row in model.history_}
    assert {"fit", "kernel"} <= stages
    for stage in stages:
        rows = [row for row in model.history_ if row["stage"] == stage]
        for name in ("elbo", "seconds", "log_evidence", "eval_out_of_bag"):
            numbers = [(row["iteration"], row[name]) for row in rows if isfinite(row.get(name) or np.nan)]
            if numbers or f"{stage}/{name}" in found(run).metrics:
                assert metric(run, f"{stage}/{name}") == numbers, name
    assert metric(run, "fit/elbo")


def test_minibatches_are_logged(data, tracker):
    with mlflow.start_run() as run:
        VGPMIL(**HOW).fit(*data, callbacks=[log_passes()], batch_bags=8)
    assert [step for step, _ in metric(run, "batches/elbo")] == [1, 2, 3]


def test_a_fit_that_is_logged_is_the_same_fit(clf, data, tracker):
    with mlflow.start_run():
        again = VGPMIL(**HOW).fit(data[0][:16], data[1][:16], callbacks=[log_passes()])
        log_fit(again)
    assert np.array_equal(again.predict_proba(data[0]), clf.predict_proba(data[0]))
    assert [row["elbo"] for row in again.history_] == [row["elbo"] for row in clf.history_]


def test_parameters_scores_and_card(clf, data, tracker):
    new, truth = data[0][16:], dict(zip(data[0].ids[16:], data[1][16:], strict=True))
    with mlflow.start_run() as run:
        log_fit(clf, evaluation=(new, truth))
    logged, unseen = found(run), clf.out_of_bag_
    assert set(logged.params) == {*clf.get_params()}
    assert (logged.params["n_inducing"], logged.params["labels"]) == ("5", "None")
    assert logged.params["density"].startswith("HyperbolicSecant")
    said = unseen.prediction
    scores = bag_metrics(data[1][:16], said.prob, unseen.thresholds, said.log_odds, unseen.fold)
    new_scores = bag_metrics(data[1][16:], clf.predict_dist(new).prob, clf.threshold_, clf.predict_dist(new).log_odds)
    expected = {
        "sharing": clf.model_.sharing, "coupling": clf.model_.coupling,
        "elbo": clf.elbo_, "n_iter": clf.n_iter_, "converged": clf.converged_, "threshold": clf.threshold_,
        "instance_threshold": clf.instance_threshold_, "referral_margin": clf.model_.referral.margin,
        "training/bags": 16, "training/positive": data[1][:16].sum(), "training/instances": data[0][:16].n_instances,
        "out_of_bag/log_predictive": unseen.mean_log_predictive,
        **{f"out_of_bag/{name}": value for name, value in scores.items()},
        **{f"evaluation/{name}": value for name, value in new_scores.items()},
    }  # fmt: skip
    assert logged.metrics == {name: float(value) for name, value in expected.items() if isfinite(value)}
    assert "psimil_version" in logged.tags
    card = mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/model-card.md")
    assert "# VGPMIL" in card and "16 bags" in card and "Research use only, not a medical device" in card


def test_no_bag_no_feature_and_no_instance_is_named(data, tracker):
    points = data[0].X[:5]
    with mlflow.start_run() as run:
        model = VGPMIL(**HOW | {"early_stopping": "auc", "inducing_points": points, "n_inducing": 5})
        weights = dict.fromkeys(data[0].ids, 1.0)
        callbacks = [log_passes()]
        model.fit(*data, eval_set=data, sample_weight=weights, callbacks=callbacks)
        log_fit(model, evaluation=data)
    assert found(run).params["inducing_points"] == "array of shape (5, 2)"
    files = [path for path in tracker.rglob("*") if path.is_file()]
    assert len(files) > 50
    hidden = [b"canary", *(repr(float(x))[:10].encode() for x in points.ravel())]
    for path in files:
        content = path.read_bytes() + str(path).encode()
        assert not [word for word in hidden if word in content], path


def test_generators_and_long_values_are_told_in_short(data, tracker):
    model = VGPMIL(**HOW | {"random_state": np.random.default_rng(0), "feature_fingerprint": "f" * 900}).fit(*data)
    with mlflow.start_run() as run:
        log_fit(model)
    assert found(run).params["random_state"] == "Generator"
    assert found(run).params["feature_fingerprint"] == "f" * 497 + "..."


def test_of_a_loaded_model_what_its_file_says_is_logged(clf, data, tracker, tmp_path):
    clf.save(tmp_path / "model.safetensors")
    with mlflow.start_run() as run:
        log_fit(VGPMIL.load(tmp_path / "model.safetensors"), evaluation=(data[0][16:], data[1][16:]))
    assert {"threshold", "training/bags", "evaluation/auc"} <= found(run).metrics.keys()
    assert not [name for name in found(run).metrics if name.startswith(("elbo", "out_of_bag"))]


def test_a_tracker_that_fails_ends_no_fit(clf, data, tracker):
    seen, away = [], tracker.parent / "away"

    def lose(row):
        seen.append(row)
        if len(seen) == 2:
            tracker.rename(away)

    with mlflow.start_run() as run:
        with pytest.warns(DataWarning, match=r"MLflow did not take pass 2 \(\w+\)\. The fit goes on") as told:
            again = VGPMIL(**HOW).fit(data[0][:16], data[1][:16], callbacks=[lose, log_passes()])
        if tracker.exists():
            shutil.rmtree(tracker)
        away.rename(tracker)
    assert len(told) == 1 and len(seen) == len(clf.history_) > 3
    assert len(metric(run, f"{seen[0]['stage']}/elbo")) == 1
    assert np.array_equal(again.predict_proba(data[0]), clf.predict_proba(data[0]))


def test_what_cannot_be_logged_is_refused(clf, data, tracker):
    for ask in (log_passes, lambda: log_fit(clf)):
        with pytest.raises(InputError, match="no MLflow run is active"):
            ask()
    assert mlflow.active_run() is None
    several = MultiLabelMIL(VGPMIL(**HOW)).fit(data[0], np.column_stack([data[1], 1 - data[1]]))
    with mlflow.start_run() as run:
        with pytest.raises(NotFitted):
            log_fit(VGPMIL())
        with pytest.raises(InputError, match="only fits of one label"):
            log_fit(several)
        with pytest.raises(InputError, match=r"evaluation must be a pair"):
            log_fit(clf, evaluation=data[0])
        with pytest.raises(InputError, match="labels"):
            log_fit(clf, evaluation=(data[0], data[1][:3]))
    assert not found(run).params and not found(run).metrics


def test_without_mlflow_it_says_what_to_install(clf, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for ask in (log_passes, lambda: log_fit(clf)):
        with pytest.raises(InputError, match=r"need MLflow\. Install it with: .*mlflow"):
            ask()
