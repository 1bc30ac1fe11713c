"""``psimil ct``: index, train (resumed after a kill), predict, phantom, demo; and what must never be seen."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydicom import dcmread
from pydicom.uid import RLELossless

pytest.importorskip("torch")

from commands import ROOT, call, fails
from ct_files import uid_of, write_series
from ct_studies import FEW, SLICES, write_studies
from psimil.cli.ct_predict import _heat
from psimil.cli.view import _viewed
from psimil.foundations.errors import DataWarning
from psimil.results.result_set import ResultSet


@pytest.fixture(autouse=True)
def key(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("PSIMIL_ID_KEY_FILE", str(tmp_path_factory.getbasetemp() / "id.key"))


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return write_studies(tmp_path_factory.mktemp("ct"))


def train(studies, out, *more):
    return call("ct", "train", studies, "--labels", studies.parent / "scans.csv", "--out", out, *FEW, *more)


@pytest.fixture(scope="module")
def model(studies, tmp_path_factory):
    os.environ["PSIMIL_ID_KEY_FILE"] = str(tmp_path_factory.getbasetemp() / "id.key")
    out = tmp_path_factory.mktemp("trained") / "model"
    done = train(studies, out)
    assert done.exit_code == 0, done.output
    return out


def test_index_shows_studies_and_problems_without_ids(studies, tmp_path):
    write_series(tmp_path / "a", 30, spacing=4.0, size=16)
    (tmp_path / "a" / "cut.dcm").write_bytes((tmp_path / "a" / "001.dcm").read_bytes()[:200])
    done = call("ct", "index", tmp_path)
    assert done.exit_code == 0, done.output
    assert "1 studies, 1 series; 1 of them are read" in done.stdout
    assert "axial CT" in done.stdout and re.search(r" 30 +4 +yes$", done.stdout, re.MULTILINE)
    assert "file 31:" in done.stdout and "Files are counted by name in their folder, from 1." in done.stdout
    assert "Canary" not in done.output and uid_of("study") not in done.output
    found = json.loads(call("ct", "index", studies, "--json", "--show-ids").stdout)
    assert {row["study"] for row in found["series"]} == {uid_of(f"study 0 {n}") for n in range(12)}
    assert all(row["slices"] == SLICES and row["read"] == "yes" for row in found["series"])
    assert all(row["thickness"].endswith(" mm") and row["coverage"].endswith(" mm") for row in found["series"])
    done = call("ct", "index", studies, "--out", tmp_path / "run", "--quiet")
    assert len(pd.read_csv(tmp_path / "run" / "series.csv")) == 12
    fails(call("ct", "index", tmp_path / "none"), 66)


def test_a_folder_of_nifti_files_says_where_they_are_read(tmp_path):
    for name in ("a.nii", "b.nii.gz"):
        (tmp_path / name).write_bytes(b"volume")
    fails(call("ct", "index", tmp_path), 65, "no CT study was found", "2 NIfTI", "psimil.ct.read_series(file)")


def test_the_table_of_a_folder_fits_80_columns_without_folded_ids(tmp_path):
    write_series(tmp_path / "a", 12, size=16)
    write_series(tmp_path / "b", 1, size=16, study="s2", series="s2", ImageType=["DERIVED", "SECONDARY"])
    rows = json.loads(call("ct", "index", tmp_path, "--json").stdout)["series"]
    assert "secondary capture" in {row["kind"] for row in rows}
    lines = call("ct", "index", tmp_path).stdout.splitlines()
    table = lines[1 : 3 + len(rows)]
    assert max(map(len, table)) <= 80
    assert all(any(row["study"] in line and row["series"] in line for line in table) for row in rows)


def test_train_then_predict(studies, model, tmp_path):
    names = {"cnn.safetensors", "model.safetensors", "config.json", "environment.json", "failures.csv", "history.csv"}
    assert {path.name for path in model.iterdir()} == names | {"scans.csv", "series.csv", "summary.md"}
    assert "Research use only" in (model / "summary.md").read_text()
    done = call(
        "ct", "predict", studies, "--model", model, "--out", tmp_path / "run", "--figures", 1, "--json",
        "--truth", studies.parent / "truth.csv", drawn=True,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["scans"], facts["slices"], facts["reports"], facts["failures"]) == (12, 12 * SLICES, 12, 0)
    assert 0 <= facts["scores"]["slices"]["auc"] <= 1
    bags = pd.read_csv(tmp_path / "run" / "bags.csv", dtype={"bag": str})
    assert bags["bag"].str.fullmatch("[0-9a-f]{16}").all()
    assert len(list((tmp_path / "run" / "reports").iterdir())) == 12
    assert "Research use only" in (tmp_path / "run" / "summary.md").read_text()


def test_heat_maps_are_written_when_asked_for(studies, model, tmp_path):
    ways = {"plain": (), "heat": ("--heat", "--reports", "strips")}
    for name, more in ways.items():
        done = call(
            "ct", "predict", studies, "--model", model, "--out", tmp_path / name, "--figures", 12, *more, drawn=True
        )
        assert done.exit_code == 0, done.output
    assert "Heat maps of " in done.stdout and "psimil view" in done.stdout
    plain, warm = (ResultSet.load(tmp_path / name) for name in ways)
    assert plain.heat is None and warm.heat.shape == warm.images.shape
    called = warm.prediction.instance_label == 1
    assert called.any() and not warm.heat[~called].any()
    lit = [bool(warm.heat[warm.instances_of(bag)].any()) for bag in range(len(warm))]
    assert any(lit) and all(warm.heat[warm.instances_of(bag)].max() in (0, 255) for bag in range(len(warm)))
    order = warm.by_probability().tolist()
    drawn = {path.stem for path in (tmp_path / "heat" / "figures").glob("heat-*.png")}
    assert drawn == {f"heat-{place:03d}" for place, bag in enumerate(order, 1) if lit[bag]}
    assert not list((tmp_path / "plain" / "figures").glob("heat-*"))
    sheets = list((tmp_path / "heat" / "strips").glob("*-heat.dcm"))
    assert len(sheets) == sum(lit) and len(list((tmp_path / "heat" / "strips").iterdir())) == 12 + sum(lit)
    for name in ("bags.csv", "instances.csv"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "heat" / name).read_bytes()
    first = pd.read_csv(next((tmp_path / "heat" / "figures").glob("heat-*.csv")))
    assert first["predicted"].all() and (first["slice"] == first["instance"] + 1).all()


def test_that_there_is_no_heat_map_is_said():
    assert _heat(None) == [] and _heat(0)[0].startswith("No heat map: ")


def test_the_same_training_is_not_done_twice_and_another_is_refused(studies, model, tmp_path):
    before = (model / "model.safetensors").stat().st_mtime_ns
    done = train(studies, model)
    assert done.exit_code == 0 and "holds this training, finished" in done.stdout
    assert (model / "model.safetensors").stat().st_mtime_ns == before
    fails(train(studies, model, "--seed", 3), 74, "seed was 0", "--overwrite")
    other = tmp_path / "labels.csv"
    other.write_text((studies.parent / "scans.csv").read_text() + "another,1\n")
    done = call("ct", "train", studies, "--labels", other, "--out", model, *FEW)
    fails(done, 74, "labels was", "--overwrite")
    fails(call("ct", "train", studies, "--labels", tmp_path / "none.csv", "--out", model, *FEW), 66, "none.csv")
    fails(train(studies, tmp_path / "new", "--windows", "brain"), 65, "name:level/width")


def test_no_command_writes_over_what_it_reads_or_over_a_model(studies, model, tmp_path):
    """Nothing of the model goes, whichever command is told to overwrite it."""

    def content():
        return {path.relative_to(model): path.read_bytes() for path in model.rglob("*") if path.is_file()}

    before = content()
    over = ("--out", model, "--overwrite")
    fails(call("ct", "predict", studies, "--model", model, "--reports", "none", *over), 74, "training or an experiment")
    fails(call("ct", "index", studies, *over), 74, "training or an experiment")
    done = call("ct", "train", studies, "--labels", model / "scans.csv", *over, *FEW)
    fails(done, 74, "scans.csv, which is read, lies in it")
    fails(call("ct", "index", studies, "--out", studies.parent, "--overwrite"), 74)
    assert content() == before


def test_a_series_that_no_study_has_is_refused(studies, model, tmp_path):
    fails(call("ct", "index", studies, "--series", "nope"), 65, 'no study has the series "nope"')
    done = call("ct", "predict", studies, "--model", model, "--out", tmp_path / "run", "--series", "nope")
    fails(done, 65, 'no study has the series "nope"')
    assert not (tmp_path / "run").exists()


def test_bad_scans_are_listed_in_failures(studies, model, tmp_path):
    write_series(tmp_path / "scans" / "good", SLICES, spacing=20.0, study="good")
    for path in write_series(tmp_path / "scans" / "bad", SLICES, spacing=20.0, study="bad")[:1]:
        path.write_bytes(path.read_bytes()[:-100])
    done = call("ct", "predict", tmp_path / "scans", "--model", model, "--out", tmp_path / "run", "--json")
    assert json.loads(done.stdout)["failures"] == 1
    reason = pd.read_csv(tmp_path / "run" / "failures.csv")["reason"][0]
    assert "pixel data has" in reason and str(tmp_path) not in reason
    done = call("ct", "predict", tmp_path / "scans", "--model", model, "--out", tmp_path / "two", "--skip-bad")
    assert "incomplete 5/6" in (tmp_path / "two" / "bags.csv").read_text()


def test_reasons_of_failures_are_ours_and_told_once(studies, model, tmp_path):
    """They hold nothing of the files, no scan twice, and no advice that was followed."""
    scans = tmp_path / "scans"
    write_series(scans / "good", SLICES, spacing=20.0, study="good")
    for name, tags in (("scout", {"ImageType": ["ORIGINAL", "PRIMARY", "LOCALIZER"]}), ("odd", {}), ("cut", {})):
        for path in write_series(scans / name, SLICES, spacing=20.0, study=name, **tags):
            if name == "odd":
                dataset = dcmread(path)
                dataset.compress(RLELossless, generate_instance_uid=False)
                dataset.save_as(path)
                path.write_bytes(path.read_bytes().replace(RLELossless.encode() + b"\0", b"1.2.840.10008.1.2.ME"))
            elif name == "cut":
                path.write_bytes(path.read_bytes()[:-100])
    done = call("ct", "predict", scans, "--model", model, "--out", tmp_path / "run", "--skip-bad")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "run" / "failures.csv")
    assert len(table) == 3
    for scan, reason in zip(table["bag"], table["reason"], strict=True):
        assert scan not in reason and ".ME" not in reason and "skip" not in reason
        assert all(reason.count(words) <= 1 for words in ("pixel data", "axial series", "compression"))
    done = call("ct", "index", scans)
    assert f"study {table['bag'][0]}: no axial series; the study has: scout." in " ".join(done.output.split())


def test_phantom_files_are_read_by_the_index(tmp_path):
    done = call("ct", "phantom", tmp_path / "out", "--scans", 2, "--size", 32, "--lesions", 2, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert len(pd.read_csv(facts["labels"])) == 2
    found = json.loads(call("ct", "index", facts["studies"], "--json").stdout)
    assert sum(row["read"] == "yes" for row in found["series"]) == 2


def test_demo_runs_from_files_to_scores(tmp_path, monkeypatch):
    from psimil.ct.phantom import trial as demo

    monkeypatch.setattr(demo, "PIXELS", 32)
    monkeypatch.setattr(demo, "SIZE", 16)
    monkeypatch.setattr(demo, "EPOCHS", 1)
    monkeypatch.setattr(demo, "INDUCING", 8)
    monkeypatch.chdir(tmp_path)
    done = call("ct", "demo", "--out", "my demo", "--train", 8, "--test", 4)
    assert done.exit_code == 0, done.output
    assert "slice AUC, Gaussian process" in done.stdout
    scores = pd.read_csv(tmp_path / "my demo" / "scores.csv").set_index("score")["value"]
    assert len(scores) == 15 and "nan" not in done.stdout
    assert {"slice AUC within scans, middle of the scan", "localisation error in mm, Gaussian process"} <= set(
        scores.index
    )
    apart = [name for name in scores.index if name.endswith("Gaussian process without links between slices")]
    assert len(apart) == 4 and scores[apart].between(0, 1).all()
    assert len(list((tmp_path / "my demo" / "figures").glob("*.png"))) == 4
    line = next(line for line in done.stdout.splitlines() if line.startswith("  ") and " view " in line)
    verb, results, option, dicom = shlex.split(line)[-4:]
    assert (verb, option) == ("view", "--dicom")
    shown = _viewed(Path(results), Path(dicom), show_ids=False)
    assert [shown.slice(number, 0).shape for number in range(4)] == [(32, 32)] * 4  # whole slices, not thumbnails


def test_the_viewer_finds_scans_whether_their_ids_are_hashes_or_not(studies, model, tmp_path):
    for ids in ([], ["--show-ids"]):
        out = tmp_path / f"run{len(ids)}"
        done = call("ct", "predict", studies, "--model", model, "--out", out, "--figures", 0, "--reports", "none", *ids)
        assert done.exit_code == 0, done.output
        assert _viewed(out, studies, show_ids=False).slice(0, 0).shape == (32, 32)
    (tmp_path / "empty").mkdir()
    with pytest.warns(DataWarning, match=r"^12 of 12 scans are not in the folder of --dicom and are shown as thumbn"):
        assert _viewed(out, tmp_path / "empty", show_ids=False).slice(0, 0) is None


def killed_after(command, environment, seconds):
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_killed_training_resumes_to_the_same_bytes(studies, tmp_path):
    """Bar of the feature: 20 kills at random moments."""
    settings = ["--size", "24", "--epochs", "12", "--n-inducing", "8", "--n-features", "4"]
    command = [
        sys.executable,
        "-m",
        "psimil",
        "ct",
        "train",
        str(studies),
        "--labels",
        str(studies.parent / "scans.csv"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    subprocess.run([*command, "--out", str(tmp_path / "whole"), *settings], env=environment, check=True)
    whole = time.monotonic() - started
    out = tmp_path / "killed"
    moments = np.random.default_rng(0).uniform(0.05, 1.0, 20) * whole
    for moment in moments:
        killed_after([*command, "--out", str(out), *settings], environment, moment)
    subprocess.run([*command, "--out", str(out), *settings], env=environment, check=True)
    for name in ("cnn.safetensors", "model.safetensors", "history.csv", "scans.csv", "summary.md"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert not any(path.name.endswith(".tmp") for path in out.iterdir())


# What goes to an archive


def test_the_finding_is_that_of_the_label_file_and_doubts_are_said(studies, tmp_path):
    rows = (studies.parent / "scans.csv").read_text().splitlines()[1:]
    labels = tmp_path / "labels.csv"
    labels.write_text("\n".join(["scan,label: SCT:36118008:Pneumothorax; LN:24627-2:CT Chest", *rows]) + "\n")
    done = call("ct", "train", studies, "--labels", labels, "--out", tmp_path / "model", *FEW, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["finding"] == "Pneumothorax (SCT 36118008)" and 0 <= facts["out_of_bag_auc"] <= 1
    assert "12 scans, 6 of the rarer label, are few" in done.stderr
    assert ("chance" in done.stderr) == (min(facts["out_of_bag_auc"], facts["validation_auc"]) < 0.6)
    out = ("--out", tmp_path / "run", "--figures", 1, "--reports", "sr,keys,strips")
    done = call("ct", "predict", studies, "--model", tmp_path / "model", *out, drawn=True)
    assert "Finding: Pneumothorax (SCT 36118008)." in done.stdout
    reports = [dcmread(path) for path in sorted((tmp_path / "run" / "reports").iterdir())]
    assert all("Pneumothorax" in str(one) and "hemorrhage" not in str(one) and not one.PatientName for one in reports)
    assert len(list((tmp_path / "run" / "strips").iterdir())) == 1
    labels.write_text("\n".join(["scan,label", *(f"{row.split(',')[0]},1" for row in rows)]) + "\n")
    done = call("ct", "train", studies, "--labels", labels, "--out", tmp_path / "one", *FEW)
    fails(done, 65, "all scans have the label 1", "both labels")


def test_a_rerun_makes_the_same_uids_and_identify_names_the_patient(studies, model, tmp_path):
    def uids(name, *more):
        call("ct", "predict", studies, "--model", model, "--out", tmp_path / name, "--figures", 0, *more)
        files = [path for path in sorted((tmp_path / name).rglob("*.dcm"))]
        return {path.relative_to(tmp_path / name): dcmread(path) for path in files}

    one, two = uids("one"), uids("two")
    assert {name: found.SOPInstanceUID for name, found in one.items()} == {
        name: found.SOPInstanceUID for name, found in two.items()
    }
    assert len({found.SOPInstanceUID for found in one.values()}) == len(one) >= 12
    named = uids("named", "--identify")
    assert {str(found.PatientName) for found in named.values()} == {"Canary^Bird"}
    assert not {found.SOPInstanceUID for found in named.values()} & {found.SOPInstanceUID for found in one.values()}
    done = call("ct", "predict", studies, "--model", model, "--out", tmp_path / "x", "--identify", "--figures", 0)
    assert "name the patient" in done.stderr
    fails(call("ct", "predict", studies, "--model", model, "--out", tmp_path / "y", "--reports", "pdf"), 2, "'pdf'")
