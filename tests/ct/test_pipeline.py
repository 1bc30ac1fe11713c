"""From studies to predictions: cohort, labels, pipeline, tables, figures and reports of one prediction."""

import shutil
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from ct_files import uid_of, write_series, write_slice
from ct_studies import SLICES, write_studies
from psimil import VGPMIL
from psimil.ct import Cohort, CTPipeline, Slices, index_folder, read_report, read_series
from psimil.ct.report.run_files import write_results
from psimil.ct.report.scan_results import RESEARCH, CTResults, _heat, predict_cohort
from psimil.ct.report.slice_truth import slice_truth, truth_scores
from psimil.ct.scans.cohort import Failure, ReadingRules
from psimil.ct.scans.label_file import read_slice_labels
from psimil.ct.scans.scan_labels import ScanLabels
from psimil.ct.scans.training_set import read_training_set
from psimil.ct.scans.windows import BRAIN, WINDOWS
from psimil.files.rundir import opened
from psimil.foundations.errors import DataWarning, InputError, MissingFile, ModelFileError, NotFitted
from psimil.results.feedback import Feedback, write_feedback

NOW = datetime(2026, 1, 2, 3, 4, 5)


def cohort_of(folder):
    return Cohort.of(index_folder(folder, hasher=str.lower).studies)


def few(**parameters):
    settings = {"n_features": 4, "size": 16, "epochs": 2, "gp": VGPMIL(n_inducing=8, random_state=0)}
    return CTPipeline(**(settings | parameters))


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return write_studies(tmp_path_factory.mktemp("ct"))


@pytest.fixture(scope="module")
def trained(studies):
    found = read_training_set(cohort_of(studies), studies.parent / "scans.csv", size=16)
    return few().fit(found.slices, found.y), found


@pytest.fixture(scope="module")
def results(studies, trained):
    truth = read_slice_labels(studies.parent / "truth.csv")
    return predict_cohort(trained[0], cohort_of(studies), truth=truth)


def test_a_training_set_has_the_scans_with_labels(studies, tmp_path):
    found = read_training_set(cohort_of(studies), studies.parent / "scans.csv", size=16)
    assert found.failures == []
    assert sorted(found.y) == [0] * 6 + [1] * 6
    names = dict(zip([part.id for part in found.slices], found.y, strict=True))
    assert names == {uid_of(f"study 0 {n}"): n % 2 for n in range(12)}
    assert found.slices[0].images.shape == (SLICES, 3, 16, 16)
    some = ScanLabels("scans", {"3": 1, "4": 0})  # by the names of their folders
    with pytest.warns(DataWarning, match="10 of 12 scans have no label"):
        part = read_training_set(cohort_of(studies), some, size=16)
    assert part.y.tolist() == [1, 0]
    assert [failure.reason for failure in part.failures] == ["the label file has no row for it."] * 10
    with pytest.raises(InputError, match="no label matches any of the 12 scans"):
        read_training_set(cohort_of(studies), ScanLabels("scans", {"elsewhere": 1}), size=16)


