"""The surface: what psimil exports, that each name explains itself, and that importing it costs nothing."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import psimil

ROOT = Path(__file__).parents[2]
PUBLIC = [
    "GVGPMIL",
    "RBF",
    "VGPMIL",
    "Bags",
    "Constant",
    "DataWarning",
    "Density",
    "GammaMixture",
    "HyperbolicSecant",
    "InputError",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "MultiLabelMIL",
    "Prediction",
    "PsiVGPMIL",
    "PsimilError",
    "SmoothLaplace",
    "StudentT",
    "datasets",
    "density_from_log",
    "instancewise",
    "read_bags",
]
HEAVY = ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "rich.table", "psimil.estimators.psi_vgpmil")


def python(code):
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); {code}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def test_all_is_exactly_this():
    assert psimil.__all__ == PUBLIC
    assert set(PUBLIC) <= set(dir(psimil))


@pytest.mark.parametrize("name", PUBLIC)
def test_public_objects_explain_themselves(name):
    value = getattr(psimil, name)
    assert inspect.getdoc(value)
    if not inspect.ismodule(value):
        assert "Examples\n--------" in inspect.getdoc(value)


def test_datasets_explain_themselves():
    for name in psimil.datasets.__all__:
        value = getattr(psimil.datasets, name)
        assert inspect.getdoc(value)
        if inspect.isfunction(value):
            assert "Examples\n--------" in inspect.getdoc(value)


def test_figures_explain_themselves():
    import psimil.figures

    for name in psimil.figures.__all__:
        assert "Examples\n--------" in inspect.getdoc(getattr(psimil.figures, name))


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'VGPML'"):
        _ = psimil.VGPML
    with pytest.raises(ImportError):
        python_name = "VGPML"
        exec(f"from psimil import {python_name}")


def test_star_import_gives_every_public_name():
    assert python("from psimil import *; print('Bags' in dir() and 'datasets' in dir())").strip() == "True"


def test_from_import_and_attribute_give_the_same_object():
    from psimil import VGPMIL
    from psimil.estimators.psi_vgpmil import VGPMIL as HOME

    assert VGPMIL is HOME is psimil.VGPMIL


@pytest.mark.parametrize("code", ["import psimil", "import psimil.cli.main"])
def test_importing_loads_nothing_heavy(code):
    loaded = python(f"{code}; print(*sys.modules)").split()
    assert not set(HEAVY) & set(loaded)


def test_help_loads_nothing_heavy():
    code = "from psimil.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    loaded = python(f"exec({code!r})").split()
    assert "typer" in loaded
    assert not set(HEAVY) & set(loaded)
