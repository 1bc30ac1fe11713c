"""Scans are read once, kept within a number of bytes, and never shown when they are not those of the prediction."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from ct_files import write_series
from psimil.ct.scans.cohort import ReadingRules
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.scan import Scan
from psimil.foundations.errors import InputError, MissingFile
from psimil.report.pictures import encode_png
from psimil.viewer.state import grid
from psimil.viewer.volumes import Volumes, spacing_of, volumes_of
from viewed import HASHER

SLICES, SIZE = 5, 16
POSITIONS = 5.0 * np.arange(SLICES)
BYTES = 2 * SLICES * SIZE * SIZE


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        write_series(tmp_path / name, SLICES, size=SIZE, study=name)
    return tmp_path


def series_of(folder):
    return {part.id: part for study in index_folder(folder, hasher=HASHER).studies for part in study.series}


def counted(folder, max_bytes):
    """Volumes that note which series they read."""
    found, read = series_of(folder), []

    def reader(series):
        read.append(series.id)
        return Scan(series.id, np.zeros((SLICES, SIZE, SIZE), np.int16), POSITIONS, (1.0, 1.0))

    return Volumes(found, reader, max_bytes), list(found), read


def test_slices_of_files_are_in_order(folder):
    (wanted, *_) = series_of(folder)
    volumes = volumes_of(folder, [wanted, "unknown"], ReadingRules(), HASHER)
    header = volumes.header(wanted)
    assert len(volumes) == 1 and (header.rows, header.columns) == (SIZE, SIZE) and volumes.header("unknown") is None
    corner = [int(volumes.slice(wanted, POSITIONS, n)[0, 0]) for n in range(SLICES)]
    assert corner == [-1000 + n for n in range(SLICES)]
    assert volumes.slice("unknown", POSITIONS, 0) is None


@pytest.mark.parametrize("orientation", [(1, 0, 0, 0, 1, 0), (-1, 0, 0, 0, 1, 0), (1, 0, 0, 0, 0, -1), None])
def test_orientation_and_spacing_are_those_of_the_files(tmp_path, orientation):
    more = {} if orientation is None else {"PixelSpacing": [0.5, 0.25]}
    given = None if orientation is None else list(orientation)
    write_series(tmp_path, SLICES, size=SIZE, ImageOrientationPatient=given, **({"PixelSpacing": None} | more))
    (wanted,) = series_of(tmp_path)
    volumes = volumes_of(tmp_path, [wanted], ReadingRules(), HASHER)
    assert volumes.header(wanted).orientation == orientation
    assert spacing_of(volumes.header(wanted)) == (None if orientation is None else (0.5, 0.25))
    assert volumes.header("unknown") is None and spacing_of(None) is None


@pytest.mark.parametrize("wrong", [(0.0, 0.5), (-1.0, 0.5), (0.5, 1e6)])
def test_a_spacing_that_cannot_be_is_none(folder, wrong):
    name, series = next(iter(series_of(folder).items()))
    slices = tuple(replace(header, spacing=wrong) for header in series.slices)
    assert spacing_of(Volumes({name: replace(series, slices=slices)}, None).header(name)) is None


def test_other_ids_match_nothing(folder):
    (wanted, *_) = series_of(folder)
    assert len(volumes_of(folder, [wanted], ReadingRules(), str.upper)) == 0
    with pytest.raises(MissingFile):
        volumes_of(folder / "none", [wanted], ReadingRules(), HASHER)


def test_the_last_scans_are_kept(folder):
    volumes, (a, b, c), read = counted(folder, 2 * BYTES)
    for name in (a, a, b, a, c, a, c):
        volumes.slice(name, POSITIONS, 0)
        assert volumes.nbytes <= 2 * BYTES
    assert read == [a, b, c]
    volumes.slice(b, POSITIONS, 0)
    volumes.slice(c, POSITIONS, 0)
    volumes.slice(a, POSITIONS, 0)
    assert read == [a, b, c, b, a]


def test_a_scan_above_the_limit_is_kept_alone(folder):
    volumes, (a, b, _), read = counted(folder, BYTES // 2)
    for name in (a, a, a, b, b):
        assert volumes.slice(name, POSITIONS, 0) is not None
        assert volumes.nbytes == BYTES
    assert read == [a, b]


def test_many_at_once_read_a_scan_once(folder):
    volumes, (a, *_), read = counted(folder, 2 * BYTES)
    threads = [threading.Thread(target=volumes.slice, args=(a, POSITIONS, 0)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [a]


@pytest.mark.parametrize(
    "positions", [POSITIONS[:-1], POSITIONS + 1.0, POSITIONS[::-1]], ids=["fewer", "moved", "turned"]
)
def test_other_slices_than_those_predicted_are_not_shown(folder, positions):
    volumes, (a, *_), _ = counted(folder, 2 * BYTES)
    assert volumes.slice(a, positions, 0) is None


def test_a_scan_that_cannot_be_read_has_no_slices_and_is_not_tried_again(folder):
    tried = []

    def reader(series):
        tried.append(series.id)
        raise InputError("no.")

    found = series_of(folder)
    volumes = Volumes(found, reader)
    assert [volumes.slice(next(iter(found)), POSITIONS, 0) for _ in range(3)] == [None] * 3
    assert len(tried) == 1


def test_files_that_went_away_give_no_slices(folder):
    (wanted, *_) = series_of(folder)
    volumes = volumes_of(folder, [wanted], ReadingRules(), HASHER)
    for path in folder.rglob("*.dcm"):
        path.unlink()
    assert volumes.slice(wanted, POSITIONS, 0) is None


def test_a_series_without_slices_has_no_shape(folder):
    name, series = next(iter(series_of(folder).items()))
    assert Volumes({name: replace(series, slices=())}, None).header(name) is None


def test_a_grid_and_its_png_hold_every_pixel():
    from io import BytesIO

    from PIL import Image

    images = np.random.default_rng(0).integers(0, 256, (19, 5, 7), dtype=np.uint8)
    picture = grid(images)
    assert picture.shape == (10, 112)
    np.testing.assert_array_equal(picture[5:, 14:21], images[18])
    assert not picture[5:, 21:].any()
    with Image.open(BytesIO(encode_png(picture))) as image:
        np.testing.assert_array_equal(np.asarray(image), picture)