def test_a_scan_that_cannot_be_read_is_listed_and_the_others_go_on(studies, tmp_path):
    folder = tmp_path / "scans"
    shutil.copytree(studies, folder)
    bad = sorted((folder / "5").iterdir())[2]
    bad.write_bytes(bad.read_bytes()[:-500])
    (folder / "scout").mkdir()
    write_slice(folder / "scout" / "1.dcm", study="scout", ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
    cohort = cohort_of(folder)
    assert len(cohort) == 12
    assert [failure.scan for failure in cohort.failures] == [uid_of("scout")]
    assert "no axial series" in cohort.failures[0].reason
    found = read_training_set(cohort, studies.parent / "scans.csv", size=16)
    assert len(found.slices) == 11
    assert [failure.scan for failure in found.failures] == [uid_of("scout"), uid_of("study 0 5")]
    assert "1 of 6 slices cannot be read. file 3:" in found.failures[1].reason
    items = list(replace(cohort, rules=ReadingRules(skip_bad=True)).read(size=16))
    assert not any(isinstance(item, Failure) for item in items)
    assert "incomplete 5/6" in next(item for item in items if item.id == uid_of("study 0 5")).notes


def test_readers_correct_the_labels_of_scans_and_slices(studies, tmp_path):
    found = read_training_set(cohort_of(studies), studies.parent / "scans.csv", size=16)
    negative, positive = int(np.flatnonzero(found.y == 0)[0]), int(np.flatnonzero(found.y == 1)[0])
    said = [
        Feedback(str(found.slices[negative].id), None, "disagree", "", 0, ""),
        Feedback(str(found.slices[positive].id), 2, "disagree", "", 1, ""),
    ]
    write_feedback(tmp_path / "feedback.csv", said)
    told = found.corrected(tmp_path / "feedback.csv")
    assert told.y[negative] == 1 and (np.delete(told.y, negative) == np.delete(found.y, negative)).all()
    place = sum(len(part) for part in found.slices[:positive]) + 2
    assert told.known[place] == 0 and (np.delete(told.known, place) == -1).all()
    again = few().fit(told.slices, told.y, told.known)
    assert again.gp_.label_posterior_[place] == 0.0
    write_feedback(tmp_path / "other.csv", [replace(said[0], bag="elsewhere")])
    with pytest.raises(InputError, match="not in the table"):
        found.corrected(tmp_path / "other.csv")


def test_a_folder_without_studies_says_so(tmp_path):
    (tmp_path / "notes").write_text("no image")
    with pytest.raises(InputError, match="no CT study was found; 1 files cannot be read"):
        Cohort.of(index_folder(tmp_path, hasher=str))


def test_the_series_of_a_study_can_be_named(tmp_path):
    for series, n in (("thick", 20), ("thin", 60)):
        write_series(tmp_path / series, n, spacing=100 / n, series=series, size=16)
    studies = index_folder(tmp_path, hasher=str).studies
    assert Cohort.of(studies).chosen[0].n_slices == 20
    assert Cohort.of(studies, ReadingRules(thickness=1.5)).chosen[0].n_slices == 60
    named = next(part.id for part in studies[0].series if part.n_slices == 60)
    assert Cohort.of(studies, ReadingRules(series=(named,))).chosen[0].reason == f"series {named} was asked for."


def test_paths_scans_and_slices_predict_the_same(studies, trained):
    pipeline, _ = trained
    paths = [studies / str(n) for n in range(3)]
    scans = [read_series(path, hasher=str) for path in paths]
    slices = [Slices.of(scan, WINDOWS, 16) for scan in scans]
    expected = pipeline.predict_dist(slices)
    for same in (map(str, paths), scans):
        np.testing.assert_array_equal(pipeline.predict_dist(same).instance_prob, expected.instance_prob)
    np.testing.assert_array_equal(pipeline.predict_proba(slices)[:, 1], expected.prob)
    np.testing.assert_array_equal(pipeline.predict(slices), expected.label)
    with pytest.raises(InputError, match="was windowed in another way"):
        pipeline.predict([Slices.of(scans[0], (BRAIN,), 16)])
    with pytest.raises(InputError, match="scans must be Scan, Slices or paths, got int"):
        pipeline.predict([3])
    with pytest.raises(InputError, match="there are no scans"):
        pipeline.predict([])


def test_a_saved_pipeline_predicts_the_same_and_its_files_belong_together(tmp_path, trained):
    pipeline, found = trained
    pipeline.save(tmp_path / "one")
    again = CTPipeline.load(tmp_path / "one")
    np.testing.assert_array_equal(again.predict_dist(found.slices).prob, pipeline.predict_dist(found.slices).prob)
    assert again.gp_.feature_fingerprint == pipeline.extractor_.fingerprint_
    few(random_state=1, epochs=1).fit(found.slices, found.y).save(tmp_path / "two")
    shutil.copy(tmp_path / "two" / "cnn.safetensors", tmp_path / "one" / "cnn.safetensors")
    with pytest.raises(ModelFileError, match="features of another CNN"):
        CTPipeline.load(tmp_path / "one")
    with pytest.raises(NotFitted):
        few().predict(found.slices)


def test_joint_training_changes_the_network_and_its_fingerprint_travels(trained):
    pipeline, found = trained
    tuned = few(joint_epochs=1).fit(found.slices, found.y)
    assert [record.epoch for record in tuned.joint_history_] == [0, 1]
    assert tuned.gp_.feature_fingerprint == tuned.extractor_.fingerprint_
    if tuned.joint_history_[1].validation > tuned.joint_history_[0].validation:
        assert tuned.extractor_.fingerprint_ != pipeline.extractor_.fingerprint_


def test_joint_training_is_that_of_independent_slices_which_are_linked_in_the_last_fit(trained):
    _, found = trained
    one, two = (
        few(joint_epochs=1, gp=VGPMIL(n_inducing=8, labels=labels, random_state=0)).fit(found.slices, found.y)
        for labels in ("independent", "chain")
    )
    assert one.joint_history_ == two.joint_history_
    assert one.extractor_.fingerprint_ == two.extractor_.fingerprint_
    assert two.gp_.labels == "chain" and two.gp_.model_.coupling > 0 == one.gp_.model_.coupling


def test_scans_that_do_not_count_as_analysed_have_no_heat_map(studies, trained):
    pipeline, cohort = trained[0], cohort_of(studies)
    found = predict_cohort(pipeline, cohort, heat=True)
    called = found.prediction.instance_label == 1
    assert called.any() and all(maps.shape == (SLICES, 16, 16) for maps in found.heat)
    assert not np.concatenate(found.heat)[~called].any()
    elsewhere = replace(pipeline.purpose_, regions=("CHEST",))
    slices = [replace(scan, region="HEAD") for scan in found.slices]
    unseen = CTResults(slices, found.prediction, purpose=elsewhere)
    assert all(map(unseen.obstacle, range(12)))
    assert not np.concatenate(_heat(pipeline, unseen)).any() and np.concatenate(_heat(pipeline, found)).any()


def test_what_is_shown_knows_the_series_that_were_read(studies, results):
    assert results.result_set().series == tuple(series.id for series in cohort_of(studies).chosen)
    assert CTResults(results.slices, results.prediction).result_set().series == ("",) * 12


def test_tables_figures_and_reports_show_the_same_numbers(tmp_path, results, sketches):
    with opened(tmp_path / "run") as run:
        run.start({})
        assert write_results(run, results, figures=2, now=NOW) == []
        run.finish()
    bags = pd.read_csv(tmp_path / "run" / "bags.csv", dtype={"bag": str})
    rows = pd.read_csv(tmp_path / "run" / "instances.csv", dtype={"bag": str})
    found = results.prediction
    np.testing.assert_array_equal(bags["prob"], found.prob)
    np.testing.assert_array_equal(rows["std"], found.instance_std)
    np.testing.assert_array_equal(rows["position_mm"], np.tile(20.0 * np.arange(SLICES), 12))
    np.testing.assert_array_equal(rows["y"], results.truth)
    np.testing.assert_array_equal(rows["instance"], np.tile(np.arange(SLICES), 12))
    np.testing.assert_array_equal(rows["slice"], rows["instance"] + 1)  # as in the viewer and in the reports
    assert pd.read_csv(tmp_path / "run" / "figures" / "scan-001.csv")["slice"].tolist() == [*range(1, SLICES + 1)]
    assert set(bags["use"]) == {RESEARCH}
    reports = {frame["sop_instance_uid"][1]: frame for frame in map(read_report, (tmp_path / "run/reports").iterdir())}
    assert len(reports) == 12
    for number, part in enumerate(results.slices):
        frame = reports[part.sources[0].sop_instance_uid]
        assert frame["prob"][0] == found.prob[number]
        assert (frame["low"][0], frame["high"][0]) == (found.lower[number], found.upper[number])
        np.testing.assert_array_equal(frame["prob"][1:], found.split(found.instance_prob)[number])
        np.testing.assert_array_equal(frame["called"][1:], found.split(found.instance_label)[number])
    drawn = sorted(path.name for path in (tmp_path / "run" / "figures").iterdir())
    assert drawn == [f"scan-00{n}.{kind}" for n in (1, 2) for kind in ("csv", "pdf", "png")]
    strip = pd.read_csv(tmp_path / "run" / "figures" / "scan-001.csv")
    first = int(np.argmax(found.log_odds))
    np.testing.assert_array_equal(strip["prob"], found.split(found.instance_prob)[first])
    np.testing.assert_array_equal(strip["truth"], found.split(results.truth)[first])


def test_burned_in_text_gets_no_report(tmp_path, studies, trained):
    write_series(tmp_path / "scan", SLICES, spacing=20.0, BurnedInAnnotation="YES")
    results = predict_cohort(trained[0], cohort_of(tmp_path))
    with opened(tmp_path / "run") as run:
        run.start({})
        refused = write_results(run, results, figures=0, now=NOW)
        run.finish()
    assert "BurnedInAnnotation" in refused[0].reason
    assert list((tmp_path / "run").glob("reports/*")) == []


def test_truth_scores_are_those_of_the_tables(results):
    found, truth = results.prediction, results.truth.copy()
    assert str(results.facts()["scores"]) == str(truth_scores(found, truth))  # not a number, where none is wrong
    truth[::7] = 1 - truth[::7]  # so that some slices are wrong
    scores = truth_scores(found, truth)
    wrong = found.instance_label != truth
    assert scores["wrong_slices"] == wrong.sum() > 0
    pairs = found.instance_std[wrong][:, None] - found.instance_std[~wrong]
    assert scores["uncertainty_auc"] == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    areas = []
    for start, stop in pairwise(found.offsets):
        one, other = (found.instance_log_odds[start:stop][truth[start:stop] == label] for label in (1, 0))
        pairs = one[:, None] - other
        areas += [((pairs > 0) + 0.5 * (pairs == 0)).mean()] if pairs.size else []
    assert scores["auc_within_scans"] == pytest.approx(np.mean(areas))
    assert "scores" not in CTResults(results.slices, found).facts()


def test_localisation_is_in_millimetres_of_the_scan(results):
    """By hand: from the most probable slice to the nearest positive one; slices are 20 mm apart in these studies."""
    inside = results.facts()["localisation"]
    errors = []
    parts = zip(
        results.slices,
        *map(results.prediction.split, (results.prediction.instance_log_odds, results.truth)),
        strict=True,
    )
    for part, log_odds, truth in parts:
        if truth.any():
            errors.append(abs(part.positions[log_odds.argmax()] - part.positions[truth == 1]).min())
    assert inside["model"]["localisation_error"] == pytest.approx(np.mean(errors))
    gaps = np.diff(results.slices[0].positions)
    assert inside["middle"]["localisation_error"] % (gaps[0] / 4) == pytest.approx(0.0, abs=1e-6) and gaps[0] > 1
    assert (inside["unit"], inside["n_positive"]) == ("mm", len(errors)) and len(errors) > 0
    unknown = CTResults(results.slices, results.prediction)
    assert unknown.localisation() is None and "localisation" not in unknown.facts()


def test_slice_labels(tmp_path, results):
    with pytest.raises(MissingFile):
        read_slice_labels(tmp_path / "none.csv")
    for text, message in [
        ("sop_instance_uid,label\n1.2,2\n", "the label in row 1 is 2; it must be 0 or 1"),
        ("sop_instance_uid\n1.2\n", "0 or 1 in every row"),
        ("scan,label\n1.2,1\n", 'needs the columns "sop_instance_uid"'),
        ("", "not a CSV file"),
    ]:
        path = Path(tmp_path / "truth.csv")
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            read_slice_labels(path)
    path.write_text("ID,Label\nID_a_any,1\nID_a_epidural,0\n")
    assert read_slice_labels(path) == {"ID_a": 1}
    with pytest.raises(InputError, match="fit none of the slices"):
        slice_truth(results.slices, {"elsewhere": 1})
    here = results.slices[0].sources[0].sop_instance_uid
    with pytest.warns(DataWarning, match=r"^1 of 2 slice labels are of no slice that was read\.$"):
        assert slice_truth(results.slices, {here: 1, "elsewhere": 1}).sum() == 1 - (len(results.positions) - 1)


def test_a_model_that_torch_cannot_follow_is_refused_before_anything_is_read(studies, trained):
    pipeline = few(gp=VGPMIL(n_inducing=8, residual="full", posterior="augmented", random_state=0))
    pipeline.fit(trained[1].slices, trained[1].y)
    read = []
    with pytest.raises(InputError, match='torch needs residual="projected"'):
        predict_cohort(pipeline, cohort_of(studies), heat=True, progress=read.append)
    assert not read
