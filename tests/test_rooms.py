"""The house rules of the source, read from its syntax trees: directions of imports, sizes, forbidden calls."""

import ast
from pathlib import Path

import pytest

import psimil

ROOT = Path(psimil.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
ROOMS = ("foundations", "model", "inference", "practice")
QUIET = {"os", "pathlib", "io", "logging", "pandas", "sys", "shutil", "tempfile", "subprocess", "socket", "matplotlib"}
LIMIT = 300


def name_of(path):
    return ".".join(("psimil", *path.relative_to(ROOT).with_suffix("").parts))


def room_of(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS[:3] else "practice"


def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(tree, package, *, module_level_only=False):
    """Full names of what a module imports; imports for type checkers only are left out."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    nodes = tree.body if module_level_only else list(ast.walk(tree))
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def each(files):
    return pytest.mark.parametrize("path", files, ids=[name_of(f) for f in files])


CORE = [f for f in FILES if room_of(name_of(f)) != "practice"]


def test_there_is_something_to_read():
    assert len(FILES) > 40
    assert {room_of(name_of(f)) for f in FILES} == set(ROOMS)
    assert len(CORE) > 25


@each(FILES)
def test_imports_point_down(path):
    module = name_of(path)
    room = ROOMS.index(room_of(module))
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for target in imported(tree_of(path), package):
        if target.split(".")[0] != "psimil" or target == "psimil":
            continue
        assert ROOMS.index(room_of(target)) <= room, f"{module} ({ROOMS[room]}) imports {target} ({room_of(target)})"


@each(CORE)
def test_the_core_does_not_import_the_package_itself(path):
    assert "psimil" not in set(imported(tree_of(path), name_of(path).split(".")[:-1]))


@each(CORE)
def test_the_core_knows_no_files_streams_or_tables(path):
    tree = tree_of(path)
    roots = {target.split(".")[0] for target in imported(tree, [], module_level_only=True)}
    assert not roots & QUIET, f"{name_of(path)} imports {sorted(roots & QUIET)}"
    used = {name for name, _ in calls(tree)}
    assert not used & {"open", "print", "input"}, f"{name_of(path)} calls {sorted(used & {'open', 'print', 'input'})}"


@each(FILES)
def test_files_are_short(path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LIMIT, f"{name_of(path)} has {lines} lines, above {LIMIT}"


FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "skops"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads"}
FORBIDDEN_ENDINGS = (
    "torch.load",
    "yaml.load",
    "joblib.load",
    "yaml.unsafe_load",
    "pd.read_pickle",
    "pandas.read_pickle",
)


@each(FILES)
def test_nothing_runs_code_from_data(path):
    tree, module = tree_of(path), name_of(path)
    roots = {target.split(".")[0] for target in imported(tree, module.split(".")[:-1])}
    assert not roots & FORBIDDEN_MODULES, f"{module} imports {sorted(roots & FORBIDDEN_MODULES)}"
    for name, node in calls(tree):
        where = f"{module}:{node.lineno}"
        assert name not in FORBIDDEN_CALLS, f"{where} calls {name}"
        assert not name.endswith(FORBIDDEN_ENDINGS), f"{where} calls {name}"
        for keyword in node.keywords:
            if keyword.arg in ("shell", "allow_pickle"):
                assert ast.unparse(keyword.value) == "False", f"{where} sets {keyword.arg}"


@each([f for f in FILES if "cli" not in f.relative_to(ROOT).parts])
def test_only_the_command_line_prints(path):
    printed = [node.lineno for name, node in calls(tree_of(path)) if name in ("print", "sys.stdout.write")]
    assert not printed, f"{name_of(path)} prints in lines {printed}"


@each(CORE)
def test_the_core_never_uses_the_global_random_state(path):
    allowed = ("np.random.default_rng", "np.random.Generator", "np.random.SeedSequence")
    used = [name for name, _ in calls(tree_of(path)) if name.startswith("np.random.") and not name.startswith(allowed)]
    assert not used, f"{name_of(path)} calls {used}"


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("import pickle", test_nothing_runs_code_from_data),
        ("def f(t):\n    return eval(t)", test_nothing_runs_code_from_data),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", test_nothing_runs_code_from_data),
        ("import subprocess\nsubprocess.run('ls', shell=True)", test_nothing_runs_code_from_data),
        ("import torch\ntorch.load('x')", test_nothing_runs_code_from_data),
        ("print('hello')", test_only_the_command_line_prints),
        ("from psimil.inference.training import train", test_imports_point_down),
        ("def f():\n    from psimil import estimator", test_imports_point_down),
        ("import os", test_the_core_knows_no_files_streams_or_tables),
        ("open('x')", test_the_core_knows_no_files_streams_or_tables),
        ("import numpy as np\nnp.random.normal()", test_the_core_never_uses_the_global_random_state),
        ("\n" * 301, test_files_are_short),
    ],
)
def test_the_rules_bite(tmp_path, monkeypatch, source, test):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "model" / "culprit.py"
    path.parent.mkdir()
    path.write_text(source)
    with pytest.raises(AssertionError, match="culprit"):
        test(path)
