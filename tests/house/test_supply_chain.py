"""What the project takes from others: pins, hashes, safe versions, licences, and calls that run code from data."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import psimil

SOURCE = Path(psimil.__file__).parent
ROOT = SOURCE.parents[1]
FILES = sorted(SOURCE.rglob("*.py"))
sys.path.insert(0, str(ROOT / "scripts"))

from write_hashes import document, hashes, pins  # noqa: E402
from write_sbom import bill, needs  # noqa: E402

# Below these versions a hole is known that matters here: PyTorch files, DICOM paths, image codecs, HTTP, the cluster.
SAFE = {"torch": "2.11", "pydicom": "3.0.2", "pillow": "13.0", "starlette": "1.1"}
SAFE_BELOW = {"tornado": "6.5.7", "msgpack": "1.2.1", "jinja2": "3.1.6", "h11": "0.16", "filelock": "3.20.3"}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DIRECT = [Requirement(line) for line in PROJECT["dependencies"]]
DIRECT += [Requirement(line) for needed in PROJECT["optional-dependencies"].values() for line in needed]
PINS = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
HASHED = (ROOT / "requirements-hashed.txt").read_text(encoding="utf-8")
SBOM = json.loads((ROOT / "sbom.cdx.json").read_text(encoding="utf-8"))


def floor(requirement):
    """The lowest version that a requirement allows, None when it has none."""
    lower = [Version(s.version) for s in requirement.specifier if s.operator in (">=", "==", "~=", ">")]
    return max(lower, default=None)


def test_every_requirement_has_a_lowest_version_and_a_pin_that_fits():
    for requirement in DIRECT:
        name = canonicalize_name(requirement.name)
        assert floor(requirement) is not None, f"{name} has no lowest version"
        assert name in PINS, f"{name} is not in constraints.txt"
        assert requirement.specifier.contains(PINS[name]), f"{name} {PINS[name]} does not fit {requirement}"


def test_what_requirements_allow_is_safe():
    named = [(canonicalize_name(requirement.name), requirement) for requirement in DIRECT]
    assert {"torch", "pydicom", "pillow"} <= {name for name, _ in named}
    low = [str(requirement) for name, requirement in named if name in SAFE and floor(requirement) < Version(SAFE[name])]
    assert not low, f"raise the lowest version of {', '.join(low)}"


def test_what_is_pinned_is_safe():
    checked = {name: lowest for name, lowest in (SAFE | SAFE_BELOW).items() if name in PINS}
    assert len(checked) >= 6
    for name, lowest in checked.items():
        assert Version(PINS[name]) >= Version(lowest), f"{name} {PINS[name]} is below {lowest}"


def test_hashes_cover_the_pins():
    assert pins(HASHED) == PINS
    blocks = re.split(r"^(?=[a-z0-9])", HASHED, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINS)
    for block in blocks:
        first, *sums = [line.strip(" \\") for line in block.strip().splitlines()]
        assert sums and len(set(sums)) == len(sums), first
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in sums), first


def test_constraints_have_no_hashes_as_pip_refuses_them_there():
    assert "--hash" not in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def page(*files):
    return "".join(f'<a href="../{name}#sha256={n:064x}">{name}</a>\n' for n, name in enumerate(files))


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        ("one_two-1.0-py3-none-any.whl", True),
        ("one_two-1.0-py2.py3-none-any.whl", True),
        ("one_two-1.0-cp311-cp311-win_amd64.whl", True),
        ("one_two-1.0-cp38-abi3-manylinux_2_17_x86_64.whl", True),
        ("one_two-1.0%2Bcpu-cp312-cp312-linux_x86_64.whl", False),
        ("one_two-1.0-cp310-cp310-win_amd64.whl", False),
        ("one_two-1.0-pp311-pypy311_pp73-win_amd64.whl", False),
        ("one_two-1.0.tar.gz", False),
        ("one_two-1.0.1-py3-none-any.whl", False),
        ("one-1.0-py3-none-any.whl", False),
        ("nonsense.whl", False),
    ],
)
def test_only_wheels_that_can_be_installed_are_hashed(file, kept):
    assert hashes(page("other.txt", file), "one-two", "1.0") == [f"{1:064x}"] * kept


def test_the_hashed_file_is_read_back():
    text = document({"b": ("2", ["0" * 64]), "a": ("1.0", ["1" * 64, "2" * 64])})
    assert pins(text) == {"a": "1.0", "b": "2"}
    assert text.count("--hash=sha256:") == 3 and text.endswith("0\n")


def test_the_bill_lists_what_is_pinned():
    assert (SBOM["bomFormat"], SBOM["specVersion"]) == ("CycloneDX", "1.6")
    assert {part["name"]: part["version"] for part in SBOM["components"]} == PINS
    assert SBOM["metadata"]["component"]["name"] == "psimil"
    refs = {part["bom-ref"] for part in (*SBOM["components"], SBOM["metadata"]["component"])}
    assert {link["ref"] for link in SBOM["dependencies"]} == refs
    assert {below for link in SBOM["dependencies"] for below in link["dependsOn"]} <= refs


def test_the_bill_says_who_needs_what():
    scopes = {part["name"]: part["scope"] for part in SBOM["components"]}
    assert {name for name, _ in needs(PROJECT["dependencies"])} <= {n for n, s in scopes.items() if s == "required"}
    assert (scopes["pydicom"], scopes["pytest"], scopes["numpy"]) == ("optional", "excluded", "required")


def test_licences_allow_use():
    for part in SBOM["components"]:
        words = json.dumps(part.get("licenses", []))
        assert part.get("licenses"), f"{part['name']} has no licence"
        assert part["scope"] == "excluded" or not re.search(r"GPL|General Public", words), f"{part['name']}: {words}"


def test_a_bill_of_one_part():
    project = {
        "version": "1",
        "license": "MIT",
        "dependencies": ["numpy"],
        "optional-dependencies": {"dev": ["pytest"]},
    }
    found = bill({"numpy": "2.4", "pytest": "9"}, project)
    assert [(part["name"], part["scope"]) for part in found["components"]] == [
        ("numpy", "required"),
        ("pytest", "excluded"),
    ]
    assert found["dependencies"][0] == {"ref": "pkg:pypi/psimil@1", "dependsOn": ["pkg:pypi/numpy@2.4"]}


MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "skops", "code", "jsonpickle"}
CALLS = {
    "eval", "exec", "compile", "__import__", "builtins.eval", "builtins.exec", "os.system", "os.popen",
    "torch.load", "torch.jit.load", "torch.hub.load", "torch.package.PackageImporter", "joblib.load",
    "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load", "pandas.read_pickle", "pandas.read_hdf",
    "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell", "tempfile.mktemp",
    "sklearn.externals.joblib.load", "numpy.lib.npyio.load",
}  # fmt: skip
NOT_PICKLED = {"numpy.load": 2, "numpy.save": 2, "numpy.lib.format.read_array": 1}  # arguments before allow_pickle


def breaches(source):
    """What a source does that could run code from data, however the names were imported."""
    tree = ast.parse(source)
    names, found = {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                a.asname or a.name.split(".")[0]: a.name if a.asname else a.name.split(".")[0] for a in node.names
            }
            found += [a.name for a in node.names if a.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            found += [node.module] * (node.module.split(".")[0] in MODULES)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            full = full_name(node, names)
            found += [full] * (full in CALLS)
        if isinstance(node, ast.Call):
            full = full_name(node.func, names)
            for keyword in node.keywords:
                if keyword.arg in ("shell", "allow_pickle") and ast.unparse(keyword.value) != "False":
                    found.append(f"{full}({keyword.arg})")
            if len(node.args) > NOT_PICKLED.get(full, len(node.args)):
                found.append(f"{full}(allow_pickle)")
    return found


def full_name(node, names):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])


def test_nothing_in_the_source_runs_code_from_data():
    found = {str(path.relative_to(SOURCE)): breaches(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name: breached for name, breached in found.items() if breached} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pickle", "pickle"),
        ("from pickle import loads", "pickle"),
        ("import torch as t\nt.load('x', weights_only=True)", "torch.load"),
        ("from torch import load as read\nread('x')", "torch.load"),
        ("from joblib import load\nf = load", "joblib.load"),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", "numpy.load(allow_pickle)"),
        ("import numpy as np\nnp.load('x', None, True)", "numpy.load(allow_pickle)"),
        ("import numpy as np\nnp.load('x', allow_pickle=trusted)", "numpy.load(allow_pickle)"),
        ("def f(t):\n    return eval(t)", "eval"),
        ("exec('x')", "exec"),
        ("from os import system\nsystem('ls')", "os.system"),
        ("import os\nos.system('ls')", "os.system"),
        ("import subprocess\nsubprocess.run('ls', shell=True)", "subprocess.run(shell)"),
        ("import yaml\nyaml.load(text)", "yaml.load"),
        ("from yaml import unsafe_load", None),
        ("from yaml import unsafe_load\nunsafe_load(text)", "yaml.unsafe_load"),
        ("import pandas as pd\npd.read_pickle('x')", "pandas.read_pickle"),
    ],
)
def test_the_check_bites(source, found):
    assert breaches(source) == ([] if found is None else [found])


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.load('x', allow_pickle=False)",
        "model.eval()",
        "import json\njson.loads('1')",
        "from psimil.files.model_file import load_model\nload_model('x')",
        "import re\nre.compile('x')",
    ],
)
def test_the_check_lets_harmless_calls_pass(source):
    assert breaches(source) == []
