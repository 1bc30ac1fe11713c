"""MLflow models: what is in them and what is not; they predict what the estimator says, and refuse in our words."""

import hashlib
import json
import pickle
import socket
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from commands import call
from psimil import GVGPMIL, VGPMIL, Bags, InputError, MultiLabelMIL, PsiVGPMIL
from psimil.datasets import make_bags
from psimil.export import log_mlflow, save_mlflow
from psimil.foundations.errors import ModelFileError, NotFitted, OutputError
from psimil.model.densities import StudentT

mlflow = pytest.importorskip("mlflow")
HOW = {"n_inducing": 5, "max_iter": 2, "tol": 0.0, "random_state": 0}
NAMES = ["size", "mass"]
MODELS = {
    "default": VGPMIL(**HOW),
    "gamma": GVGPMIL(**HOW),
    "student": PsiVGPMIL(density=StudentT(), **HOW),
    "sampled": VGPMIL(posterior="sampled", **HOW),
    "drawn": VGPMIL(expectation="sample", **HOW),
    "context": VGPMIL(context="bag", **HOW),
    "chain": VGPMIL(labels="chain", **HOW),
    "calibrated": VGPMIL(calibrate=True, **HOW),
    "thresholds": VGPMIL(threshold=0.3, false_positive_rate=0.2, referral="error=0.1", **HOW),
    "single precision": VGPMIL(dtype="float32", **HOW),
    "positive": VGPMIL(positive=0, **HOW),
}


def named(bags):
    return Bags(bags.X, bags.offsets, [f"canary{b}" for b in range(len(bags))], feature_names=NAMES)


def table_of(bags, bag="bag"):
    frame = pd.DataFrame(bags.X, columns=bags.feature_names)
    frame.insert(0, bag, bags.ids[bags.bag_index])
    return frame


