"""The mistakes that ``scripts/plant_mistakes.py`` plants: they still have a place, and tests to notice them."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from plant_mistakes import MISTAKES  # noqa: E402


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_its_line_and_its_tests_are_there(mistake):
    assert mistake.right in (ROOT / "src" / "psimil" / mistake.file).read_text(encoding="utf-8")
    assert mistake.right != mistake.wrong
    for name in mistake.tests.split():
        assert list((ROOT / "tests").rglob(f"test_{name}.py"))


def test_there_are_enough():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 30
