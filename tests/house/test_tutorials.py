"""docs/tutorials: every notebook runs from its first cell to its last, and is stored without what it shows."""

import ast
import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from tutorial import Cell, page_of, read_cells, run_cells

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "tutorials"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LONG = ("head-ct",)  # a network is trained
NEEDS = {"slides": ("h5py",), "head-ct": ("torch", "pydicom", "highdicom")}
FIGURES = {"bags-in-ten-minutes", "slides", "head-ct", "honest-uncertainty"}
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_of(path):
    return [cell.source for cell in read_cells(path) if cell.kind == "code"]


def test_all_five_are_there_and_in_the_navigation():
    names = ["bags-in-ten-minutes", "head-ct", "honest-uncertainty", "reproducing-a-paper", "slides"]
    assert [path.stem for path in NOTEBOOKS] == names
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("- Tutorials:\n")[1].split("- Concepts:")[0]
    assert sorted(re.findall(r"tutorials/([\w-]+)\.md", navigation)) == sorted([*names, "gallery"])


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in NOTEBOOKS],
)
@pytest.mark.filterwarnings("ignore:draws may not represent the posterior")  # few draws, on some processors
def test_every_cell_runs_in_order(path, tmp_path, monkeypatch):
    for library in NEEDS.get(path.stem, ()):
        pytest.importorskip(library)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # for commands that a cell starts
    shown = list(run_cells(read_cells(path), tmp_path))
    assert any(below.text or below.html for below in shown)
    assert bool(sum(len(below.pictures) for below in shown)) == (path.stem in FIGURES)
    assert not re.search(r"(/home/|/tmp/|/work/|/Users/)", "".join(below.text + below.html for below in shown))


@each
def test_code_can_be_read_and_its_imports_exist(path):
    """Quick, also where running is slow: syntax, no magics, and every imported name is there."""
    for library in NEEDS.get(path.stem, ()):
        pytest.importorskip(library)
    for node in ast.walk(ast.parse("\n".join(code_of(path)))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                import_module(alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert all(hasattr(import_module(node.module), alias.name) for alias in node.names)


@each
def test_it_is_a_small_notebook_without_outputs_or_paths_of_a_machine(path):
    text = path.read_text(encoding="utf-8")
    content = json.loads(text)
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert set(content["metadata"]) <= {"kernelspec", "language_info"}
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
    for cell in content["cells"]:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
    assert len(text) < 20_000
    assert not re.search(r"(/home/|/tmp/|/work/|/Users/)", text)


def test_cells_share_names_and_show_what_jupyter_would(tmp_path):
    cells = [
        Cell("markdown", "# A title\n\nWords."),
        Cell("code", "import sys\nx = 2\nprint(sys.executable)"),
        Cell("code", "open('here.txt', 'w').close()\nx + 1"),
        Cell("code", "import pandas as pd\npd.DataFrame({'a': [x]})"),
        Cell("code", "import matplotlib.pyplot as plt\nplt.subplots()\nplt.subplots()\nplt.show()"),
    ]
    words, printed, value, table, drawn = run_cells(cells, tmp_path)
    assert words == ("", "", ())
    assert (printed.text, value.text) == ("python\n", "3\n")  # the path of the interpreter is not shown
    assert (tmp_path / "here.txt").is_file()
    assert "<td>2</td>" in table.html and "<table>" in table.html and not table.text
    assert [picture[:4] for picture in drawn.pictures] == [b"\x89PNG"] * 2


def test_a_page_links_its_notebook_and_other_pages():
    text, pictures = page_of(FOLDER / "bags-in-ten-minutes.ipynb", run=False)
    assert text.startswith("# Bags in ten minutes\n\nThis page is a notebook")
    assert "(bags-in-ten-minutes.ipynb)" in text and "(slides.md)" in text and "(slides.ipynb)" not in text
    assert pictures == {}
