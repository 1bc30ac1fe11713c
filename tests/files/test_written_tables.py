"""Tables that commands write into pages: written again they do not change, and they follow their records."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLES = {
    "write_benchmarks.py": ("results/benchmarks.jsonl", "docs/results/scaling.md"),
    "write_fuzzing.py": ("fuzz/campaigns.json", "docs/trust/security.md"),
    "write_mutants.py": ("docs/trust/mutants.csv", "docs/trust/testing.md"),
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A function that gives a page with the table of changed records, and the page as it is."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))

    def written(script, changed=lambda text: text):
        records, page = (Path(shutil.copy(ROOT / name, tmp_path)) for name in TABLES[script])
        before = page.read_text(encoding="utf-8")
        records.write_text(changed(records.read_text(encoding="utf-8")), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [script, str(records), str(page)])
        runpy.run_path(str(ROOT / "scripts" / script), run_name="__main__")
        return before, page.read_text(encoding="utf-8")

    return written


@pytest.mark.parametrize("script", TABLES)
def test_pages_are_up_to_date(write, script):
    before, after = write(script)
    assert after == before


def test_another_run_is_one_more_number(write):
    more = {"command": "benchmarks/bench_pass.py", "commit": "abc", "figures": {"benchmark": "pass", "ratio": 7.77}}
    assert ", 7.77 |" in write("write_benchmarks.py", lambda text: text + json.dumps(more) + "\n")[1]


def test_a_survivor_without_a_word_is_open(write):
    last = "inference/x.py,7,1,constant,2,1,survived,1.0,survived,\n"
    assert "| `inference/x.py:7` | `1` to `2` | open |" in write("write_mutants.py", lambda text: text + last)[1]


def test_executions_of_all_campaigns_are_added(write):
    after = write("write_fuzzing.py", lambda text: json.dumps(json.loads(text) * 2))[1]
    campaigns = json.loads((ROOT / TABLES["write_fuzzing.py"][0]).read_text(encoding="utf-8"))
    total = sum(c["executions"] for c in campaigns if c["target"] == "models")
    assert f"| `models` | {2 * total:,} |" in after
