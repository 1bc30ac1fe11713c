"""Files that tests of several modules write."""

import numpy as np
import pytest


@pytest.fixture
def write(tmp_path):
    def write(content, name="bags.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def savez(tmp_path):
    def savez(**arrays):
        path = tmp_path / "bags.npz"
        np.savez(path, **arrays)
        return path

    return savez
