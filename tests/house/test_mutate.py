"""The operators of scripts/mutants.py, and the import hook of scripts/mutate.py; no long runs."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from mutants import mutants, sample  # noqa: E402
from mutate import SOURCE, Planted, left_out  # noqa: E402
from mutation_tests import TESTS, files_for  # noqa: E402


def texts(source):
    return {(m.operator, m.apply(source)) for m in mutants("a.py", source)}


@pytest.mark.parametrize(
    ("source", "operator", "changed"),
    [
        ("x = a * b", "arithmetic", "x = (a / b)"),
        ("x = a < b", "comparison", "x = (a <= b)"),
        ("x = a is None", "comparison", "x = (a is not None)"),
        ("x = a and b", "and/or", "x = (a or b)"),
        ("x = not a", "not removed", "x = (a)"),
        ("x = -a", "minus removed", "x = (a)"),
        ("x = 3", "constant", "x = 4"),
        ("x = 0.0", "constant", "x = 1.0"),
        ("x = 0.25", "constant", "x = 0.5"),
        ("x += a", "augmented", "x -= a"),
        ("x += a", "deleted", "pass"),
        ("print(a)", "deleted", "pass"),
        ("if a:\n    b", "negated if", "if (not a):\n    b"),
        ("x = [a for a in b if a]", "negated if", "x = [a for a in b if (not a)]"),
        ("x = {'θ': a + b}", "arithmetic", "x = {'θ': (a - b)}"),
    ],
)
def test_each_operator_makes_its_mistake(source, operator, changed):
    assert (operator, changed) in texts(source)


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Add 1 + 1.\n\n    Examples\n    --------\n    >>> 1 + 1\n    2\n    """',
        "x: Annotated[int, 3]",
        "def f(a: int | None) -> Literal[1]: ...",
        "raise ValueError(f'{a + 1} is not {b}')",
        "assert a == 1, b + 1",
        "__all__ = [a + b]",
        "x = f'{a + 1}'",
        "x = a + 'text'",
        "Alias = int | None",
        "if TYPE_CHECKING:\n    x = 1",
    ],
)
def test_what_is_no_behaviour_is_left_alone(source):
    assert texts(source) == set()


def test_conditions_are_turned_around_only_once():
    assert [m.after for m in mutants("a.py", "if a == b:\n    c")] == ["(a != b)"]
    assert [m.after for m in mutants("a.py", "if not a:\n    c")] == ["(a)"]


@pytest.mark.parametrize("name", ["predictive/novelty.py", "store/rows.py", "store/segment.py"])
def test_every_mutant_of_the_source_is_another_program(name):
    source = (SOURCE / name).read_text(encoding="utf-8")
    tree, found = ast.dump(ast.parse(source)), mutants(name, source)
    assert all(ast.dump(ast.parse(m.apply(source))) != tree for m in found)
    assert len({m.key for m in found}) == len(found)


def test_samples_are_spread_over_the_files_and_longer_ones_go_on():
    of_files = {name: mutants(name, "\n".join(f"x = {i}" for i in range(n))) for name, n in (("a", 100), ("b", 50))}
    drawn = sample(of_files, 30, 0)
    assert [m.file for m in drawn].count("a") == 20
    assert sample(of_files, 60, 0)[:30] == drawn
    assert sample(of_files, 30, 1) != drawn


def test_the_import_hook_gives_one_module_another_text(monkeypatch):
    path, name = SOURCE / "predictive" / "novelty.py", "psimil.predictive.novelty"
    source, real = path.read_text(encoding="utf-8"), importlib.import_module(name)
    monkeypatch.setattr(sys, "meta_path", [Planted(path, f"{source}\nPLANTED = 1\n"), *sys.meta_path])
    monkeypatch.setattr(sys.modules["psimil.predictive"], "novelty", real)  # so that both are put back
    monkeypatch.delitem(sys.modules, name)
    assert importlib.import_module(name).PLANTED == 1
    assert not hasattr(real, "PLANTED")
    assert path.read_text(encoding="utf-8") == source


@pytest.mark.parametrize("module", TESTS)
def test_every_module_has_tests_that_exist(module):
    assert all((ROOT / file).exists() for file in files_for(f"{module}.py")[:-1])
    assert (SOURCE / module).is_dir() or (SOURCE / f"{module}.py").is_file()


def test_tests_that_are_long_or_beyond_the_budget_are_left_out():
    seconds = {"a": {"a::long": 60.0, "a::short": 1.5}, "b": {f"b::{i}": 1.0 for i in range(20)}}
    out = left_out(["a", "b", "module"], seconds | {"module": {"module::doctest": 0.1}})
    assert "a::long" in out and "a::short" not in out
    assert "b::0" not in out and "b::19" in out
    assert "module::doctest" not in out