def written(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def data():
    bags, y, _ = make_bags(n_bags=16, n_features=2, seed=1)
    return named(bags), y


@pytest.fixture(scope="module")
def clf(data):
    return VGPMIL(**HOW).fit(*data)


@pytest.fixture(scope="module")
def folder(clf, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow") / "model"
    save_mlflow(clf, folder)
    return folder


@pytest.fixture(scope="module")
def loaded(folder):
    return mlflow.pyfunc.load_model(str(folder))


@pytest.fixture
def no_pickle_no_network(monkeypatch):
    def refused(*args, **kwargs):
        raise AssertionError("pickle or a network was asked for")

    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    for module in ("pickle", "cloudpickle"):
        for name in ("load", "loads", "dump", "dumps"):
            monkeypatch.setattr(f"{module}.{name}", refused)
    monkeypatch.setattr(pickle, "Unpickler", refused)
    monkeypatch.setattr(socket.socket, "connect", refused)


@pytest.mark.filterwarnings("ignore::psimil.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_the_estimator(name, data, tmp_path, no_pickle_no_network):
    model = MODELS[name].fit(*data)
    save_mlflow(model, tmp_path / "model")
    again = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    new = named(make_bags(n_bags=9, n_features=2, seed=2)[0])
    ours = model.predict_dist(new)
    pd.testing.assert_frame_equal(again.predict(table_of(new)), ours.to_frame(), check_exact=True)
    of_instances = again.predict(table_of(new), params={"level": "instances"})
    pd.testing.assert_frame_equal(of_instances, ours.to_frame("instance"), check_exact=True)


def test_rows_in_any_order_and_columns_in_any_order_and_more_of_them(clf, data, loaded):
    frame = table_of(data[0]).sample(frac=1.0, random_state=0).reset_index(drop=True)
    ours = clf.predict_dist(Bags.from_frame(frame))
    for given in (frame, frame[["mass", "bag", "size"]], frame.assign(label=7, hospital="north")):
        pd.testing.assert_frame_equal(loaded.predict(given), ours.to_frame(), check_exact=True)
        of_instances = loaded.predict(given, params={"level": "instances"})
        assert of_instances["bag"].tolist() == frame["bag"].tolist()
        pd.testing.assert_frame_equal(of_instances, ours.to_frame("instance"), check_exact=True)


def test_tables_are_those_of_the_command(clf, data, loaded, tmp_path):
    clf.save(tmp_path / "model.safetensors")
    frame = table_of(data[0]).sample(frac=1.0, random_state=0)
    frame.to_csv(tmp_path / "bags.csv", index=False)
    done = call("predict", tmp_path / "model.safetensors", tmp_path / "bags.csv", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    for file, level in (("bags.csv", "bags"), ("instances.csv", "instances")):
        theirs = pd.read_csv(tmp_path / "run" / file, keep_default_na=False)
        pd.testing.assert_frame_equal(loaded.predict(frame, params={"level": level}), theirs, rtol=1e-12)


def test_a_column_of_positions_puts_instances_in_order(tmp_path):
    bags, y, _ = make_bags(n_bags=12, n_features=2, seed=3)
    model = VGPMIL(labels="chain", **HOW).fit(named(bags), y)
    assert model.model_.coupling > 0
    save_mlflow(model, tmp_path / "model", bag="scan", position="height")
    again = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    frame = table_of(named(bags), "scan").assign(height=np.concatenate([np.arange(n) for n in bags.sizes]))
    mixed = frame.sample(frac=1.0, random_state=0).sort_values("scan", kind="stable")
    in_order = again.predict(frame, params={"level": "instances"}).set_index(["bag"])
    found = again.predict(mixed, params={"level": "instances"})
    assert np.allclose(found["prob"], in_order["prob"].to_numpy()[mixed.index], rtol=1e-12)
    unordered = mixed.assign(height=np.arange(len(mixed)))
    assert not np.allclose(again.predict(unordered, params={"level": "instances"})["prob"], found["prob"])


def test_the_column_of_bags_can_be_named_when_it_is_loaded(folder, data, clf):
    again = mlflow.pyfunc.load_model(str(folder), model_config={"bag": "slide"})
    assert again.predict(table_of(data[0], "slide"))["prob"].tolist() == clf.predict_dist(data[0]).prob.tolist()


def test_the_folder_has_no_code_no_pickle_no_ids_and_no_paths(folder, data, tmp_path):
    assert written(folder) == {
        "MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "input_example.json",
        "serving_input_example.json", "data/psimil/README.md", "data/psimil/config.json",
        "data/psimil/model.safetensors",
    }  # fmt: skip
    for path in map(folder.joinpath, written(folder)):
        content = path.read_bytes()
        assert b"canary" not in content, path
        assert b"pickle" not in content, path
        for machine in (sys.prefix, str(Path.home()), str(tmp_path.parent), str(folder.parent), "://"):
            assert machine.encode() not in content, (path, machine)
    example = json.loads((folder / "input_example.json").read_text())
    assert not np.any([row[1:] for row in example["data"]])


def test_what_the_model_says_of_itself(folder, clf, loaded):
    told = loaded.metadata.metadata
    weights = (folder / "data" / "psimil" / "model.safetensors").read_bytes()
    assert told["sha256"] == hashlib.sha256(weights).hexdigest()
    assert (told["threshold"], told["feature_names"]) == (clf.threshold_, NAMES)
    assert told["use"] == "research use only, not a medical device"
    signature = loaded.metadata.signature
    assert signature.outputs.input_names() == clf.predict_dist([[[0.0, 0.0]]]).to_frame().columns.tolist()
    assert [(one.name, one.default) for one in signature.params.params] == [("level", "bags")]
    assert loaded.input_example.columns.tolist() == ["bag", *NAMES]
    assert len(loaded.predict(loaded.input_example)) == 2
    needs = (folder / "requirements.txt").read_text().split()
    assert needs == [f"mlflow-skinny=={mlflow.__version__}", f"psimil=={told['psimil_version']}"]


WRONG = {
    "no bag": (lambda t: t.drop(columns="bag"), 'the table has no column "bag"'),
    "no feature": (lambda t: t.drop(columns="mass"), 'the table has no column "mass"'),
    "another name": (lambda t: t.rename(columns={"mass": "mas"}), 'Did you mean "mas"'),
    "nan": (lambda t: t.assign(mass=np.nan), "non-finite values, first at bag canary0"),
    "inf": (lambda t: t.assign(mass=np.inf), "non-finite values"),
    "text": (lambda t: t.assign(mass="heavy"), 'column "mass" must hold numbers'),
    "no ids": (lambda t: t.assign(bag=None), "row 1 has no bag id"),
    "no rows": (lambda t: t[:0], "0 bags"),
    "two of a name": (lambda t: t[["bag", "size", "mass", "mass"]], 'more than one column "mass"'),
    "no table": (lambda t: t.to_numpy(), "tables with a column of bag ids, got ndarray"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_tables_are_refused_in_our_words(name, data, loaded):
    change, words = WRONG[name]
    with pytest.raises(InputError, match=words):
        loaded.predict(change(table_of(data[0])))


def test_levels_that_are_none_are_refused(data, loaded):
    with pytest.raises(InputError, match='level must be "bags" or "instances", got \'bag\''):
        loaded.predict(table_of(data[0]), params={"level": "bag"})


def test_models_without_names_count_their_features(data, tmp_path):
    bags = replace(data[0], feature_names=None)
    model = VGPMIL(**HOW).fit(bags, data[1])
    save_mlflow(model, tmp_path / "model")
    again = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert again.predict(table_of(data[0]))["prob"].tolist() == model.predict_dist(bags).prob.tolist()
    with pytest.raises(InputError, match="model expects 2 features, got 1"):
        again.predict(table_of(data[0]).drop(columns="mass"))


def test_what_cannot_be_saved_is_refused(clf, data, tmp_path):
    with pytest.raises(NotFitted):
        save_mlflow(VGPMIL(), tmp_path / "new")
    several = MultiLabelMIL(VGPMIL(**HOW)).fit(data[0], np.column_stack([data[1], 1 - data[1]]))
    with pytest.raises(InputError, match="only models of one label"):
        save_mlflow(several, tmp_path / "new")
    for columns in ({"bag": "mass"}, {"bag": "z", "position": "z"}):
        with pytest.raises(InputError, match="cannot be the column of the bag ids"):
            save_mlflow(clf, tmp_path / "new", **columns)
    assert not (tmp_path / "new").exists()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="it is not empty"):
        save_mlflow(clf, tmp_path)
    assert written(tmp_path) == {"notes.txt"}


def test_weights_of_another_model_are_refused(clf, data, folder, tmp_path):
    save_mlflow(clf, tmp_path / "model")
    config = tmp_path / "model" / "data" / "psimil" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"threshold": 0.123}))
    with pytest.raises(ModelFileError, match="they differ in threshold"):
        mlflow.pyfunc.load_model(str(tmp_path / "model"))


def test_a_model_is_logged_to_a_run_and_loaded_from_it(clf, data, tracker, no_pickle_no_network):
    with pytest.raises(InputError, match="no MLflow run is active"):
        log_mlflow(clf)
    with mlflow.start_run() as run:
        info = log_mlflow(clf, "first", position="height")
    for uri in (info.model_uri, f"runs:/{run.info.run_id}/first"):
        again = mlflow.pyfunc.load_model(uri)
        frame = table_of(data[0]).assign(height=np.arange(data[0].n_instances))
        assert again.predict(frame)["prob"].tolist() == clf.predict_dist(data[0]).prob.tolist()
    assert not [path for path in tracker.rglob("*") if path.is_file() and b"canary" in path.read_bytes()]


def test_without_mlflow_it_says_what_to_install(clf, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(InputError, match=r"need MLflow\. Install it with: .*mlflow"):
        save_mlflow(clf, tmp_path / "model")
    assert not (tmp_path / "model").exists()
