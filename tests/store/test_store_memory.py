"""Imports and checks of large data need little memory."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from psimil import Bags
from psimil.data import chunks
from psimil.foundations.errors import InputError
from psimil.store import import_bags, open_store, verify_store

IMPORT = """
import sys
from psimil.store import import_bags

def kilobytes(field):
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith(field)))

import_bags(sys.argv[1], sys.argv[2] + "-warm")  # what the libraries take
before = kilobytes("VmRSS:")
import_bags(sys.argv[3], sys.argv[2], dtype="float64")
print(kilobytes("VmHWM:") - before)
"""


def test_importing_needs_little_memory(tmp_path, monkeypatch):
    """What the import of 200000 x 32 numbers (51 MB) adds to the process is far below their size."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 1 << 20)
    X = np.random.default_rng(0).normal(size=(200_000, 32))
    ids = np.repeat(np.random.default_rng(1).permutation(4000), 50)
    np.savez(tmp_path / "bags.npz", X=X, bag_ids=ids, y=ids % 2)
    tracemalloc.start()
    try:
        import_bags(tmp_path / "bags.npz", tmp_path / "store", dtype="float64")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 3
    store = open_store(tmp_path / "store")
    np.testing.assert_array_equal(store[17], X[ids == store.ids[17]])


def test_csv_import_needs_little_memory(tmp_path):
    rows = 200_000
    block = pd.DataFrame(np.round(np.random.default_rng(0).normal(size=(10_000, 32)), 2)).add_prefix("f")
    block.insert(0, "bag", np.arange(10_000) // 50)
    header, lines = block.to_csv(index=False).split("\n", 1)
    (tmp_path / "bags.csv").write_text(f"{header}\n{lines * 20}")  # every bag comes back 20 times
    (tmp_path / "one.csv").write_text("bag,f\na,1\n")
    command = [sys.executable, "-c", IMPORT, *(str(tmp_path / name) for name in ("one.csv", "store", "bags.csv"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert int(done.stdout) * 1024 < 0.5 * rows * 32 * 8, done.stdout
    assert verify_store(tmp_path / "store").instances == rows


def test_the_check_of_values_needs_little_memory():
    X = np.ones((400_000, 32), np.float32)
    tracemalloc.start()
    try:
        Bags(X, [0, len(X)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 5
    X[399_999, 3] = X[399_998, 7] = X[5, 0] = np.nan
    with pytest.raises(InputError) as caught:
        Bags(X, [0, 300_000, len(X)])
    assert str(caught.value) == "feature matrix has 3 non-finite values, first at bag 0, instance 5, feature 0."
