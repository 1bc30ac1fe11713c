"""A folder of torchmil on the command line: its splits, its features, and who takes --split."""

import json
import shutil

import pytest

from commands import QUICK, call, fails
from torchmil_layout import scans


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return scans(tmp_path_factory.mktemp("torchmil") / "RSNA")


@pytest.fixture(scope="module")
def run(folder):
    out = folder.parent / "run"
    done = call("fit", folder, "--split", "train", "--features", "resnet50", "--out", out, *QUICK, "--json")
    facts = json.loads(done.stdout)
    assert facts["training"]["bags"] == 12 and facts["features"] == ["resnet50_0", "resnet50_1", "resnet50_2"]
    assert facts["metrics"]["out_of_bag"]["measured_on"].endswith("of RSNA, split train")
    return out


def test_the_model_finds_its_features_in_the_folder(folder, run, tmp_path):
    found = json.loads(call("evaluate", run, folder, "--split", "test", "--json").stdout)
    assert (found["n_bags"], found["measured_on"]) == (12, "RSNA, split test")
    assert found["instances"]["auc"] > 0.9
    call("--split=test", "predict", run, folder, "--out", tmp_path / "new")
    assert (tmp_path / "new" / "bags.csv").read_text().count("\n") == 13
    other = folder / "features" / "features_resnet18"
    fails(call("evaluate", run, other), 65, 'the bags lack 3 features, "resnet50_0"')


def test_unknown_splits_and_many_features_are_named(folder, run, tmp_path):
    fails(call("evaluate", run, folder, "--split", "val"), 65, 'puts no bag in "val". It has test, train.')
    fails(call("fit", folder, "--out", tmp_path / "a", *QUICK), 65, "has the features resnet18, resnet50. Choose one")
    imported = call("data", "import", folder, tmp_path / "store", "--features", "resnet18", "--split", "test", "--json")
    assert json.loads(imported.stdout)["bags"] == 12
    fails(call("evaluate", run, tmp_path / "store", "--split", "test"), 65, "split='test' would have no effect")


def test_validation_is_the_split_val(folder, tmp_path):
    both = shutil.copytree(folder, tmp_path / "both")
    text = (both / "splits.csv").read_text().replace("ID_22,test", "ID_22,val").replace("ID_23,test", "ID_23,val")
    (both / "splits.csv").write_text(text)
    options = ["--features", "resnet18", "--split", "train", "--validation", both, "--out", tmp_path / "run", *QUICK]
    assert json.loads(call("fit", both, *options, "--json").stdout)["metrics"]["validation"]["n_bags"] == 2


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["info", "run"], "--split"),
        (["data", "verify", "store"], "--split"),
        (["report", "run"], "--split"),
        (["data", "import", "a.csv", "store"], "--cluster"),
        (["ct", "index", "scans"], "--cluster"),
    ],
)
def test_commands_that_read_no_folder_refuse_it(command, option):
    name = " ".join(word for word in command if word in ("info", "data", "verify", "report", "import", "ct", "index"))
    fails(call(*command, option, "x"), 2, f"No such option: {option} (of psimil {name}).")


def test_commands_name_the_shared_options_that_they_take():
    shown = {name: " ".join(call(*name.split(), "--help").stdout.split()) for name in ("fit", "data import", "view")}
    assert "--cluster and --split this one; see psimil --help" in shown["fit"]
    assert "any command, --split this one" in shown["data import"] and "--split" not in shown["view"]
