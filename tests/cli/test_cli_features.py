"""The command line: which columns are features, which model is the default, arguments in the wrong place."""

import json
import shutil
import tomllib

import numpy as np
import pandas as pd
import pytest

from commands import QUICK, call, fails, frame_of
from psimil.cli.score_tables import feature_lines
from psimil.store import open_store


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tables of noise with and without the index of the data frame, and a run that left the index out."""
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(20), 3)
    noise = pd.DataFrame(rng.normal(size=(60, 2)), columns=["f1", "f2"])
    noise.insert(0, "bag", [f"b{b:02d}" for b in bag])
    noise["label"] = bag // 10
    noise.to_csv(folder / "index.csv")
    noise.to_csv(folder / "noise.csv", index=False)
    noise.assign(index=np.arange(60)).to_csv(folder / "named.csv", index=False)
    done = call("fit", folder / "index.csv", "--out", folder / "run", "--drop", "", "--json", *QUICK)
    assert done.exit_code == 0, done.output
    (folder / "facts.json").write_text(done.stdout)
    assert call("predict", folder / "run", folder / "noise.csv", "--out", folder / "new").exit_code == 0
    return folder


def test_noise_with_the_index_of_the_data_frame_is_refused(files, tmp_path):
    done = call("fit", files / "index.csv", "--out", tmp_path / "out", *QUICK)
    fails(done, 65, "index.csv: column 1 has no name", "index=False", '--drop "Unnamed: 0"')
    fails(call("data", "import", files / "index.csv", tmp_path / "out"), 65, "column 1 has no name")
    assert not (tmp_path / "out").exists()


def test_the_features_are_told_everywhere(files):
    assert json.loads((files / "facts.json").read_text())["features"] == ["f1", "f2"]
    assert "## Features: 2\n\n`f1`, `f2`\n" in (files / "run" / "summary.md").read_text()


def test_a_run_can_be_repeated_with_its_config(files, tmp_path):
    config = files / "run" / "config.toml"
    assert tomllib.loads(config.read_text())["drop"] == [""]
    done = call("fit", files / "index.csv", "--out", tmp_path / "again", "--config", config)
    assert done.exit_code == 0, done.output
    assert "\n2 features: f1, f2.\n" in "\n" + done.stdout
    for name in ("config.toml", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (files / "run" / name).read_bytes()
    (tmp_path / "c.toml").write_text('features = ["f*"]\nmax_iter = 2\nn_inducing = 4\n')
    options = ["--out", tmp_path / "other", "--config", tmp_path / "c.toml", "--features", "f2,f1", "--json"]
    done = call("fit", files / "index.csv", *options)
    assert json.loads(done.stdout)["features"] == ["f2", "f1"]
    assert tomllib.loads((tmp_path / "other" / "config.toml").read_text())["features"] == ["f2", "f1"]


@pytest.mark.parametrize("text", ["features = 3", 'drop = "f1"', "drop = [1]"])
def test_names_in_the_config_are_lists_of_text(files, tmp_path, text):
    (tmp_path / "c.toml").write_text(text)
    done = call("fit", files / "noise.csv", "--out", tmp_path / "out", "--config", tmp_path / "c.toml")
    fails(done, 2, f"{text.split()[0]} must be a list of names of columns")


def test_names_and_patterns_on_the_command_line(files, tmp_path):
    quick = ["--n-inducing", "4", "--max-iter", "1", "--json", "--overwrite", "--out", tmp_path / "run"]
    table = frame_of(n_bags=12).rename(columns={"f2": "g, h"})
    table.to_csv(tmp_path / "train.csv", index=False)
    for options, expected in (
        (["--features", "f*"], ["f1", "f3"]),
        (["--features", 'f3,"g, h"'], ["f3", "g, h"]),
        (["--features", "f3", "--features", "f1"], ["f3", "f1"]),
        (["--drop", "f1,g*"], ["f3"]),
        (["--features", "f?", "--drop", "f1"], ["f3"]),
    ):
        done = call("fit", tmp_path / "train.csv", *quick, *options)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["features"] == expected
    fails(call("fit", tmp_path / "train.csv", "--out", tmp_path / "o", "--drop", "F1"), 65, 'Did you mean "f1"?')


def test_one_bad_string_stops_a_fit(files, tmp_path):
    table = pd.read_csv(files / "noise.csv", dtype=str)
    table.loc[41, "f2"] = "n/a?"
    table.to_csv(tmp_path / "bad.csv", index=False)
    done = call("fit", tmp_path / "bad.csv", "--out", tmp_path / "out", *QUICK)
    fails(done, 65, """bad.csv: column "f2" holds numbers, but 'n/a?' in row 42.""", '--drop "f2"')


def test_a_bad_string_stops_a_prediction_without_advice_that_does_not_help(files, tmp_path):
    assert call("fit", files / "noise.csv", "--out", tmp_path / "run", *QUICK).exit_code == 0
    table = pd.read_csv(files / "noise.csv", dtype=str)
    table.loc[41, "f2"] = "n/a?"
    table.to_csv(tmp_path / "bad.csv", index=False)
    done = call("predict", tmp_path / "run", tmp_path / "bad.csv", "--out", tmp_path / "out")
    fails(done, 65, """bad.csv: column "f2" holds numbers, but 'n/a?' in row 42. Correct it.""")
    assert "--drop" not in done.output


def test_a_feature_that_is_the_row_is_warned_of(files, tmp_path):
    done = call("fit", files / "named.csv", "--out", tmp_path / "run", "--json", "--n-inducing", "4", "--max-iter", "1")
    warnings = json.loads(done.stdout)["warnings"]
    assert any('feature "index" is the order of the rows' in line and '--drop "index"' in line for line in warnings)


def test_validation_takes_the_columns_of_training_by_name(files, tmp_path):
    table = pd.read_csv(files / "noise.csv")
    table.assign(note="x")[["note", "f2", "label", "f1", "bag"]].to_csv(tmp_path / "valid.csv")
    options = ["--n-inducing", "4", "--max-iter", "2", "--json", "--overwrite", "--out", tmp_path / "run"]
    same, other = (
        json.loads(call("fit", files / "noise.csv", *options, "--validation", path).stdout)
        for path in (files / "noise.csv", tmp_path / "valid.csv")
    )
    assert other["warnings"] == same["warnings"]
    assert other["metrics"]["validation"]["bags"] == same["metrics"]["validation"]["bags"]
    table.drop(columns=["f2"]).to_csv(tmp_path / "less.csv", index=False)
    done = call("fit", files / "noise.csv", "--out", tmp_path / "o", *QUICK, "--validation", tmp_path / "less.csv")
    fails(done, 65, 'less.csv has no column "f2"')


def test_import_chooses_and_tells(files, tmp_path):
    done = call("data", "import", files / "index.csv", tmp_path / "store", "--drop", "Unnamed*,f1")
    assert done.exit_code == 0 and "\n1 feature: f2.\n" in done.stdout
    assert open_store(tmp_path / "store").feature_names == ("f2",)
    done = call("data", "import", files / "index.csv", tmp_path / "two", "--features", "f2,f1", "--json")
    assert json.loads(done.stdout)["feature_names"] == ["f2", "f1"]
    assert call("fit", tmp_path / "two", "--out", tmp_path / "run", *QUICK).exit_code == 0
    done = call("fit", tmp_path / "two", "--out", tmp_path / "o", "--drop", "f1", *QUICK)
    fails(done, 65, "two is a store", "psimil data import")


def test_many_features_take_few_lines():
    names = [f"feature_{n}" for n in range(2000)]
    lines = feature_lines(names)
    assert len(lines) == 3 and max(map(len, lines)) <= 80
    assert lines[0].startswith("2000 features: feature_0, feature_1") and lines[-1].endswith(", ..., feature_1999.")
    assert feature_lines(["a"]) == ["1 feature: a."] and feature_lines([]) == []
    assert " ".join(feature_lines(names[:9])) == f"9 features: {', '.join(names[:9])}."


# The default model


@pytest.mark.parametrize(
    ("options", "density"),
    [
        ([], {"kind": "HyperbolicSecant"}),
        (["--alpha", "2"], {"kind": "GammaMixture", "alpha": 2.0, "beta": 1.0}),
        (["--model", "gvgpmil"], {"kind": "GammaMixture", "alpha": 1.0, "beta": 1.0}),
    ],
)
def test_the_default_model_is_vgpmil(files, tmp_path, options, density):
    quick = ["--n-inducing", "4", "--max-iter", "1", "--quiet"]
    assert call("fit", files / "noise.csv", "--out", tmp_path / "run", *quick, *options).exit_code == 0
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["density"] == density


# Arguments in the wrong place


def test_swapped_arguments(files, tmp_path):
    run, table, store = files / "run", files / "noise.csv", tmp_path / "store"
    for command, more in (("predict", ["--out", tmp_path / "o"]), ("evaluate", [])):
        for model in (run, run / "model.safetensors"):
            meant = f"psimil {command} {model} {table}"
            fails(call(command, table, model, *more), 2, f"{table} is a table of bags; the first argument", meant)
        fails(call(command, table, table, *more), 2, "is a model, the run of psimil fit or its file.")
        fails(call(command, run, run, *more), 2, f"{run} is a model; the second argument of psimil {command}")
    fails(call("data", "import", store, table), 2, f"psimil data import {table} {store}")
    fails(call("fit", run, "--out", tmp_path / "o"), 2, f"{run} is a model; the argument of psimil fit is a table")
    fails(call("info", table), 2, f"{table} is a table of bags; the argument of psimil info is a model")
    fails(call("info", files / "new"), 2, "new is a prediction;")
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(run / "model.safetensors", bare)
    for command in ("view", "report"):
        fails(call(command, table), 66, f"{table} is a file. Name the folder of results")
        fails(
            call(command, bare),
            66,
            f"{bare} holds a model and no results.",
            f"psimil predict {bare} BAGS --out runs/new",
        )
    call("data", "import", table, store)
    fails(call("evaluate", store, run), 2, "is a store of bags", f"psimil evaluate {run} {store}")
    assert call("evaluate", run, store).exit_code == 0


def test_labels_are_no_features_of_a_fit(files, tmp_path):
    for command in (["fit", files / "noise.csv", "--out"], ["data", "import", files / "noise.csv"]):
        done = call(*command, tmp_path / "out", "--features", "label,f1")
        fails(done, 65, 'noise.csv: column "label" holds labels and cannot be a feature, too.')
        assert not (tmp_path / "out").exists()
