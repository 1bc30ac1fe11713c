"""docs/results/reproduction.md says what results/ says: written again, it does not change."""

import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"


def written(results, target, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["write_reproduction.py", str(results), str(target)])
    runpy.run_path(str(ROOT / "scripts" / "write_reproduction.py"), run_name="__main__")
    return target.read_text(encoding="utf-8")


def test_the_page_is_up_to_date(tmp_path, monkeypatch):
    found = written(RESULTS, tmp_path / "page.md", monkeypatch)
    assert found == (ROOT / "docs" / "results" / "reproduction.md").read_text(encoding="utf-8")
    assert "<!--" not in found


def test_the_page_follows_the_rows(tmp_path, monkeypatch):
    before = (ROOT / "docs" / "results" / "reproduction.md").read_text(encoding="utf-8")
    for path in (RESULTS / "datasets.csv", *sorted((RESULTS / "musk1").rglob("*"))):
        target = tmp_path / "results" / path.relative_to(RESULTS)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    rows = pd.read_csv(tmp_path / "results" / "musk1" / "fits.csv")
    rows.loc[rows["model"] == "VGPMIL", "bag_auc"] = 0.123
    rows.to_csv(tmp_path / "results" / "musk1" / "fits.csv", index=False)
    after = written(tmp_path / "results", tmp_path / "after.md", monkeypatch)
    assert "0.123 ± 0.000" in after and "0.123 ± 0.000" not in before


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/fits.csv")), ids=lambda path: path.parent.name)
def test_every_row_says_where_it_was_measured_and_nothing_else_is_kept(path):
    rows = pd.read_csv(path)
    assert rows["measured_on"].isin(("held-out bags", "training bags", "stopping bags")).all()
    assert (rows.loc[rows["protocol"] == "nested", "measured_on"] == "held-out bags").all()
    kept = {p.relative_to(path.parent).parts[0] for p in path.parent.rglob("*")}
    assert kept <= {"fits.csv", "config.json", "environment.json", "figures"}
    assert not list(path.parent.rglob("*digits*")) and not list(path.parent.rglob("*scan*"))
