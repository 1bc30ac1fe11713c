"""scripts/write_heat_maps.py: the page says what the table says."""

import runpy
import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"


def written(docs, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["write_heat_maps.py", str(docs), *arguments])
        runpy.run_path(str(ROOT / "scripts" / "write_heat_maps.py"), run_name="__main__")
    return (docs / "trust" / "heat-maps.md").read_text(encoding="utf-8")


def test_the_page_is_that_of_its_table(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("heat-maps.csv", "heat-maps.json"):
        (tmp_path / "images" / name).write_bytes((IMAGES / name).read_bytes())
    assert written(tmp_path, "--page-only") == (ROOT / "docs" / "trust" / "heat-maps.md").read_text(encoding="utf-8")


def test_a_map_points_better_than_one_of_a_network_that_learned_nothing():
    """What the page says between its lines."""
    rows = pd.read_csv(IMAGES / "heat-maps.csv").set_index(["network", "seed"])
    ours, none = rows.loc["trained"], rows.loc["not trained"]
    for score in ("warmest place in blood", "share of heat in blood"):
        assert (ours[score] > 5 * ours["share of slice that is blood"]).all()
        assert ours[score].mean() > none[score].mean()
    assert len(ours) == len(none) == 5 and (ours["both"] > 20).all()


@pytest.mark.slow
def test_a_quick_run_writes_table_picture_and_page(tmp_path):
    text = written(tmp_path, "--quick")
    assert "<!--" not in text and "nan" not in text
    table = pd.read_csv(tmp_path / "images" / "heat-maps.csv")
    assert table["network"].tolist() == ["trained", "not trained"]
    assert (tmp_path / "images" / "heat-map.png").stat().st_size > 10_000
