"""Files of a store that are longer than one block: the manifest counts the blocks, and damage is located."""

import json

import numpy as np
import pytest

from psimil import store
from psimil.foundations.errors import InputError
from psimil.store import StoreWriter, open_store

BYTES = 8 * 5 * 2  # of the features


@pytest.fixture(params=[BYTES, BYTES - 1, BYTES // 2, 33], ids=lambda size: f"blocks of {size}")
def path(request, tmp_path, monkeypatch):
    for module in (store.digest, store.manifest):
        monkeypatch.setattr(module, "BLOCK", request.param)
    with StoreWriter(tmp_path / "store", 2, dtype="float64") as writer:
        writer.add(np.arange(10.0).reshape(5, 2), 1, "a")
    return tmp_path / "store"


def test_long_files_open_and_verify(path):
    assert open_store(path, verify=True).X[4].tolist() == [8.0, 9.0]


def test_the_manifest_counts_blocks_of_files_longer_than_one(path):
    found = json.loads((path / "manifest.json").read_text())["parts"][0]["files"]["features.bin"]
    block = store.manifest.BLOCK
    assert len(found["blocks"]) == (0 if block >= BYTES else int(np.ceil(BYTES / block)))


def test_damage_is_located_by_its_block(path):
    file, block = path / "part-0001" / "features.bin", store.digest.BLOCK
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    first = (BYTES - 1) // block * block
    where = "" if block >= BYTES else f" between bytes {first} and {BYTES}"
    with pytest.raises(InputError, match=f"its checksum differs{where}\\."):
        open_store(path, verify=True)


def test_progress_is_told_for_every_block(path, monkeypatch):
    monkeypatch.setattr(store.digest, "READ", store.digest.BLOCK)
    steps = []
    manifest = store.verify_store(path, lambda: steps.append(1))
    expected = sum(max(1, int(np.ceil(file.bytes / store.digest.BLOCK))) for file in manifest.parts[0].files.values())
    assert len(steps) == store.reader.verify_steps(manifest) == expected
