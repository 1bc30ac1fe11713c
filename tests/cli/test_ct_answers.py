"""``psimil ct predict``: what could not be analysed is an answer, beside other scans and alone, in every output."""

import json

import pandas as pd
import pytest
from pydicom import dcmread

pytest.importorskip("torch")

from commands import call, fails
from ct_files import uid_of, write_series
from ct_studies import FEW, SLICES, write_studies
from psimil.ct.report.structured_report import read_report
from psimil.report.calls import Words, reason_words
from psimil.results.result_set import ResultSet


@pytest.fixture(autouse=True)
def key(tmp_path, monkeypatch):
    monkeypatch.setenv("PSIMIL_ID_KEY_FILE", str(tmp_path / "id.key"))


def test_what_could_not_be_analysed_is_said_in_tables_and_reports(tmp_path):
    studies = write_studies(tmp_path / "ct")
    for place, study in enumerate(sorted(studies.iterdir())):
        for path in study.iterdir():
            dataset = dcmread(path)
            dataset.BodyPartExamined = "HEAD"
            (tmp_path / "train" / str(place)).mkdir(parents=True, exist_ok=True)
            dataset.save_as(tmp_path / "train" / str(place) / path.name)
    labels = ("--labels", studies.parent / "scans.csv")
    assert call("ct", "train", tmp_path / "train", *labels, "--out", tmp_path / "model", *FEW).exit_code == 0
    new = tmp_path / "new"
    write_series(new / "one", 1, study="one")
    write_series(new / "chest", SLICES, spacing=20.0, study="chest", BodyPartExamined="CHEST")
    for path in write_series(new / "bad", SLICES, spacing=20.0, study="bad")[:1]:
        path.write_bytes(path.read_bytes()[:-100])
    (new / "lost").mkdir()
    (new / "lost" / "1").write_bytes(bytes(200))
    assert "a single slice" in call("ct", "index", new).stdout
    done = call("ct", "predict", new, "--model", tmp_path / "model", "--out", tmp_path / "run", "--json", "--show-ids")
    facts = json.loads(done.stdout)
    assert (
        "warning: 1 files cannot be read and belong to no scan; psimil ct index lists them. The first: f" in done.stderr
    )
    assert (facts["not_analysed"], facts["failures"], facts["reports"]) == (3, 1, 3)
    obstacles = ["a single slice", "another body part", "cannot be read"]
    bags = pd.read_csv(tmp_path / "run" / "bags.csv", dtype={"bag": str}).set_index("bag")
    bags = bags.loc[[uid_of("one"), uid_of("chest")]]
    assert bags["not_analysed"].tolist() == obstacles[:2]
    found = {
        tuple(read_report(path)[["obstacle", "reason"]].values[0]) for path in (tmp_path / "run/reports").iterdir()
    }
    assert found == {(why, f"could not be analysed: {why}") for why in obstacles}
    # What could not be analysed is referred, for that reason, in every output.
    assert facts["to_refer"] == 3
    assert bags["refer"].all() and bags["reason"].tolist() == [f"could not be analysed: {why}" for why in obstacles[:2]]
    failures = pd.read_csv(tmp_path / "run" / "failures.csv")
    assert failures["refer"].tolist() == [True] and failures["reason"].str.contains("pixel data has").all()
    shown = ResultSet.load(tmp_path / "run")
    assert shown.counts()["to_refer"] == 2 and set(shown.prediction.reason) == set(bags["reason"])
    assert "1 scans" in shown.model["not read"]
    assert "could not be analysed: a single slice" in reason_words(shown.prediction, 0, Words.of("ct")) + reason_words(
        shown.prediction, 1, Words.of("ct")
    )
    said = (tmp_path / "run" / "summary.md").read_text()
    assert "3 to refer to a reader (1 could not be analysed: a single slice, 1 could not be analysed: another" in said

    # An unreadable scan alone in its folder has the same answer as beside others.
    done = call("ct", "predict", new / "bad", "--model", tmp_path / "model", "--out", tmp_path / "alone")
    fails(done, 65, "none of 1 scans can be read. The first: 1 of 6 slices", "with 1 reports, in")
    (alone,) = (tmp_path / "alone" / "reports").iterdir()
    assert read_report(alone)[["obstacle", "reason"]].values.tolist() == [
        ["cannot be read", "could not be analysed: cannot be read"]
    ]
    assert len(pd.read_csv(tmp_path / "alone" / "failures.csv")) == 1
