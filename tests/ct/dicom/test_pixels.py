from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ImplicitVRLittleEndian

from ct_files import head, write_slice
from psimil.ct.dicom.folder import SliceFile
from psimil.ct.dicom.headers import Header
from psimil.ct.dicom.pixels import to_hu
from psimil.ct.scans.series import read_series

PLAIN = Header(SliceFile(Path("a"), 1, 9), signed=True, slope=1.0, intercept=-1024.0)


def hu_of(stored, **changes):
    stored = np.asarray(stored)
    out = np.empty(stored.shape, np.int16)
    notes = to_hu(stored, replace(PLAIN, **changes), out)
    return out.tolist(), notes


def read(path):
    return read_series(path, hasher=str)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.uint8, np.int8, np.int32])
@pytest.mark.parametrize(
    ("slope", "intercept"),
    [(1.0, -1024.0), (1.0, 0.0), (2.0, -1024.0), (0.5, -24.25), (1.0, 40000.0), (1.0, -32768.0), (-1.0, 100.0)],
)
def test_rescaling_equals_the_formula(dtype, slope, intercept):
    info = np.iinfo(np.int16 if dtype is np.int32 else dtype)
    stored = np.unique(np.linspace(info.min, info.max, 1999).astype(dtype))
    expected = np.clip(np.rint(slope * stored.astype(float) + intercept), -1024, 3071)
    found, notes = hu_of(stored, slope=slope, intercept=intercept, signed=info.min < 0)
    assert found == expected.tolist()
    assert notes == ()


def test_padding_becomes_air_also_when_it_is_bright():
    assert hu_of(np.array([-2000, 0, 1064], np.int16), padding=-2000)[0] == [-1024, -1024, 40]
    note = ("padding of 3071 HU made air",)
    assert hu_of(np.array([63536, 1064], np.uint16), padding=63536, signed=False) == ([-1024, 40], note)
    stored = np.array([4000, 4050, 4100, 1064], np.uint16)
    assert hu_of(stored, padding=4090, padding_limit=4000, signed=False)[0] == [-1024, -1024, 3071, 40]


def test_below_air_is_clipped():
    assert hu_of(np.array([-3024, -2000, -1024], np.int16), intercept=0.0)[0] == [-1024, -1024, -1024]


def test_monochrome1_is_inverted_and_noted():
    found, notes = hu_of(np.array([4095, 3031], np.uint16), signed=False, bits_stored=12, photometric="MONOCHROME1")
    assert found == [-1024, 40]
    assert notes == ("MONOCHROME1 inverted",)
    assert hu_of(np.array([-1, -1065], np.int16), photometric="MONOCHROME1")[0] == [-1024, 40]


def test_wrapped_12_bit_values_are_mended():
    changes = {"signed": False, "bits_stored": 12, "intercept": 0.0}
    found, notes = hu_of(np.array([0, 40, 3095, 3096, 4095], np.uint16), **changes)
    assert found == [0, 40, 3071, -1000, -1]
    assert notes == ("wrapped 12-bit values mended",)
    assert hu_of(np.array([0, 40, 3000], np.uint16), **changes) == ([0, 40, 3000], ())
    assert hu_of(np.array([4095], np.uint16), **(changes | {"intercept": -1024.0})) == ([3071], ())


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian])
def test_other_encodings_give_the_same_slice(tmp_path, syntax):
    hu = head(blood=4)
    tags = {}
    if syntax == ExplicitVRBigEndian:
        tags["PixelData"] = (hu.astype(np.int32) + 1024).astype(">i2").tobytes()
    scan = read(write_slice(tmp_path / "a", hu=hu, syntax=syntax, **tags))
    np.testing.assert_array_equal(scan.hu[0], np.clip(hu, -1024, 3071))
    assert scan.spacing == (0.5, 0.5)


@pytest.mark.parametrize("signed", [False, True])
def test_8_bit_slices_are_read(tmp_path, signed):
    stored = np.arange(64).reshape(8, 8).astype(np.int8 if signed else np.uint8)
    tags = {"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7, "PixelRepresentation": int(signed)}
    path = write_slice(
        tmp_path / "a", hu=np.zeros((8, 8)), PixelData=stored.tobytes(), RescaleIntercept=-10, RescaleSlope="2", **tags
    )
    np.testing.assert_array_equal(read(path).hu[0], 2 * stored.astype(int) - 10)


def test_unsigned_slices_are_read(tmp_path):
    hu = head()
    stored = (hu.astype(np.int32) + 1024).astype("<u2")
    path = write_slice(tmp_path / "a", hu=hu, PixelData=stored.tobytes(), PixelRepresentation=0)
    np.testing.assert_array_equal(read(path).hu[0], hu)


def test_slope_and_intercept_are_those_of_each_slice(tmp_path):
    for place, (slope, intercept) in enumerate([(1, -1024), (2, -1000), ("0.5", 7)]):
        write_slice(
            tmp_path / str(place), z=place, hu=np.full((4, 4), 0), RescaleSlope=slope, RescaleIntercept=intercept
        )
    assert read(tmp_path).hu[:, 0, 0].tolist() == [0, 1048, 519]
