"""Corners of the store: which value is named first, what is put on the disk, ids and parts at their ends."""

import os

import numpy as np
import pytest

from psimil.foundations.errors import InputError
from psimil.store import StoreWriter, open_store
from psimil.store.digest import HashedFile
from psimil.store.segment import SegmentWriter


def test_of_rows_in_any_order_the_first_bad_value_of_the_part_is_named(tmp_path):
    part = SegmentWriter(tmp_path / "part-0001", 1, "float32")
    part.plan(["a", "b"], np.array([2, 2]))
    part.place(np.array([3, 1, 0, 2]), np.array([[np.nan], [np.inf], [0.0], [np.nan]]))
    with pytest.raises(InputError, match="3 non-finite values, first at bag a, instance 1, feature 0"):
        part.complete()
    part.discard()


def test_a_file_is_flushed_to_the_disk_when_it_is_complete(tmp_path, monkeypatch):
    flushed, fsync = [], os.fsync

    def watched(descriptor):
        flushed.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    with HashedFile(tmp_path / "letters") as file:
        file.write(b"abc")
        assert not flushed
        file.complete()
        assert file._stream.closed
    assert flushed == [3]


def test_a_writer_that_was_refused_leaves_the_store_to_others(tmp_path):
    with StoreWriter(tmp_path / "store", 2) as writer:
        writer.add([[1.0, 2.0]])
    for refused in ({"n_features": 3}, {"n_features": 2, "dtype": "float64"}):
        with pytest.raises(InputError) as kept:
            StoreWriter(tmp_path / "store", append=True, **refused)
        assert kept.traceback  # the refused writer is still alive
        with StoreWriter(tmp_path / "store", 2, append=True) as writer:
            writer.add([[3.0, 4.0]])
    assert len(open_store(tmp_path / "store")) == 3
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["store"]


@pytest.mark.parametrize("end", [-(1 << 63), (1 << 63) - 1])
def test_whole_numbers_of_64_bits_are_ids_and_the_next_ones_are_damage(tmp_path, end):
    with StoreWriter(tmp_path / "store", 1) as writer:
        writer.add([[1.0]], id=end)
    assert open_store(tmp_path / "store").ids.tolist() == [end]
    ids = tmp_path / "store" / "part-0001" / "ids.json"
    ids.write_text(ids.read_text().replace(str(end), str(end + (1 if end > 0 else -1))))
    with pytest.raises(InputError, match="an id is out of range"):
        open_store(tmp_path / "store")


@pytest.mark.parametrize("end", [-(1 << 63), (1 << 63) - 1])
def test_the_ends_of_64_bits_are_taken_from_a_writer(tmp_path, end):
    with StoreWriter(tmp_path / "store", 1) as writer:
        with pytest.raises(InputError, match="beyond 64 bits"):
            writer.add([[1.0]], id=end + (1 if end > 0 else -1))
        writer.add([[1.0]], id=end)


@pytest.mark.parametrize("appended", [0, 1, 2])
def test_rows_are_streamed_from_every_part(tmp_path, appended):
    for number in range(appended + 1):
        with StoreWriter(tmp_path / "store", 2, append=number > 0) as writer:
            writer.add(np.full((3, 2), float(number)))
    bags = open_store(tmp_path / "store")
    np.testing.assert_array_equal(bags.stream[0 : len(bags.X)], np.repeat(np.arange(appended + 1.0), 6).reshape(-1, 2))
    np.testing.assert_array_equal(bags.stream[1:3], np.zeros((2, 2)))
    assert bags.stream[2:2].shape == (0, 2)
