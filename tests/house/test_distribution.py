"""Wheel and source archive install in an empty environment without a compiler, and fit there."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIT = """
import warnings
from psimil import VGPMIL, __version__
from psimil.datasets import load_musk1
warnings.simplefilter("ignore")
data = load_musk1()
model = VGPMIL(n_inducing=10, max_iter=3, random_state=0).fit(data[0], data[1])
print(__version__, model.predict_proba(data[0]).shape)
"""
NO_COMPILER = {
    **os.environ,
    "CC": "/bin/false",
    "CXX": "/bin/false",
    "PYTHONPATH": "",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}


def run(*command, cwd=None):
    done = subprocess.run(
        list(map(str, command)), env=NO_COMPILER, cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "venv", folder / "builder")
    run(folder / "builder" / "bin" / "pip", "install", "-q", "hatchling>=1.27,<2")
    run(folder / "builder" / "bin" / "hatchling", "build", "-d", folder / "out", cwd=ROOT)
    return folder / "out"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_installs_and_fits(built, kind, tmp_path):
    (package,) = built.glob(kind)
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    run(tmp_path / "empty" / "bin" / "pip", "install", "-q", "-c", ROOT / "constraints.txt", package)
    said = run(tmp_path / "empty" / "bin" / "python", "-c", FIT, cwd=tmp_path)
    assert said.split()[0] in package.name and said.strip().endswith("(92, 2)")
    assert "fit" in run(tmp_path / "empty" / "bin" / "psimil", "--help")


@pytest.mark.slow
def test_the_archives_hold_the_package_and_no_data_of_others(built):
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(source) as archive:
        names += archive.getnames()
    assert any(name.endswith("psimil/py.typed") for name in names)
    assert any(name.endswith("LICENSE") for name in names)
    assert not any(name.endswith((".dcm", ".nii", ".nii.gz", "idx3-ubyte.gz", ".pyc")) for name in names)
