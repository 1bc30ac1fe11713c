"""``psimil data``: import, verify, info."""

import json

import pytest

import commands
from commands import fails, frame_of
from psimil.store import open_store
from psimil.store.tables import read_bags


def call(*arguments):
    return commands.call("data", *arguments)


@pytest.fixture
def table(tmp_path):
    frame_of().to_csv(tmp_path / "bags.csv", index=False)
    return tmp_path / "bags.csv"


def test_import_verify_info(table, tmp_path):
    done = call("import", table, tmp_path / "store", "--dtype", "float64")
    assert done.exit_code == 0, done.output
    expected = read_bags(table)
    assert f"holds 30 bags, {len(expected.bags.X)} instances, 3 features." in done.stdout
    assert open_store(tmp_path / "store").X.tolist() == expected.bags.X.tolist()
    done = call("verify", tmp_path / "store")
    assert done.exit_code == 0 and "is whole: 30 bags" in done.stdout
    done = call("info", tmp_path / "store", "--json")
    facts = json.loads(done.stdout)
    assert facts["bags"] == 30 and facts["positive"] == expected.y.sum() and facts["negative"] == 30 - expected.y.sum()
    assert facts["feature_names"] == ["f1", "f2", "f3"] and facts["dtype"] == "float64" and facts["warnings"] == []
    assert facts["instances_labelled"] == (expected.y_instances >= 0).sum()
    done = call("info", tmp_path / "store")
    assert "f1, f2, f3" in done.stdout and "Research use only" in done.stdout


def test_append_overwrite_json_quiet(table, tmp_path):
    assert call("import", table, tmp_path / "store", "--quiet").output == ""
    fails(call("import", table, tmp_path / "store"), 74, "a store is there already")
    fails(call("import", table, tmp_path / "store", "--append"), 65, "is in the store already")
    other = frame_of(seed=1)
    other["bag"] = "x" + other["bag"]
    other.rename(columns={"bag": "scan", "label": "T", "instance_label": "z"}).to_csv(
        tmp_path / "more.csv", index=False
    )
    columns = ["--bag", "scan", "--label", "T", "--instance-label", "z"]
    done = call("import", tmp_path / "more.csv", tmp_path / "store", "--append", "--json", *columns)
    facts = json.loads(done.stdout)
    assert (facts["bags"], facts["parts"], facts["generation"]) == (60, 2, 2)
    done = call("import", table, tmp_path / "store", "--overwrite", "--json")
    assert json.loads(done.stdout)["bags"] == 30
    assert call("verify", tmp_path / "store", "--quiet").output == ""


def test_warnings_are_told(tmp_path):
    (tmp_path / "bags.csv").write_text("bag,f,note\na,1,x\n")
    done = call("import", tmp_path / "bags.csv", tmp_path / "store", "--json")
    assert json.loads(done.stdout)["warnings"] == ["bags.csv: columns that are not numeric are not used: note."]


def test_errors(table, tmp_path):
    fails(call("import", tmp_path / "none.csv", tmp_path / "store"), 66, "none.csv was not found")
    fails(call("import", table, tmp_path / "store", "--append"), 66, "is not a store")
    fails(call("import", table, tmp_path / "store", "--dtype", "int8"), 2, "float32")
    fails(call("import", table, tmp_path / "store", "--append", "--overwrite"), 66)
    fails(call("info", tmp_path / "store"), 66, "is not a store")
    call("import", table, tmp_path / "store")
    file = tmp_path / "store" / "part-0001" / "features.bin"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    fails(call("verify", tmp_path / "store"), 65, "part-0001/features.bin of the store was changed")
    file.write_bytes(content[:-1])
    fails(call("info", tmp_path / "store"), 65, "part-0001/features.bin of the store has", "it is cut short")
