"""The house rules of the source, read from its syntax trees: rooms and their neighbours, circles, sizes, calls."""

import ast
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import psimil

ROOT = Path(psimil.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LOW = {"foundations", "compute", "model"}
CORE = LOW | {"predictive", "inference"}
# Every room with the rooms that it may import; the longest name that fits a module is its room.
NEIGHBOURS = {
    "version": set(),
    "foundations": set(),
    "compute": {"foundations"},
    "model": {"foundations", "compute"},
    "predictive": LOW,
    "inference": LOW | {"predictive"},
    "paper": CORE,
    "files": CORE | {"version", "paper"},
    "data": {"foundations", "model", "files"},
    "datasets": {"foundations", "model", "files", "data"},
    "store": {"foundations", "model", "files", "data", "datasets"},
    "cluster": CORE | {"files", "store", "paper"},
    "estimators": CORE | {"version", "files", "store", "cluster", "paper"},
    "results": CORE | {"version", "files", "data", "estimators"},
    "export": CORE | {"version", "files", "data", "estimators", "results"},
    "figures": {"foundations", "model", "files", "results"},
    "paper.baselines": {"foundations", "model", "estimators"},
    "paper.experiments": CORE
    | {"files", "datasets", "cluster", "estimators", "results", "figures", "paper"}
    | {"paper.baselines"},
    "report": {"version", "foundations", "predictive", "results", "figures"},
    "ct": set(),
    "ct.dicom": {"foundations", "files"},
    "ct.dicomweb": {"foundations", "files", "ct.dicom"},
    "ct.scans": {"foundations", "model", "files", "data", "results", "ct.dicom"},
    "ct.network": CORE | {"files", "estimators", "paper", "paper.baselines", "ct.scans"},
    "ct.pipeline": {"foundations", "predictive", "files", "estimators", "ct.scans", "ct.network"},
    "ct.report": {
        "version",
        "foundations",
        "predictive",
        "files",
        "results",
        "figures",
        "report",
        "ct.scans",
    },
    "ct.phantom": {"version", "foundations", "files", "estimators", "ct.scans", "ct.pipeline", "ct.report"},
    "viewer": {"version", "foundations", "results", "figures", "report", "ct.scans"},
    "testing": {"foundations", "model"},
    "torchmil": CORE | {"datasets", "estimators"},
}
NEIGHBOURS["cli"] = set(NEIGHBOURS)
NEIGHBOURS["__init__"] = {"version"}
NEIGHBOURS["__main__"] = {"cli"}
QUIET = {"os", "pathlib", "io", "logging", "pandas", "sys", "shutil", "tempfile", "subprocess", "socket", "matplotlib"}
LIMIT = 300


def name_of(path):
    return ".".join(("psimil", *path.relative_to(ROOT).with_suffix("").parts))


def module_of(path):
    return name_of(path).removesuffix(".__init__")


def room_of(module):
    """The room of a module, the most particular one; a folder or file that nobody listed is its own."""
    parts = module.split(".")[1:] or ["__init__"]
    inner = ".".join(parts[:2])
    return inner if inner in NEIGHBOURS else parts[0]


@lru_cache(maxsize=1)
def tree_of(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def package_of(path):
    return module_of(path).split(".") if path.name == "__init__.py" else name_of(path).split(".")[:-1]


def _at_import(node):
    """Every node that runs when the module is imported: all but the bodies of functions."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from _at_import(child)


def imported(tree, package, *, module_level_only=False):
    """Full names of what a module imports; imports for type checkers only are left out."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for branch in node.body
        for inner in ast.walk(branch)
    }
    for node in _at_import(tree) if module_level_only else ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def calls(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


IN_CORE = [f for f in FILES if room_of(module_of(f)) in CORE | {"paper"}]


def test_there_is_something_to_read():
    assert len(FILES) > 40
    assert {room_of(module_of(f)) for f in FILES} == set(NEIGHBOURS)
    assert len(IN_CORE) > 25


def test_the_hallway_is_empty():
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "version.py"}


def a_room_knows_its_neighbours_only(path):
    module, room = name_of(path), room_of(module_of(path))
    assert room in NEIGHBOURS, f"{module} is in a room that is not listed"
    for target in imported(tree_of(path), package_of(path)):
        if target.split(".")[0] == "psimil" and room_of(target) != room:
            other = room_of(target)
            assert other in NEIGHBOURS, f"{module} imports {target}, which is in no room"
            assert other in NEIGHBOURS[room], f"{module} ({room}) imports {target} ({other})"


def circle_of(graph):
    """The nodes of a circle, the first one again at its end; nothing where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def imports_of_modules(files):
    """By module, the modules that are imported when it is."""
    known = {module_of(path) for path in files}
    return {
        module_of(path): {
            target if target in known else target.rpartition(".")[0]
            for target in imported(tree_of(path), package_of(path), module_level_only=True)
        }
        for path in files
    }


def test_no_circle_of_rooms():
    """The rules themselves go one way, and so does every import that keeps them, in functions too."""
    assert not circle_of(NEIGHBOURS), " <- ".join(circle_of(NEIGHBOURS))


def test_no_circle_of_modules(files=FILES):
    circle = circle_of(imports_of_modules(files))
    assert not circle, " <- ".join(circle)


def the_core_knows_no_files_streams_or_tables(path):
    tree = tree_of(path)
    roots = {target.split(".")[0] for target in imported(tree, [], module_level_only=True)}
    assert not roots & QUIET, f"{name_of(path)} imports {sorted(roots & QUIET)}"
    used = {name for name, _ in calls(tree)}
    assert not used & {"open", "print", "input"}, f"{name_of(path)} calls {sorted(used & {'open', 'print', 'input'})}"


def files_are_short(path):
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


def nothing_runs_code_from_data(path):
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


def only_the_command_line_prints(path):
    printed = [node.lineno for name, node in calls(tree_of(path)) if name in ("print", "sys.stdout.write")]
    assert not printed, f"{name_of(path)} prints in lines {printed}"


def the_core_never_uses_the_global_random_state(path):
    allowed = ("np.random.default_rng", "np.random.Generator", "np.random.SeedSequence")
    used = [name for name, _ in calls(tree_of(path)) if name.startswith("np.random.") and not name.startswith(allowed)]
    assert not used, f"{name_of(path)} calls {used}"


def rules_of(path):
    """The rules that a file is to keep."""
    yield from (a_room_knows_its_neighbours_only, files_are_short, nothing_runs_code_from_data)
    if path in IN_CORE:
        yield from (the_core_knows_no_files_streams_or_tables, the_core_never_uses_the_global_random_state)
    if "cli" not in path.relative_to(ROOT).parts:
        yield only_the_command_line_prints


def broken(rule, path):
    """What a rule says of a file that breaks it."""
    try:
        rule(path)
    except AssertionError as error:
        return [str(error)]
    return []


@pytest.mark.parametrize("room", NEIGHBOURS)
def test_the_files_of_a_room_keep_the_rules(room):
    files = [path for path in FILES if room_of(module_of(path)) == room]
    assert [words for path in files for rule in rules_of(path) for words in broken(rule, path)] == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import pickle", nothing_runs_code_from_data),
        ("def f(t):\n    return eval(t)", nothing_runs_code_from_data),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", nothing_runs_code_from_data),
        ("import subprocess\nsubprocess.run('ls', shell=True)", nothing_runs_code_from_data),
        ("import torch\ntorch.load('x')", nothing_runs_code_from_data),
        ("print('hello')", only_the_command_line_prints),
        ("from psimil.inference.training import train", a_room_knows_its_neighbours_only),
        ("def f():\n    from psimil.paper import presets", a_room_knows_its_neighbours_only),
        ("def f():\n    from psimil import estimators", a_room_knows_its_neighbours_only),
        ("import psimil", a_room_knows_its_neighbours_only),
        ("from psimil import VGPMIL", a_room_knows_its_neighbours_only),
        ("from psimil.attic.boxes import old", a_room_knows_its_neighbours_only),
        ("from ..files import atomic", a_room_knows_its_neighbours_only),
        ("import os", the_core_knows_no_files_streams_or_tables),
        ("open('x')", the_core_knows_no_files_streams_or_tables),
        ("import numpy as np\nnp.random.normal()", the_core_never_uses_the_global_random_state),
        ("\n" * 301, files_are_short),
    ],
)
def test_the_rules_bite(tmp_path, monkeypatch, source, rule):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "model" / "culprit.py"
    path.parent.mkdir()
    path.write_text(source)
    with pytest.raises(AssertionError, match="culprit"):
        rule(path)


def house(tmp_path, monkeypatch, **sources):
    """Files of a small house, by module: ``files__atomic="import os"`` is files/atomic.py."""
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    paths = [tmp_path / f"{name.replace('__', '/', 1)}.py" for name in sources]
    for path, source in zip(paths, sources.values(), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return paths


def test_a_room_that_is_not_listed_is_refused(tmp_path, monkeypatch):
    for path in house(tmp_path, monkeypatch, attic__boxes="", boxes=""):
        with pytest.raises(AssertionError, match="boxes is in a room that is not listed"):
            a_room_knows_its_neighbours_only(path)


def test_rooms_inside_rooms_have_rules_of_their_own(tmp_path, monkeypatch):
    source = "from psimil.estimators.psi_vgpmil import VGPMIL"
    low, high = house(tmp_path, monkeypatch, paper__presets=source, paper__experiments=source)
    a_room_knows_its_neighbours_only(high)
    with pytest.raises(AssertionError, match=r"presets \(paper\) imports psimil.estimators"):
        a_room_knows_its_neighbours_only(low)


def test_a_circle_of_rooms_is_seen(monkeypatch):
    monkeypatch.setitem(NEIGHBOURS, "files", NEIGHBOURS["files"] | {"estimators"})
    with pytest.raises(AssertionError, match="files"):
        test_no_circle_of_rooms()


@pytest.mark.parametrize(
    ("first", "second", "circle"),
    [
        ("from psimil.model.b import x", "from psimil.model.a import y", True),
        ("from psimil.model import b", "import psimil.model.a", True),
        ("from psimil.model import b", "if True:\n    from .a import y", True),
        ("from psimil.model import b", "class B:\n    from psimil.model.a import y", True),
        ("from psimil.model import b", "def f():\n    from psimil.model.a import y", False),
        ("from psimil.model import b", "if TYPE_CHECKING:\n    from psimil.model.a import y", False),
        ("from psimil.model import b", "if not TYPE_CHECKING:\n    from psimil.model.a import y", True),
    ],
)
def test_circles_of_modules_are_seen(tmp_path, monkeypatch, first, second, circle):
    files = house(tmp_path, monkeypatch, model__a=first, model__b=second)
    if not circle:
        return test_no_circle_of_modules(files)
    with pytest.raises(AssertionError, match=r"psimil\.model\.[ab] <- psimil\.model"):
        test_no_circle_of_modules(files)
