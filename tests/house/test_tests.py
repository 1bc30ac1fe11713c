"""Tests stand in the rooms of what they test."""

from pathlib import Path

import psimil

ROOMS = {path.name for path in Path(psimil.__file__).parent.iterdir() if path.is_dir() and path.name != "__pycache__"}
TESTS = Path(__file__).parents[1]


def test_every_test_is_in_a_room():
    """Beside the rooms: laws that everything obeys, the house itself, what tests share, and slow exact answers."""
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    assert folders <= ROOMS | {"laws", "house"}
    assert folders >= {"compute", "model", "inference", "paper", "estimators", "cluster", "laws", "house"}
    assert {path.name for path in TESTS.glob("*.py")} == {"conftest.py"}
