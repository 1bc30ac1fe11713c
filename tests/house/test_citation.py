"""CITATION.cff names the version that is installed."""

from pathlib import Path

from psimil import __version__

ROOT = Path(__file__).parents[2]


def test_the_version_to_cite_is_the_version():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("version:")] == [f"version: {__version__}"]
