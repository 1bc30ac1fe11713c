"""psimil.ct as Python users meet it: names that type checkers know, wrong calls told in one line, one seed for all."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import psimil.ct
from psimil import VGPMIL
from psimil.ct import (
    BRAIN,
    Cohort,
    CTPipeline,
    Index,
    ReadingRules,
    Scan,
    Series,
    Slices,
    Study,
    Window,
    apply_windows,
    index_folder,
    read_report,
    read_scan_labels,
    read_series,
    write_phantoms,
    write_report,
)
from psimil.ct.dicom.folder import Listing
from psimil.foundations.errors import InputError

ROOT = Path(__file__).parents[2]
HU = np.zeros((2, 4, 4), np.int16)
UP = np.array([0.0, 5.0])


def scan(number=0, size=16):
    rng = np.random.default_rng(number)
    return Scan(str(number), rng.integers(0, 80, (3, size, size)).astype(np.int16), np.arange(3.0), (1.0, 1.0))


SCANS = [scan(number) for number in range(8)]
Y = [0, 1] * 4


def test_every_public_name_is_there_and_only_those_are_listed():
    assert dir(psimil.ct) == sorted(psimil.ct.__all__)
    assert len(set(psimil.ct.__all__)) == len(psimil.ct.__all__)
    for name in psimil.ct.__all__:
        assert getattr(psimil.ct, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'CTPipelin'"):
        _ = psimil.ct.CTPipelin


def test_no_public_name_hides_a_module():
    """A function called like its module would make the module's other names unreachable."""
    modules = {path.stem for path in (ROOT / "src" / "psimil" / "ct").glob("*.py")}
    assert not modules & set(psimil.ct.__all__)


def test_importing_loads_no_torch():
    code = "import sys, psimil.ct; psimil.ct.BRAIN, psimil.ct.read_series; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "False"


