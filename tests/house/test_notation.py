"""docs/mathematics/notation.md leads from every equation of the paper to a function whose docstring names it."""

import ast
import re
from pathlib import Path

import pytest

import psimil

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "mathematics" / "notation.md"
SOURCE = Path(psimil.__file__).parent
ROW = re.compile(r"^\| \((\d+)\) \| .* \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
CITED = re.compile(r"Eqs?\. ((?:\(?\d+\)?(?:, | and | to )?)+)")
EQUATIONS = 67
NOT_COMPUTED = {16, 21, 22, 63}


def rows():
    """(equation, function, file) of every entry; a file stands for all functions or each has its own."""
    table = PAGE.read_text(encoding="utf-8").split("## Every equation of the paper")[1]
    for number, functions, files in ROW.findall(table):
        names, places = (re.findall(r"`([^`]+)`", cell) for cell in (functions, files))
        for name, place in zip(names, places if len(places) > 1 else places * len(names), strict=True):
            yield int(number), name, place


def docstring(place, name):
    """The docstring of a function, class or method, read from the syntax tree; None where there is no such name."""
    path = ROOT / place if place.startswith("tests/") else SOURCE / place
    node = ast.parse(path.read_text(encoding="utf-8"))
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        node = next((n for n in node.body if isinstance(n, kinds) and n.name == part), None)
        if node is None:
            return None
    return ast.get_docstring(node) or ""


def equations(text):
    """The numbers a docstring cites: "Eq. (4)", "Eqs. (8) and (23)", "Eqs. (44) to (53)", over line breaks too."""
    found = set()
    for cited in CITED.findall(" ".join(text.split())):
        numbers = [int(n) for n in re.findall(r"\d+", cited)]
        found |= set(numbers)
        found |= {n for a, b in re.findall(r"(\d+)\)? to \(?(\d+)", cited) for n in range(int(a), int(b) + 1)}
    return found


ROWS = list(rows())


def test_the_page_has_every_equation_once():
    table = PAGE.read_text(encoding="utf-8").split("## Every equation of the paper")[1]
    assert [int(row[0]) for row in ROW.findall(table)] == list(range(1, EQUATIONS + 1))
    assert {number for number, _, _ in ROWS} == set(range(1, EQUATIONS + 1)) - NOT_COMPUTED


@pytest.mark.parametrize(("number", "name", "place"), ROWS, ids=[f"{n}-{name}" for n, name, _ in ROWS])
def test_the_function_exists_and_names_the_equation(number, name, place):
    text = docstring(place, name)
    assert text is not None, f"{place} has no {name}"
    assert number in equations(text), f"{name} in {place} does not name Eq. ({number})"


def test_every_equation_that_a_docstring_cites_exists():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                cited = equations(ast.get_docstring(node) or "")
                assert cited <= set(range(1, EQUATIONS + 1)), f"{path.name} cites {sorted(cited)}"


def test_the_reader_of_citations_reads_all_forms():
    assert equations("Eq. (4); may be inf") == {4}
    assert equations("(Eq. 28) and pi") == {28}
    assert equations("Eqs. (54), (55), (61) and (62) derive") == {54, 55, 61, 62}
    assert equations("Eqs. (44) to (47)\n    derive it") == {44, 45, 46, 47}
    assert equations("needs 3 numbers (4)") == set()


def test_what_does_not_exist_is_noticed():
    assert docstring("model/sparse_gp.py", "local_update") is None
    assert 25 not in equations(docstring("paper/natural_steps.py", "global_update"))
