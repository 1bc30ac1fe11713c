"""``psimil predict`` writes range by range: the same tables and results, in memory that does not grow with the data."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from commands import call, frame_of, trained
from psimil import VGPMIL, Bags
from psimil.cli import predicted
from psimil.results.result_set import ResultSet
from psimil.store import StoreWriter

GROWTH = """
from typer.testing import CliRunner
from psimil.cli import predicted
from psimil.cli.main import app

predicted.RANGE_ROWS, predicted.LARGEST = 4096, 0
peaks = []
for name in ("small", "large"):
    done = CliRunner().invoke(app, ["predict", "model.safetensors", name, "--out", f"run-{name}"])
    assert done.exit_code == 0, done.output
    peaks.append(int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))))
print(peaks[1] - peaks[0])
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run of a fit, and a table of other bags as a file that has them mixed, as one in order, and as a store."""
    folder = trained(tmp_path_factory.mktemp("predicted"))
    frame_of(seed=1, shuffled=False).to_csv(folder / "ordered.csv", index=False)
    assert call("data", "import", folder / "ordered.csv", folder / "store", "--dtype", "float64").exit_code == 0
    return folder


def predict(files, name, out, *more):
    done = call("predict", files / "run", files / name, "--out", out, "--json", *more)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["store", "ordered.csv", "test.csv"])
def test_ranges_leave_what_one_piece_leaves(files, tmp_path, monkeypatch, name):
    facts = predict(files, name, tmp_path / "one")
    made = []
    monkeypatch.setattr(predicted, "RANGE_ROWS", 40)
    monkeypatch.setattr(predicted, "bag_frame", lambda part, f=predicted.bag_frame: made.append(1) or f(part))
    assert predict(files, name, tmp_path / "many") == facts | {"run": str(tmp_path / "many")}
    assert len(made) == 1 if name == "test.csv" else len(made) > 3
    for table in ("bags.csv", "instances.csv"):
        one, many = (pd.read_csv(tmp_path / run / table, keep_default_na=False) for run in ("one", "many"))
        pd.testing.assert_frame_equal(many, one, rtol=1e-9, atol=1e-12)
    if name != "store":
        rows = pd.read_csv(files / name)["bag"].tolist()
        assert many["bag"].tolist() == rows
    one, many = (ResultSet.load(tmp_path / run) for run in ("one", "many"))
    np.testing.assert_allclose(many.prediction.instance_prob, one.prediction.instance_prob, rtol=1e-9)
    np.testing.assert_array_equal(many.prediction.offsets, one.prediction.offsets)
    np.testing.assert_array_equal(many.truth, one.truth)
    np.testing.assert_array_equal(many.features, one.features)
    assert (tmp_path / "one" / "summary.md").read_text() == (tmp_path / "many" / "summary.md").read_text()


def test_results_of_too_many_instances_are_left_out_with_a_sentence(files, tmp_path, monkeypatch):
    monkeypatch.setattr(predicted, "LARGEST", 20)
    done = call("predict", files / "run", files / "store", "--out", tmp_path / "run")
    assert done.exit_code == 0 and "Next:" not in done.stdout and "psimil view" not in done.stdout
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("warning: results.safetensors is left out: ") and "Predict fewer bags" in warning
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "bags.csv", "instances.csv", "environment.json", "summary.md",
    }  # fmt: skip


def test_features_of_an_archive_in_another_order(files, tmp_path):
    """Predictions and telling features are those of the same rows in the order of the model."""
    frame, order = frame_of(seed=1, shuffled=False), ["f3", "f1", "f2"]
    ids, y = frame["bag"].to_numpy(str), frame["label"].to_numpy()
    np.savez(tmp_path / "other.npz", X=frame[order], bag_ids=ids, y=y, feature_names=order)
    predict(files, tmp_path / "other.npz", tmp_path / "other")
    predict(files, "ordered.csv", tmp_path / "same")
    other, same = (ResultSet.load(tmp_path / name) for name in ("other", "same"))
    assert other.feature_names == same.feature_names == ("f1", "f2", "f3")
    np.testing.assert_array_equal(other.features, same.features)
    np.testing.assert_allclose(other.values, same.values)
    np.testing.assert_allclose(other.prediction.prob, same.prediction.prob, rtol=1e-12)


def test_memory_does_not_grow_with_the_instances(tmp_path):
    """In one piece 100 000 more of them take more than twice what is allowed here, in ranges a quarter of it."""
    rng = np.random.default_rng(0)
    X, offsets = rng.standard_normal((400, 4)), np.arange(0, 401, 10)
    VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(Bags(X, offsets), np.arange(40) % 2).save(
        tmp_path / "model.safetensors"
    )
    for name, n in (("small", 10_000), ("large", 110_000)):
        ids = [f"a name of a bag that is not short {b}" for b in range(n // 100)]
        bags = Bags(rng.standard_normal((n, 4)), np.arange(0, n + 1, 100), ids)
        with StoreWriter(tmp_path / name, 4) as writer:
            writer.add_many(bags, np.arange(len(bags)) % 2)
    command = [sys.executable, "-c", GROWTH]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True)
    assert int(done.stdout) * 1024 < 20e6, done.stdout
    assert (tmp_path / "run-large" / "instances.csv").read_bytes().count(b"\n") == 110_001