def test_type_checkers_see_imports_and_no_getattr():
    """What the slow test below asks mypy, read from the syntax tree."""
    tree = ast.parse((ROOT / "src" / "psimil" / "ct" / "__init__.py").read_text(encoding="utf-8"))
    branch = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(branch.test) == "TYPE_CHECKING"
    aliases = {alias.name: f"{node.module}.{alias.name}" for node in branch.body for alias in node.names}
    assert set(aliases) == set(psimil.ct.__all__)
    homes = {name: f"psimil.ct.{module}.{name}" for name, module in psimil.ct._HOME_OF.items()}
    assert aliases == homes
    assert not [node for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.slow
def test_type_checkers_know_the_names(tmp_path):
    api = pytest.importorskip("mypy.api")
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    names = ", ".join(psimil.ct.__all__)
    right.write_text(f"from psimil.ct import {names}\nreveal_type(CTPipeline)\nreveal_type(BRAIN)\n")
    wrong.write_text("from psimil.ct import CTPipelin\n")
    options = ["--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "--follow-imports", "silent"]
    out, errors, status = api.run([*options, str(right), str(wrong)])
    assert status == 1, out + errors
    lines = out.splitlines()
    assert [line for line in lines if "error" in line] == [
        line for line in lines if "CTPipelin" in line and "wrong" in line
    ]
    assert 'has no attribute "CTPipelin"' in out
    assert "psimil.ct.pipeline.CTPipeline" in out and "psimil.ct.scans.windows.Window" in out
    assert '"Any"' not in out


WRONG = {
    "window of text": (lambda: Window("a", "b", 3), "window 'a' has level b and width 3; both must be numbers"),
    "window without width": (lambda: Window("a", 40, None), "window 'a' has level 40 and width None"),
    "windows by name": (lambda: apply_windows(HU, ["brain"]), "windows must be a sequence of Window, got ['brain']."),
    "one window": (lambda: apply_windows(HU, BRAIN), "windows must be a sequence of Window, got Window(name='brain'"),
    "no window": (lambda: apply_windows(HU, []), "no window was chosen; name at least one, e.g. psimil.ct.BRAIN."),
    "half a pixel": (lambda: apply_windows(HU, size=2.5), "size is 2.5; it must be a whole number >= 1, or None"),
    "size as text": (lambda: apply_windows(HU, size="8"), "size is '8'; it must be a whole number >= 1"),
    "slices by name": (lambda: Slices.of(scan(), ["brain"], 8), "windows must be a sequence of Window"),
    "hu as a list": (lambda: Scan("a", [[[0]]], UP, (1.0, 1.0)), "hu must be an array of numbers, got list."),
    "positions as a list": (
        lambda: Scan("a", HU, [0, 5], (1.0, 1.0)),
        "positions must be an array of numbers, got list",
    ),
    "positions too few": (
        lambda: Scan("a", HU, UP[:1], (1.0, 1.0)),
        "positions have shape (1,), expected (2,), one for",
    ),
    "no spacing": (lambda: Scan("a", HU, UP, None), "spacing must be two numbers > 0, millimetres between rows and"),
    "spacing of one": (lambda: Scan("a", HU, UP, (1.0,)), "spacing must be two numbers > 0"),
    "spacing as text": (lambda: Scan("a", HU, UP, "ab"), "spacing must be two numbers > 0"),
    "a path for scans": (
        lambda: CTPipeline().fit("scans/0042", [0]),
        "scans must be a sequence of scans or folders, got str. Write [folder] for one.",
    ),
    "a Path for scans": (
        lambda: CTPipeline().fit(Path("scans"), [0]),
        "scans must be a sequence of scans or folders, got PosixPath. Write [folder] for one.",
    ),
    "a scan for scans": (
        lambda: CTPipeline().fit(SCANS[0], [0]),
        "scans must be a sequence of scans or folders, got Scan. Write [scan] for one.",
    ),
    "nothing for scans": (
        lambda: CTPipeline().fit(None, [0]),
        "scans must be a sequence of scans or folders, got NoneTyp",
    ),
    "gp by name": (lambda: CTPipeline(gp="VGPMIL").fit(SCANS, Y), "gp must be a PsiVGPMIL estimator or None, got str."),
    "pipeline's windows": (lambda: CTPipeline(windows="brain").fit(SCANS, Y), "windows must be a sequence of Window"),
    "an index of nothing": (
        lambda: Cohort.of(Index((), {}, (), Listing((), {}))),
        "no CT study was found; the folder is empty.",
    ),
    "a folder for studies": (lambda: Cohort.of("scans"), "studies must be an Index or a sequence of Study, got str."),
    "a study for studies": (
        lambda: Cohort.of(Study("a", ())),
        "studies must be an Index or a sequence of Study, got Stu",
    ),
    "rules as a mapping": (lambda: Cohort.of([], {"skip_bad": True}), "rules must be ReadingRules, got dict."),
    "no folder": (lambda: index_folder(None), "directory must be a path (str or pathlib.Path), got NoneType."),
    "no series": (lambda: read_series(7), "source must be a path (str or pathlib.Path), got int."),
    "no labels": (lambda: read_scan_labels(None), "path must be a path (str or pathlib.Path), got NoneType."),
    "no report": (lambda: read_report(3), "path must be a path (str or pathlib.Path), got int."),
    "report of nothing": (lambda: write_report("a", None, when=None), "scan must be a ReportedScan, got NoneType."),
    "no phantoms": (lambda: write_phantoms("a", "6"), "n_scans must be a whole number >= 1, got '6'."),
    "phantoms nowhere": (lambda: write_phantoms(None, 1), "directory must be a path"),
    "no model": (lambda: CTPipeline.load(None), "directory must be a path (str or pathlib.Path), got NoneType."),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told_in_one_line(name):
    call, start = WRONG[name]
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


NETWORKS = {
    "no features": ({"n_features": 0}, "n_features must be a whole number >= 1, got 0."),
    "no attention": ({"attention_width": 0}, "attention_width must be a whole number >= 1, got 0."),
    "no windows": ({"n_windows": 0}, "n_windows must be a whole number >= 1, got 0."),
    "no blocks": ({"channels": ()}, "channels must be the width of each block, at least one, got ()."),
    "one block": ({"channels": 16}, "channels must be the width of each block, at least one, got 16."),
    "a block of none": ({"channels": (8, 0)}, "channels must be a whole number >= 1, got 0."),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_cannot_be(name):
    pytest.importorskip("torch")
    options, start = NETWORKS[name]
    with pytest.raises(InputError) as caught:
        psimil.ct.AttCNN(**options)
    assert str(caught.value).startswith(start)


def test_an_index_is_a_cohort_under_the_rules():
    series = Series("b2", "a1", "axial CT")
    index = Index((Study("a1", (series,)),), {}, (), Listing((), {}))
    cohort = Cohort.of(index, ReadingRules(skip_bad=True))
    assert [study.id for study in cohort.studies] == ["a1"] and cohort.rules.skip_bad


@pytest.mark.filterwarnings("ignore:200 inducing points")
@pytest.mark.parametrize("gp", [None, VGPMIL(n_inducing=6)])
def test_one_seed_decides_everything_and_the_given_process_is_left_alone(gp):
    pytest.importorskip("torch")

    def fitted(seed):
        return CTPipeline(size=16, epochs=1, gp=gp, random_state=seed).fit(SCANS, Y)

    one, two, other = fitted(3), fitted(3), fitted(4)
    np.testing.assert_array_equal(one.predict_dist(SCANS).instance_prob, two.predict_dist(SCANS).instance_prob)
    np.testing.assert_array_equal(one.gp_.model_.gp.Z, two.gp_.model_.gp.Z)
    assert one.gp_.random_state == two.gp_.random_state is not None
    assert one.gp_.random_state != other.gp_.random_state
    assert one.extractor_.fingerprint_ == two.extractor_.fingerprint_ != other.extractor_.fingerprint_
    assert gp is None or (gp.random_state is None and not hasattr(gp, "model_"))


def test_a_seed_of_the_process_own_is_kept():
    pytest.importorskip("torch")
    gp = VGPMIL(n_inducing=6, random_state=11)
    assert CTPipeline(size=16, epochs=1, gp=gp).fit(SCANS, Y).gp_.random_state == 11


@pytest.mark.filterwarnings("ignore:200 inducing points")
def test_the_process_of_none_is_the_default_one_with_chains():
    pytest.importorskip("torch")
    found = CTPipeline(size=16, epochs=1).fit(SCANS, Y).gp_.get_params()
    expected = VGPMIL(labels="chain").get_params()
    assert {name for name in expected if found[name] != expected[name]} == {"random_state", "feature_fingerprint"}
