"""Rows that stay on disk answer slices as an array would, the empty ones too."""

import numpy as np
import pytest

from psimil.store.rows import FileRows, SegmentedRows

ROWS = np.arange(14.0).reshape(7, 2)
SLICES = [slice(None), slice(2, 5), slice(3, 3), slice(5, 2), slice(-2, None), slice(6, 99), slice(7, 9), slice(0, 0)]


@pytest.fixture
def file_rows(tmp_path):
    """The rows in a file, after eight bytes of something else."""
    (tmp_path / "rows").write_bytes(b"12345678" + ROWS.tobytes())
    return FileRows(np.memmap(tmp_path / "rows", np.float64, "r", offset=8, shape=ROWS.shape))


@pytest.mark.parametrize("rows", SLICES, ids=str)
def test_slices_of_a_file(file_rows, rows):
    assert len(file_rows) == 7
    np.testing.assert_array_equal(file_rows[rows], ROWS[rows])
    assert file_rows[rows].shape == ROWS[rows].shape


@pytest.mark.parametrize("cuts", [(3,), (1, 6), (2, 4)], ids=str)
@pytest.mark.parametrize("rows", [*SLICES, slice(None, None, 2), slice(5, 1, -2), slice(3, 4), slice(2, 3)], ids=str)
def test_slices_of_parts(cuts, rows):
    parted = SegmentedRows(np.split(ROWS, cuts))
    np.testing.assert_array_equal(parted[rows], ROWS[rows])
    assert parted[rows].shape == ROWS[rows].shape
    assert parted.nbytes == ROWS.nbytes
