"""Real files: slices of CQ500 and of the RSNA challenge, one of them compressed."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from pydicom import dcmread

from psimil.ct.scans.index import index_folder
from psimil.ct.scans.series import read_series
from psimil.ct.scans.study import choose_series
from psimil.ct.scans.windows import BLOOD, apply_windows

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[4] / "shared" / "data")) / "ct"
SERIES, SINGLE = DATA / "cq500_head_series", DATA / "single"
pytestmark = [pytest.mark.data, pytest.mark.skipif(not DATA.is_dir(), reason="the CT files are not at hand")]


@pytest.fixture(scope="module")
def scan():
    return read_series(SERIES, hasher=str)


def single(name):
    return read_series(SINGLE / f"{name}.dcm", hasher=str)


def test_the_series_is_in_order(scan):
    assert scan.hu.shape == (30, 512, 512)
    assert (np.diff(scan.positions) > 0).all()
    assert scan.notes == ("gantry tilt of 8.5 degrees",)
    heights = {}
    for path in SERIES.iterdir():
        dataset = dcmread(path, stop_before_pixels=True)
        heights[dataset.SOPInstanceUID] = float(dataset.ImagePositionPatient[2])
    assert [heights[source.sop_instance_uid] for source in scan.sources] == sorted(heights.values())
    by_name = [dcmread(path, stop_before_pixels=True).SOPInstanceUID for path in sorted(SERIES.iterdir())]
    assert by_name != [source.sop_instance_uid for source in scan.sources]


def test_hounsfield_units_are_those_of_a_head(scan):
    middle = scan.hu[15]
    assert scan.hu.min() == -1024
    assert middle[5:30, 250:260].max() < -850  # air above the head
    inside = middle[200:312, 200:312]
    assert 15 < np.median(inside) < 45  # brain
    assert np.percentile(scan.hu, 99.5) > 700  # bone
    for i, source in enumerate(scan.sources[:3]):
        (path,) = (
            p for p in SERIES.iterdir() if dcmread(p, stop_before_pixels=True).SOPInstanceUID == source.sop_instance_uid
        )
        dataset = dcmread(path)
        expected = np.clip(dataset.pixel_array.astype(int) + int(dataset.RescaleIntercept), -1024, 3071)
        np.testing.assert_array_equal(scan.hu[i], expected)


def test_the_compressed_slice_equals_its_plain_twin(scan):
    packed = single("cq500_jpeglossless")
    (twin,) = (i for i, s in enumerate(scan.sources) if s.sop_instance_uid == packed.sources[0].sop_instance_uid)
    assert scan.positions[twin] == packed.positions[0]
    np.testing.assert_array_equal(packed.hu[0], scan.hu[twin])


def test_the_bleed_is_bright_in_the_blood_window():
    scan = single("cq500_ct1_5mm")
    image = apply_windows(scan.hu, [BLOOD], size=128)[0, 0]
    bleed, mirrored = image[57:65, 44:58], image[57:65, 70:84]
    assert bleed.mean() > mirrored.mean() + 0.1
    assert bleed.min() > np.percentile(mirrored, 90)


@pytest.mark.parametrize("name", ["pydicom_CT_small", "pydicom_data_693_UNCR", "rsna_ID_000012eaf"])
def test_other_files_are_read(name):
    scan = single(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydicom warns of UIDs that are none
        dataset = dcmread(SINGLE / f"{name}.dcm")
        pixels = dataset.pixel_array.astype(int)
    expected = np.clip(pixels + int(dataset.RescaleIntercept), -1024, 3071)
    np.testing.assert_array_equal(scan.hu[0], expected)
    assert scan.notes == ()


def test_the_index_finds_every_study():
    index = index_folder(DATA, hasher=str)
    assert index.problems == ()
    chosen = [choose_series(study) for study in index.studies]
    assert sorted(series.n_slices for series in chosen) == [1, 1, 1, 1, 30]
    doubled = max(chosen, key=lambda series: series.n_slices)
    assert any("have the same SOPInstanceUID" in note for note in doubled.notes)
