"""The table of docs/scaling.md says what results/benchmarks.jsonl says: written again, it does not change."""

import json
import runpy
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "results" / "benchmarks.jsonl"


def rewritten(records, page, monkeypatch):
    """The page after the script has put the table of the records into it."""
    monkeypatch.setattr(sys, "argv", ["write_benchmarks.py", str(records), str(page)])
    runpy.run_path(str(ROOT / "scripts" / "write_benchmarks.py"), run_name="__main__")
    return page.read_text(encoding="utf-8")


def test_the_page_is_that_of_the_records(tmp_path, monkeypatch):
    page = Path(shutil.copy(ROOT / "docs" / "scaling.md", tmp_path))
    before = page.read_text(encoding="utf-8")
    assert rewritten(RECORDS, page, monkeypatch) == before


def test_another_run_is_one_more_number(tmp_path, monkeypatch):
    page = Path(shutil.copy(ROOT / "docs" / "scaling.md", tmp_path))
    records = Path(shutil.copy(RECORDS, tmp_path))
    more = {"command": "benchmarks/bench_pass.py", "commit": "abc", "figures": {"benchmark": "pass", "ratio": 7.77}}
    with records.open("a", encoding="utf-8") as file:
        file.write(json.dumps(more) + "\n")
    assert ", 7.77 |" in rewritten(records, page, monkeypatch)
