"""scripts/write_assumption.py: the page says what the table says, and verdicts follow the scores."""

import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest

from psimil.testing import TRAPS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = str(ROOT / "scripts" / "write_assumption.py")


def written(docs, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["write_assumption.py", str(docs), *arguments])
        runpy.run_path(SCRIPT, run_name="__main__")
    return (docs / "trust" / "mil-assumption.md").read_text(encoding="utf-8")


def test_a_quick_run_writes_table_and_page(tmp_path):
    text = written(tmp_path, "--quick")
    assert "<!--" not in text and "nan" not in text
    table = pd.read_csv(tmp_path / "images" / "mil-assumption.csv")
    assert set(table["data"]) == set(TRAPS)
    svm = table[(table["data"] == "single_concept") & (table["model"] == "SVM on bag statistics")].iloc[0]
    assert f"| SVM on bag statistics | {svm['alike']:.3f} (" in text and svm["turned"] < 0.5
    table.loc[table["data"] == "single_concept", "turned"] = 0.875
    table.to_csv(tmp_path / "images" / "mil-assumption.csv", index=False)
    assert text.count("| 0.875 (0.875 to 0.875) | passes |") == 0
    assert written(tmp_path, "--page-only").count("| 0.875 (0.875 to 0.875) | passes |") == 2


def test_the_page_is_that_of_its_table(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("mil-assumption.csv", "mil-assumption.json"):
        (tmp_path / "images" / name).write_bytes((ROOT / "docs" / "images" / name).read_bytes())
    kept = (ROOT / "docs" / "trust" / "mil-assumption.md").read_text(encoding="utf-8")
    assert written(tmp_path, "--page-only") == kept


def test_what_the_text_says_is_what_the_table_says():
    """The paragraphs of the page rest on these."""
    rows = pd.read_csv(ROOT / "docs" / "images" / "mil-assumption.csv")
    least, most = (rows.groupby(["data", "model"])["turned"].agg(how) for how in ("min", "max"))
    ours = ["VGPMIL", "G-VGPMIL", "VGPMIL, sampled posterior, 50 inducing points"]
    others = ["attention MIL", "smooth attention MIL", "logistic regression on bag means", 'VGPMIL, `context="bag"`']
    statistics = ["SVM on bag statistics", "random forest on bag statistics"]
    for model in [*ours, 'VGPMIL, `aggregate="max"`']:
        assert least["single_concept", model] > 0.5 and least["two_concepts", model] > 0.5
    for model in others + statistics:
        assert most["single_concept", model] < 0.5 and most["two_concepts", model] < 0.5
    assert all(most["false_frequency", model] < 0.5 for model in ours)
    assert all(least["false_frequency", model] > 0.5 for model in statistics)
    assert rows.groupby(["data", "model"]).size().eq(5).all()
