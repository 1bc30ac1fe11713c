"""The C library that fails on purpose, compiled once per session of tests."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


def compiled(folder):
    """The file for LD_PRELOAD; without a compiler the test is skipped."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = Path(folder) / "faulty_libc.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-o", library, SOURCE, "-ldl"], check=True, timeout=600)
    return library


def failing(call, number, name, after=0):
    """Variables that make a call on the temporary files of ``name`` fail."""
    part = f"/.psimil-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}-"
    return {"FAULT_CALL": call, "FAULT_ERRNO": str(int(number)), "FAULT_PATH": part, "FAULT_AFTER": str(after)}
