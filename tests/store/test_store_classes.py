"""Stores keep the names of their classes, and commands do not mix them up."""

import json

import pytest

from commands import QUICK, call, fails, frame_of
from psimil.foundations.errors import InputError
from psimil.store import import_bags, open_store, read_manifest
from psimil.store.tables import read_bags


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    frame = frame_of(n_bags=20)
    frame["label"] = frame["label"].map({0: "normal", 1: "tumor_tissue"})
    frame.to_csv(folder / "text.csv", index=False)
    for name, positive in (("right", "tumor_tissue"), ("wrong", "normal")):
        import_bags(folder / "text.csv", folder / name, positive=positive)
    done = call("fit", folder / "text.csv", "--positive", "tumor_tissue", "--out", folder / "run", *QUICK)
    assert done.exit_code == 0, done.output
    return folder


def test_a_store_knows_its_classes(files):
    assert open_store(files / "right").table().classes == ("normal", "tumor_tissue")
    assert read_manifest(files / "wrong").classes == ("tumor_tissue", "normal")
    assert (open_store(files / "right").y == read_bags(files / "text.csv", positive="tumor_tissue").y).all()


def test_labels_0_and_1_are_stored_as_1_0_0_did(tmp_path):
    frame_of(n_bags=4).to_csv(tmp_path / "bags.csv", index=False)
    import_bags(tmp_path / "bags.csv", tmp_path / "store")
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert manifest["version"] == 1 and "classes" not in manifest


def test_scores_are_not_turned_around(files):
    right = json.loads(call("evaluate", files / "run", files / "right", "--json").stdout)
    table = json.loads(call("evaluate", files / "run", files / "text.csv", "--json").stdout)
    assert right["bags"]["auc"] == pytest.approx(table["bags"]["auc"], abs=0.02)
    fails(call("evaluate", files / "run", files / "wrong"), 65, "'tumor_tissue' and 'normal' (positive)")


def test_nothing_is_appended_with_other_classes(files, tmp_path):
    frame = frame_of(n_bags=4).assign(bag=lambda f: "x" + f["bag"].astype(str), label="healthy")
    frame.loc[frame["bag"] == frame["bag"].iloc[0], "label"] = "tumor_tissue"
    frame.to_csv(tmp_path / "more.csv", index=False)
    with pytest.raises(InputError, match="the labels of the store are 'normal' and 'tumor_tissue'"):
        import_bags(tmp_path / "more.csv", files / "right", positive="tumor_tissue", append=True)


def test_a_model_of_a_store_reads_the_table_behind_it(files, tmp_path):
    assert call("fit", files / "right", "--out", tmp_path / "run", *QUICK).exit_code == 0
    assert call("evaluate", tmp_path / "run", files / "text.csv").exit_code == 0


@pytest.mark.parametrize("labels", ["", "0", "yes"])
def test_a_prediction_needs_no_labels(files, tmp_path, labels):
    frame_of(n_bags=4).assign(label=labels).to_csv(tmp_path / "new.csv", index=False)
    done = call("predict", files / "run", tmp_path / "new.csv", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert ("labels are not used" in done.stderr) == bool(labels)
    fails(call("evaluate", files / "run", tmp_path / "new.csv"), 65)


def test_a_prediction_does_not_replace_its_model(files):
    model = files / "run" / "model.safetensors"
    for given in (files / "run", model):
        done = call("predict", given, files / "text.csv", "--out", files / "run", "--overwrite")
        fails(done, 2, "is the run of the model, which would be replaced")
    assert model.exists()


@pytest.mark.parametrize("numbers", [False, True])
def test_a_fit_takes_the_positive_class_of_its_store(files, tmp_path, numbers):
    """Also where it is not the greater of the two labels, which a fit would take by itself."""
    table, store, positive = files / "text.csv", files / "wrong", "normal"
    if numbers:
        table, store, positive = tmp_path / "bags.csv", tmp_path / "store", "0"
        frame_of(n_bags=20).to_csv(table, index=False)
        import_bags(table, store, positive=positive)
    runs = {"a": (store, []), "b": (table, ["--positive", positive]), "c": (store, ["--positive", positive])}
    for name, (source, more) in runs.items():
        done = call("fit", source, "--out", tmp_path / name, *more, *QUICK)
        assert done.exit_code == 0, done.output
    a, b, c = (json.loads((tmp_path / name / "metrics.json").read_text())["out_of_bag"]["bags"] for name in runs)
    assert a == c == pytest.approx(b, abs=1e-3)  # a store has float32
    again = call("fit", store, "--out", tmp_path / "d", "--config", tmp_path / "a" / "config.toml", *QUICK)
    assert again.exit_code == 0, again.output
    fails(call("fit", store, "--out", tmp_path / "e", "--positive", "other", *QUICK), 65, "whose positive class is")


def test_a_store_keeps_the_column_of_its_bags_while_its_parts_agree(tmp_path):
    frame_of(n_bags=4).rename(columns={"bag": "scan"}).to_csv(tmp_path / "bags.csv", index=False)
    assert import_bags(tmp_path / "bags.csv", tmp_path / "store", bag="scan").bag_column == "scan"
    for number, (bag, kept) in enumerate((("scan", "scan"), ("bag", None), ("scan", None))):
        more = frame_of(n_bags=4).rename(columns={"bag": bag})
        more.assign(**{bag: f"{number} " + more[bag].astype(str)}).to_csv(tmp_path / "more.csv", index=False)
        import_bags(tmp_path / "more.csv", tmp_path / "store", bag=bag, append=True)
        assert read_manifest(tmp_path / "store").bag_column == kept
