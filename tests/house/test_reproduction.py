"""The pages of the reproduction and the README say what results/ says: written again, they do not change."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"


PAGES = ("reproduction.md", "reproduction-record.md")


def written(results, folder, monkeypatch):
    """Both pages and the README, by name."""
    folder.mkdir()
    readme = shutil.copy(ROOT / "README.md", folder)
    monkeypatch.setattr(sys, "argv", ["write_reproduction.py", str(results), str(folder), str(readme)])
    runpy.run_path(str(ROOT / "scripts" / "write_reproduction.py"), run_name="__main__")
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_the_pages_are_up_to_date(tmp_path, monkeypatch):
    found = written(RESULTS, tmp_path / "pages", monkeypatch)
    assert set(found) == {*PAGES, "README.md"}
    for name in PAGES:
        assert found[name] == (ROOT / "docs" / "results" / name).read_text(encoding="utf-8")
        assert "<!--" not in found[name]
    assert found["README.md"] == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_pages_follow_the_rows(tmp_path, monkeypatch):
    shutil.copytree(RESULTS, tmp_path / "results")
    for name in ("musk1", "ich"):
        path = tmp_path / "results" / name / "fits.csv"
        rows = pd.read_csv(path)
        rows.loc[rows["model"] == "VGPMIL", "bag_auc"] = 0.123
        rows.to_csv(path, index=False)
    after = written(tmp_path / "results", tmp_path / "pages", monkeypatch)
    for name in PAGES:
        assert "0.123 ± 0.000" in after[name]
        assert "0.123 ± 0.000" not in (ROOT / "docs" / "results" / name).read_text(encoding="utf-8")
    assert "| `VGPMIL()` | 0.123 |" in after["README.md"]


def test_all_rows_come_from_one_commit():
    configs = [json.loads(path.read_text()) for path in RESULTS.glob("*/config.json")]
    assert len(configs) == len(list(RESULTS.glob("*/fits.csv"))) > 0
    assert len({config["commit"] for config in configs}) == 1
    assert all(len(config["commit"]) == 40 for config in configs)


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/fits.csv")), ids=lambda path: path.parent.name)
def test_every_row_says_where_it_was_measured_and_nothing_else_is_kept(path):
    rows = pd.read_csv(path)
    assert rows["measured_on"].isin(("held-out bags", "training bags", "stopping bags")).all()
    assert (rows.loc[rows["protocol"] == "nested", "measured_on"] == "held-out bags").all()
    kept = {p.relative_to(path.parent).parts[0] for p in path.parent.rglob("*")}
    assert kept <= {"fits.csv", "splits.csv.gz", "config.json", "environment.json", "figures"}
    assert not list(path.parent.rglob("*digits*")) and not list(path.parent.rglob("*scan*"))
