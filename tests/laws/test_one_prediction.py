"""One prediction behind everything: tables, results file, report, figures, DICOM reports and pages agree to the bit."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2")

from commands import call
from ct_studies import FEW, SLICES, write_studies
from psimil.cli.demo_run import musk_frame
from psimil.datasets import load_musk1
from psimil.results.metrics import bag_metrics
from psimil.results.result_set import ResultSet
from report_pages import Page

NUMBERS = ["prob", "std", "lower", "upper", "log_odds"]


def ran(*arguments):
    done = call(*arguments)
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def musk(tmp_path_factory):
    """A model of half of MUSK1 and its prediction of the other half, in a shuffled table."""
    folder = tmp_path_factory.mktemp("musk")
    bags, y = load_musk1()
    frame = musk_frame(bags, y)
    half = frame["bag"].isin(bags.names[::2])
    frame[half].to_csv(folder / "train.csv", index=False)
    frame[~half].sample(frac=1, random_state=3).to_csv(folder / "test.csv", index=False)
    ran("fit", folder / "train.csv", "--out", folder / "model", "--n-inducing", 20, "--hyperparameters", "none")
    ran("predict", folder / "model", folder / "test.csv", "--out", folder / "run")
    ran("report", folder / "run", "--probable", 3, "--uncertain", 2)
    return folder / "run"


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Small CT studies, trained on and predicted with truth, figures and reports."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("scans")
    studies = write_studies(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSIMIL_ID_KEY_FILE", str(folder / "id.key"))
        ran("ct", "train", studies, "--labels", folder / "scans.csv", "--out", folder / "model", *FEW)
        ran("ct", "predict", studies, "--model", folder / "model", "--out", folder / "run", "--figures", 2,
            "--truth", folder / "truth.csv")  # fmt: skip
    ran("report", folder / "run", "--probable", 2, "--uncertain", 1)
    return folder / "run"


@pytest.fixture(params=["musk", "scans"])
def run(request):
    return request.getfixturevalue(request.param)


TEXT = {"bag", "scan", "series", "reason", "bag_reason", "notes", "use"}


def read(path):
    """A table whose numbers are read by Python, which loses no digit."""
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    words = {"True": 1.0, "False": 0.0, "": np.nan}
    for name in set(frame) - TEXT:
        frame[name] = [words[cell] if cell in words else float(cell) for cell in frame[name]]
    return frame


def page_of(run):
    return Page((run / "report.html").read_text(encoding="utf-8"))


def numbers_of(prediction, level):
    """(rows, 5) all digits of a prediction, in its own order."""
    prefix = "" if level == "bag" else "instance_"
    return np.column_stack([getattr(prediction, prefix + name) for name in NUMBERS])


def test_tables_equal_the_results_file(run):
    found = ResultSet.load(run).prediction
    bags = read(run / "bags.csv").set_index("bag").loc[[str(name) for name in found.ids]]
    np.testing.assert_array_equal(bags[NUMBERS].to_numpy(), numbers_of(found, "bag"))
    np.testing.assert_array_equal(bags["label"], found.label)
    np.testing.assert_array_equal(bags["refer"], found.refer)
    np.testing.assert_array_equal(bags["reason"], found.reason)
    np.testing.assert_array_equal(bags["novelty"], found.novelty)
    instances = read(run / "instances.csv").sort_values(["bag", "instance"], kind="stable")
    names = np.repeat([str(name) for name in found.ids], np.diff(found.offsets))
    order = np.argsort(names, kind="stable")
    np.testing.assert_array_equal(instances["bag"], names[order])
    np.testing.assert_array_equal(instances[NUMBERS].to_numpy(), numbers_of(found, "instance")[order])
    np.testing.assert_array_equal(instances["label"], found.instance_label[order])
    np.testing.assert_array_equal(instances["latent_mean"], found.latent_mean[order])
    np.testing.assert_array_equal(instances["novelty"], found.instance_novelty[order])


def test_the_report_equals_the_results_file(run):
    results, page = ResultSet.load(run), page_of(run)
    found = results.prediction
    assert sorted(page.bags) == list(range(len(results)))
    bags, instances = numbers_of(found, "bag"), numbers_of(found, "instance")
    for number, row in page.bags.items():
        assert [row[name] for name in NUMBERS] == bags[number].tolist()
        assert (row["called"], row["refer"]) == (found.label[number], found.refer[number])
        assert row["truth"] == results.truth[number]
        assert row["novelty"] == found.novelty[number]
    assert page.facts["novel"] == found.novel.sum()
    assert len(page.instances) > 10
    for (number, index), row in page.instances.items():
        n = found.offsets[number] + index
        assert [row[name] for name in NUMBERS] == instances[n].tolist()
        assert (row["called"], row["novelty"]) == (found.instance_label[n], found.instance_novelty[n])
    assert (page.facts["threshold"], page.facts["instance_threshold"]) == (found.threshold, found.instance_threshold)
    scores = bag_metrics(results.truth, found.prob, found.threshold, found.log_odds)
    assert {name: row["bags"] for name, row in page.scores.items()} == scores


def test_truth_is_that_of_the_table(musk):
    results = ResultSet.load(musk)
    labels = read(musk.parent / "test.csv").groupby("bag")["label"].first()
    np.testing.assert_array_equal(results.truth, labels[[str(name) for name in results.prediction.ids]])
    assert (results.instance_truth == -1).all()


def test_telling_values_are_those_of_the_file(musk):
    results, page = ResultSet.load(musk), page_of(musk)
    table = read(musk.parent / "test.csv")
    name = str(results.prediction.ids[0])
    rows = table[table["bag"] == name].drop(columns=["bag", "label"])
    first = results.instances_of(0)
    for n, (_, row) in zip(range(first.start, first.stop), rows.iterrows(), strict=True):
        for feature, value in zip(results.features[n], results.values[n], strict=True):
            assert row[results.feature_names[feature]] == value
    shown = [found["data-value"] for _, found in page.tags if found.get("data-field") == "effect"]
    assert set(map(float, shown)) <= set(results.effects.ravel().tolist())


def test_scans_have_the_positions_and_truth_of_the_table(scans):
    results = ResultSet.load(scans)
    table = read(scans / "instances.csv")
    np.testing.assert_array_equal(table["position_mm"], results.positions)
    np.testing.assert_array_equal(table["y"], results.instance_truth)
    assert results.truth.tolist() == [int(part.max()) for part in results.prediction.split(results.instance_truth)]
    assert results.images.shape == (12 * SLICES, 16, 16) and results.kind == "ct"
    listed = read(scans / "series.csv")
    assert dict(zip(listed["scan"], listed["series"], strict=True)) == dict(
        zip(results.prediction.ids.tolist(), results.series, strict=True)
    )


def test_figures_equal_the_results_file(scans):
    results = ResultSet.load(scans)
    for place, number in enumerate(results.by_probability()[:2], start=1):
        table, rows = read(scans / "figures" / f"scan-{place:03d}.csv"), results.instances_of(int(number))
        assert (table["bag"] == results.prediction.ids[number]).all()
        np.testing.assert_array_equal(table["prob"], results.prediction.instance_prob[rows])
        np.testing.assert_array_equal(table["std"], results.prediction.instance_std[rows])
        np.testing.assert_array_equal(table["lower"], results.prediction.instance_lower[rows])
        np.testing.assert_array_equal(table["novelty"], results.prediction.instance_novelty[rows])
        np.testing.assert_array_equal(table["truth"], results.instance_truth[rows])
        assert (table["bag_prob"] == results.prediction.prob[number]).all()
        assert (table["bag_reason"] == results.prediction.reason[number]).all()


def test_dicom_reports_equal_the_results_file(scans):
    import hashlib

    from psimil.ct import read_report

    results = ResultSet.load(scans)
    found = results.prediction
    for number, name in enumerate(found.ids):
        file = scans / "reports" / f"{hashlib.sha256(str(name).encode()).hexdigest()[:16]}.dcm"
        table, rows = read_report(file), results.instances_of(number)
        scan = table.iloc[0]
        assert (scan["prob"], scan["std"]) == (found.prob[number], found.std[number])
        assert (scan["low"], scan["high"]) == (found.lower[number], found.upper[number])
        assert scan["called"] == bool(found.label[number])
        np.testing.assert_array_equal(table["prob"][1:], found.instance_prob[rows])
        np.testing.assert_array_equal(table["std"][1:], found.instance_std[rows])
        np.testing.assert_array_equal(table["called"][1:], found.instance_label[rows])
        assert (scan["novelty"], scan["reason"]) == (found.novelty[number], found.reason[number])
        np.testing.assert_array_equal(table["novelty"][1:], found.instance_novelty[rows])


def test_pages_equal_the_results_file(run, tmp_path):
    pytest.importorskip("fastapi")
    from psimil.viewer.feedback_store import FeedbackStore
    from psimil.viewer.state import ViewerState
    from viewed import Browser

    results = ResultSet.load(run)
    found = results.prediction
    viewed = ViewerState(results, FeedbackStore(tmp_path))
    browser = Browser(viewed)
    listed = {row["key"]: row for row in browser.get("/api/bags", params={"limit": 500}).json()["bags"]}
    names = ("probability", "std", "lower", "upper", "log_odds")
    instances = numbers_of(found, "instance")
    for number, key in enumerate(viewed.keys):
        expected = numbers_of(found, "bag")[number].tolist()
        answer = browser.get(f"/api/bags/{key}").json()
        for row in (listed[key], answer):
            assert [row[name] for name in names] == expected
            assert (row["called"], row["refer"]) == (found.label[number], found.refer[number])
            assert row["truth"] == results.truth[number]
            assert (row["reason"], row["novelty"]) == (found.reason[number], found.novelty[number])
        novelty = found.instance_novelty[results.instances_of(number)].tolist()
        assert [row["novelty"] for row in answer["instances"]] == novelty
        shown = [[row[name] for name in names] for row in answer["instances"]]
        assert shown == instances[results.instances_of(number)].tolist()
