import os
import tracemalloc
import zlib

import numpy as np
import pytest
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

from ct_files import slice_dataset, write_slice
from psimil.ct.dicom import headers
from psimil.ct.dicom.folder import Limits, SliceFile
from psimil.ct.dicom.headers import read_headers
from psimil.foundations.errors import InputError

NAMES = ["PatientName", "PatientID", "InstitutionName", "StudyDate", "PatientBirthDate", "ProtocolName"]


def header_of(path, **limits):
    return read_headers(SliceFile(path, 1, os.stat(path).st_size), Limits(**limits))[0]


def nested(depth, defined=False):
    """A data set with sequences inside sequences."""
    inner = Dataset()
    inner.CodeValue = "x"
    for _ in range(depth):
        outer = Dataset()
        outer.add(DataElement(0x00400555, "SQ", Sequence([inner])))
        outer[0x00400555].is_undefined_length = not defined
        inner.is_undefined_length_sequence_item = not defined
        inner = outer
    return inner[0x00400555].value


@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_technical_values_are_read(tmp_path, syntax):
    tags = {"ConvolutionKernel": "BONEPLUS", "ContrastBolusAgent": "yes"}
    path = write_slice(tmp_path / "a", z=7.5, syntax=syntax, BurnedInAnnotation="YES", NumberOfFrames="1", **tags)
    header = header_of(path)
    assert header.syntax == syntax
    assert (header.rows, header.columns, header.frames, header.bits_stored, header.signed) == (32, 32, 1, 16, True)
    assert header.position == (-100, -100, 7.5)
    assert header.orientation == (1, 0, 0, 0, 1, 0)
    assert (header.slope, header.intercept, header.thickness, header.spacing) == (1, -1024, 5, (0.5, 0.5))
    assert (header.sharp, header.contrast, header.burned_in) == (True, True, True)
    assert header.image_type == ("ORIGINAL", "PRIMARY", "AXIAL")
    assert header.pixel_length == 2048
    assert path.read_bytes()[header.pixel_place :] == slice_dataset().PixelData


def test_nothing_about_a_person_is_kept_and_uids_are_not_shown(tmp_path):
    path = write_slice(tmp_path / "canary.dcm", **dict.fromkeys(NAMES[:3], "canary"), ConvolutionKernel="canary")
    header = header_of(path)
    assert "canary" not in repr(header).lower()
    assert header.study not in repr(header)
    kept = {name: value for name, value in vars(header).items() if name != "file"}
    assert "canary" not in repr(kept).lower()


def test_long_headers_are_read_to_their_end(tmp_path):
    path = write_slice(tmp_path / "a", EncapsulatedDocument=b"x" * 300_000, z=3)
    assert header_of(path).position == (-100, -100, 3)


@pytest.mark.parametrize("defined", [True, False])
@pytest.mark.parametrize("depth", [1, 32, 33, 200])
def test_nesting_is_counted_without_recursion(tmp_path, depth, defined):
    path = write_slice(tmp_path / "a", AcquisitionContextSequence=nested(depth, defined))
    if depth <= 32:
        assert header_of(path).rows == 32
    else:
        with pytest.raises(InputError, match=r"^header nested deeper than 32 levels.$"):
            header_of(path)


def test_nesting_that_exhausts_the_stack_of_pydicom(tmp_path):
    """B27, T6: 3000 levels of undefined length, written by hand before the pixel data."""
    path = write_slice(tmp_path / "a")
    content = path.read_bytes()
    opened = bytes.fromhex("40 00 55 05 53 51 00 00 ff ff ff ff fe ff 00 e0 ff ff ff ff")
    place = content.index(bytes.fromhex("e0 7f 10 00"))
    path.write_bytes(content[:place] + opened * 3000 + content[place:])
    with pytest.raises(InputError, match=r"nested deeper than 32 levels"):
        header_of(path)


def test_icons_with_pixels_of_their_own_are_passed_over(tmp_path):
    icon = Dataset()
    icon.Rows = icon.Columns = 64
    icon.PixelData = b"\0" * 64
    icon["PixelData"].VR = "OB"
    path = write_slice(tmp_path / "a", IconImageSequence=[icon])
    assert (header_of(path).rows, header_of(path).pixel_length) == (32, 2048)


def test_a_deflated_bomb_is_refused_early(tmp_path):
    """B26, T5."""
    path = write_slice(tmp_path / "a", syntax="1.2.840.10008.1.2.1.99")
    content = path.read_bytes()
    place = headers.read_meta(content)[1]
    stream = zlib.compressobj(9, wbits=-15)
    path.write_bytes(content[:place] + stream.compress(bytes(80 << 20)) + stream.flush())
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(InputError, match=r"^decompressed size above 64 MB.$"):
        header_of(path)
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()
    path.write_bytes(content[:place] + b"\xff" * 40 + content[place + 40 :])
    with pytest.raises(InputError, match=r"^its deflated content is damaged.$"):
        header_of(path)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"side": 16}, r"32 x 32 pixels is above the limit 16 x 16 \(--max-pixels\)"),
        ({"file_bytes": 1 << 10}, "file is above the limit of 0 MB for one slice"),
        ({"multiframe_bytes": 1 << 10}, "file is above the limit of 0 MB"),
    ],
)
def test_limits_can_be_set(tmp_path, limits, message):
    path = write_slice(tmp_path / "a")
    with pytest.raises(InputError, match=message):
        header_of(path, **limits)


def test_every_cut_of_a_file_is_refused_or_read(tmp_path):
    """No exception but InputError at any length; a header that is whole is read."""
    content = write_slice(tmp_path / "whole").read_bytes()
    place = header_of(tmp_path / "whole").pixel_place
    path = tmp_path / "cut"
    for n in range(0, place + 20, 3):
        path.write_bytes(content[:n])
        if n >= place + 12:
            assert header_of(path).rows == 32
            continue
        try:
            header_of(path)
        except InputError as error:
            assert str(error) in (
                "no pixel data; file is cut short or not an image.",
                "not a DICOM file (no DICM marker).",
            )


def test_random_changes_raise_nothing_unexpected(tmp_path):
    rng = np.random.default_rng(0)
    content = bytearray(write_slice(tmp_path / "whole").read_bytes())
    place = header_of(tmp_path / "whole").pixel_place
    path = tmp_path / "changed"
    for _ in range(600):
        changed = content.copy()
        for where in rng.integers(132, place, rng.integers(1, 6)):
            changed[where] = rng.integers(256)
        path.write_bytes(changed)
        try:
            header_of(path)
        except InputError as error:
            assert len(str(error)) < 120


def test_files_without_a_transfer_syntax_are_understood(tmp_path):
    """And elements that switch to implicit encoding in an explicit file."""
    content = write_slice(tmp_path / "a").read_bytes()
    place = content.index(b"\x02\x00\x10\x00UI")
    length = int.from_bytes(content[place + 6 : place + 8], "little")
    (tmp_path / "a").write_bytes(content[:place] + content[place + 8 + length :])
    header = header_of(tmp_path / "a")
    assert (header.syntax, header.rows) == ("", 32)
    rows = content.index(b"\x28\x00\x10\x00US")
    (tmp_path / "b").write_bytes(content[: rows + 4] + b"\x02\0\0\0" + content[rows + 8 :])
    assert header_of(tmp_path / "b").rows == 32
