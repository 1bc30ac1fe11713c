"""Folders as hubs lay them out: what is in them, what is not, and that they load from a path."""

import json
from pathlib import Path

import numpy as np
import pytest

from commands import call, fails
from psimil import GVGPMIL, VGPMIL, Bags, InputError, PsiVGPMIL
from psimil.datasets import make_bags
from psimil.export import save_pretrained
from psimil.foundations.errors import MissingFile, ModelFileError, NotFitted, OutputError
from psimil.model.features import columns_fingerprint


@pytest.fixture(scope="module")
def data():
    bags, y, _ = make_bags(n_bags=16, n_features=2, seed=1)
    return Bags(bags.X, bags.offsets, [f"canary{b}" for b in range(16)], feature_names=["size", "mass"]), y


@pytest.fixture(scope="module")
def clf(data):
    return VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0).fit(*data)


def test_a_folder_comes_back_bit_by_bit(clf, data, tmp_path):
    save_pretrained(clf, tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"model.safetensors", "README.md", "config.json"}
    for kind in (VGPMIL, PsiVGPMIL):
        again = kind.from_pretrained(str(tmp_path / "model"))
        assert type(again) is kind
        assert np.array_equal(again.predict_proba(data[0]), clf.predict_proba(data[0]))
    with pytest.raises(InputError, match=r"Use VGPMIL\.load"):
        GVGPMIL.from_pretrained(tmp_path / "model")


def test_a_folder_that_is_not_here_is_named(tmp_path):
    for path in (tmp_path / "me" / "first-model", Path(__file__)):
        with pytest.raises(MissingFile, match=f"{path.name} is no folder here"):
            VGPMIL.from_pretrained(path)


def test_config_and_card_say_what_the_model_is(clf, tmp_path):
    save_pretrained(clf, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["feature_names"] == ["size", "mass"]
    assert config["class_names"] == ["0", "1"]
    assert config["threshold"] == clf.threshold_
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: psimil\n")
    assert "Research use only, not a medical device" in card
    assert "16 bags (8 positive)" in card
    assert "canary" not in card + json.dumps(config)


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0.123},
        {"num_features": 3},
        {"num_features": 2.0},
        {"num_classes": True},
        {"class_names": ["a", "b"]},
        {"feature_names": ["mass", "size"]},
        {"feature_names": None},
        {"training_counts": {}},
        {"library_name": "transformers"},
    ],
)
def test_a_config_of_other_weights_is_refused(clf, tmp_path, changes):
    save_pretrained(clf, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(
        ModelFileError, match=rf"is not of its model\.safetensors: they differ in {next(iter(changes))}"
    ):
        VGPMIL.from_pretrained(tmp_path / "model")
    fails(call("export", tmp_path / "model", tmp_path / "again"), 65, "they differ in")
    fails(call("info", tmp_path / "model"), 65, f"they differ in {next(iter(changes))}")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null"])
def test_a_config_that_is_none_is_refused(clf, tmp_path, content):
    save_pretrained(clf, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"config\.json of .* cannot be read"):
        VGPMIL.from_pretrained(tmp_path / "model")
    fails(call("info", tmp_path / "model"), 65, "cannot be read. Take it out, or save the model anew.")


def test_a_config_of_another_version_or_with_more_in_it_is_taken(clf, tmp_path):
    save_pretrained(clf, tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"psimil_version": "9.0.0", "pipeline_tag": "other"}))
    assert VGPMIL.from_pretrained(tmp_path / "model").threshold_ == clf.threshold_
    assert json.loads(call("info", tmp_path / "model", "--json").stdout)["bag_threshold"] == clf.threshold_
    less = json.loads(path.read_text())
    del less["training_counts"]  # a config of an earlier version says less
    path.write_text(json.dumps(less))
    assert VGPMIL.from_pretrained(tmp_path / "model").threshold_ == clf.threshold_
    path.unlink()
    assert VGPMIL.from_pretrained(tmp_path / "model").threshold_ == clf.threshold_


def test_nothing_is_written_over(clf, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="it is not empty"):
        save_pretrained(clf, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(OutputError, match="cannot write"):
        save_pretrained(clf, tmp_path / "notes.txt")
    with pytest.raises(NotFitted):
        save_pretrained(VGPMIL(), tmp_path / "new")
    with pytest.raises(MissingFile):
        VGPMIL.from_pretrained(tmp_path / "nowhere")


def test_the_command_writes_files_and_folders(clf, data, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    clf.save(tmp_path / "model.safetensors")
    done = call("export", tmp_path / "model.safetensors", tmp_path / "model.onnx")
    assert done.exit_code == 0, done.output
    assert "Research use only" in done.stdout
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    prob = session.run(["prob"], {"embedding": np.asarray(data[0][0])})[0]
    assert prob == pytest.approx(clf.predict_proba(data[0])[:1, 1], abs=1e-9)
    done = call("export", tmp_path, tmp_path / "hub-1.0", "--json")
    assert json.loads(done.stdout)["model"] == str(tmp_path / "hub-1.0")
    assert VGPMIL.from_pretrained(tmp_path / "hub-1.0").threshold_ == clf.threshold_


def test_the_command_writes_over_nothing(clf, tmp_path):
    clf.save(tmp_path / "model.safetensors")
    before = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "there.onnx").write_text("mine")
    fails(call("export", tmp_path, tmp_path / "there.onnx"), 74, "there already")
    fails(call("export", tmp_path, tmp_path), 74, "there already")
    fails(call("export", tmp_path, tmp_path / "model.safetensors"), 2, "ends in .onnx")
    fails(call("export", tmp_path / "none", tmp_path / "new.onnx"), 66, "none")
    assert (tmp_path / "there.onnx").read_text() == "mine"
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert not (tmp_path / "new.onnx").exists()


def test_a_network_that_is_not_in_the_folder_is_said(data, tmp_path):
    words = "Its features come from a network (attcnn sha256:1f3a), which is not stored with it"
    model = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, feature_fingerprint="attcnn sha256:1f3a", random_state=0)
    model.fit(*data).save(tmp_path / "model.safetensors")
    done = call("export", tmp_path / "model.safetensors", tmp_path / "hub")
    assert words in " ".join(done.stdout.split()) and "the whole folder of psimil ct train" in " ".join(
        done.stdout.split()
    )
    assert words in (tmp_path / "hub" / "README.md").read_text()
    done = call("export", tmp_path / "model.safetensors", tmp_path / "hub-2", "--json")
    assert json.loads(done.stdout)["network"].startswith(words)


def test_features_of_columns_have_no_network(clf, data, tmp_path):
    save_pretrained(clf, tmp_path / "plain")
    fingerprint = columns_fingerprint(["size", "mass"])
    of_columns = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, feature_fingerprint=fingerprint).fit(*data)
    save_pretrained(of_columns, tmp_path / "columns")
    assert all("come from a network" not in (tmp_path / n / "README.md").read_text() for n in ("plain", "columns"))
