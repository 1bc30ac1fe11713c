"""Rows B22 to B35: one bad slice among good ones is named with its reason, and can be left out."""

import numpy as np
import pytest

from ct_files import head, write_series, write_slice
from psimil.ct.scans.series import COUNTED, read_series
from psimil.foundations.errors import InputError

N = 5


def read(path, **options):
    return read_series(path, hasher=lambda uid: f"id-{len(uid)}", **options)


def bytes_changed(change):
    """A bad slice made from the bytes of a good one."""

    def make(path):
        write_slice(path, z=100)
        path.write_bytes(change(path.read_bytes()))

    return make


def tags(**elements):
    return lambda path: write_slice(path, z=100, **elements)


def nested(path):
    write_slice(path, z=100)
    content = path.read_bytes()
    opened = bytes.fromhex("40 00 55 05 53 51 00 00 ff ff ff ff fe ff 00 e0 ff ff ff ff")
    place = content.index(bytes.fromhex("e0 7f 10 00"))
    path.write_bytes(content[:place] + opened * 40 + content[place:])


def long_rows(content):
    """Rows of type UL with 2^31 - 1 rows, T6."""
    place = content.index(bytes.fromhex("2800 1000") + b"US")
    return content[:place] + bytes.fromhex("2800 1000") + b"UL\x04\x00\xff\xff\xff\x7f" + content[place + 10 :]


def endless(content):
    """An element that claims 4 GB before the pixel data, T6."""
    place = content.index(bytes.fromhex("e07f 1000"))
    return content[:place] + bytes.fromhex("e07f 0100 4f42 0000 f0ffffff") + content[place:]


def not_a_number(path):
    write_slice(path, z=100, RescaleSlope="7.25")
    path.write_bytes(path.read_bytes().replace(b"7.25", b"nan "))


PIXELS = 2 * 32 * 32
BAD = {
    "B22 not DICOM": (bytes_changed(lambda c: b"hello " * 50), r"not a DICOM file \(no DICM marker\)\."),
    "B22 no preamble": (bytes_changed(lambda c: c[132:]), r"not a DICOM file \(no DICM marker\)\."),
    "B23 cut header": (bytes_changed(lambda c: c[:400]), r"no pixel data; file is cut short or not an image\."),
    "B23 no pixels": (tags(PixelData=None), r"no pixel data; file is cut short or not an image\."),
    "B23 false length": (bytes_changed(endless), r"no pixel data; file is cut short or not an image\."),
    "B24 cut pixels": (bytes_changed(lambda c: c[:-1000]), rf"pixel data has {PIXELS - 1000} of {PIXELS} bytes\."),
    "B24 short pixels": (tags(PixelData=b"\0" * 100), rf"pixel data has 100 of {PIXELS} bytes\."),
    "B25 no rows": (tags(Rows=0), r"0 x 32 pixels in 1 frames: there is no image\."),
    "B25 large": (
        tags(Rows=65535, Columns=65535),
        r"65535 x 65535 pixels is above the limit 4096 x 4096 \(--max-pixels\)",
    ),
    "B25 UL rows": (bytes_changed(long_rows), r"2147483647 x 32 pixels is above the limit"),
    "B25 frames": (tags(NumberOfFrames=2**31 - 1), r"2147483647 frames are above the limit of 2048\."),
    "B27 nested": (nested, r"header nested deeper than 32 levels\."),
    "B28 bits": (tags(BitsAllocated=12, BitsStored=12), r"12 of 12 bits per pixel are used, expected 8 or 16"),
    "B28 32 bits": (tags(BitsAllocated=32, BitsStored=32), r"32 of 32 bits per pixel are used, expected 8 or 16"),
    "B28 palette": (tags(PhotometricInterpretation="PALETTE COLOR"), r"colour image, expected Hounsfield units"),
    "B29 no slope": (tags(RescaleSlope=None), r"RescaleSlope is missing; cannot convert to Hounsfield units\."),
    "B29 zero slope": (tags(RescaleSlope=0), r"RescaleSlope is 0; cannot convert to Hounsfield units\."),
    "B29 NaN slope": (not_a_number, r"RescaleSlope is nan; cannot convert to Hounsfield units\."),
    "B29 no spacing": (tags(PixelSpacing=[0, 0.5]), r"PixelSpacing is not above 0 mm\."),
    "B29 no intercept": (tags(RescaleIntercept=None), r"RescaleIntercept is missing; cannot convert"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_bad_slice_is_named_and_can_be_left_out(tmp_path, name):
    """B35, for every kind of bad slice."""
    make, reason = BAD[name]
    write_series(tmp_path, N)
    make(tmp_path / "canary")
    words = rf"^1 of 6 slices cannot be read\. file 6: {reason}.* Leave them out with skip_bad=True \(--skip-bad\)\.$"
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path)
    assert "canary" not in str(caught.value).lower()
    assert "\n" not in str(caught.value)
    scan = read(tmp_path, skip_bad=True)
    assert scan.hu[:, 0, 0].tolist() == [-1000, -999, -998, -997, -996]
    assert "incomplete 5/6" in scan.notes
    assert scan.notes[-1].startswith("file 6: ")


def test_a_bad_file_is_named_by_its_place_in_the_folder_not_by_that_of_its_slice(tmp_path):
    """Files that are no slices count, hidden ones do not, as whoever lists the folder sees it."""
    for name in (".hidden", "0-notes.txt", "1-empty"):
        (tmp_path / name).write_text("" if name.endswith("empty") else "notes")
    for place, name in enumerate("dcba"):  # the last file is the lowest slice
        write_slice(tmp_path / f"canary-{name}", z=5.0 * place, uid=name)
    lowest = tmp_path / "canary-d"
    lowest.write_bytes(lowest.read_bytes()[:-100])
    place = sorted(path.name for path in tmp_path.iterdir() if path.name[0] != ".").index(lowest.name) + 1
    said = (
        rf"^1 of 4 slices cannot be read\. file {place}: .* Files are counted by name in their folder, from 1\. Leave"
    )
    with pytest.raises(InputError, match=said):
        read(tmp_path)
    assert place == 6


def test_many_bad_slices_are_one_line(tmp_path):
    for place in range(15):
        (tmp_path / f"{place:02d}").write_bytes(b"nothing")
    files = ", ".join(f"file {number}" for number in range(1, 11))
    said = f"15 of 15 slices cannot be read. {files} and 5 more: not a DICOM file (no DICM marker). {COUNTED}"
    for skip_bad in (False, True):  # nothing is left, so that leaving out is no cure
        with pytest.raises(InputError) as caught:
            read(tmp_path, skip_bad=skip_bad)
        assert str(caught.value) == said
    write_series(tmp_path, 3)
    assert "incomplete 3/18" in read(tmp_path, skip_bad=True).notes


def test_leaving_out_is_not_advised_where_it_was_done_and_did_not_help(tmp_path):
    for path in write_series(tmp_path, 3):
        path.write_bytes(path.read_bytes()[:-100])
    for skip_bad in (False, True):
        with pytest.raises(InputError, match=r"^3 of 3 slices .*file 1, file 2, file 3: pixel data has") as caught:
            read(tmp_path, skip_bad=skip_bad)
        assert "skip" not in str(caught.value)


def test_many_reasons_are_counted(tmp_path):
    for place, path in enumerate(write_series(tmp_path, 13)[:12], start=1):
        path.write_bytes(path.read_bytes()[:-place])
    with pytest.raises(InputError, match=r"file 11: pixel data has \d+ of \d+ bytes\. And 2 reasons more\."):
        read(tmp_path)


@pytest.mark.parametrize(
    ("modality", "shown"), [("MR", "is MR"), ("CANARY", "is another or missing"), (None, "is another")]
)
def test_other_modalities_are_refused_unless_allowed(tmp_path, modality, shown):
    """B28; a modality that is no known word may be anything and is not shown."""
    write_series(tmp_path, 2, Modality=modality)
    with pytest.raises(
        InputError,
        match=rf"^file 2: modality {shown}.* expected CT \(--allow-modality\)\. In Python, name it in modalities\.$",
    ) as caught:
        read(tmp_path)
    assert "CANARY" not in str(caught.value)
    if modality == "MR":
        assert len(read(tmp_path, modalities=("CT", "MR"))) == 2


def test_colour_images_are_refused(tmp_path):
    """B28."""
    tags = {"SamplesPerPixel": 3, "PhotometricInterpretation": "RGB", "PlanarConfiguration": 0}
    write_slice(tmp_path / "a", PixelData=bytes(6 * 32 * 32), **tags)
    with pytest.raises(InputError, match=r"^file 1: colour image, expected Hounsfield units"):
        read(tmp_path)


def test_copies_and_doubles_are_noted(tmp_path):
    """B31."""
    write_series(tmp_path, 4)  # 004.dcm is at 0 mm, 001.dcm at 15 mm
    write_slice(tmp_path / "005.dcm", z=15, uid="another", InstanceNumber=5000, hu=head())
    (tmp_path / "006.dcm").write_bytes((tmp_path / "004.dcm").read_bytes())
    scan = read(tmp_path)
    assert scan.positions.tolist() == [0, 5, 10, 15]
    assert scan.hu[3, 0, 0] == -997
    assert scan.notes == (
        "file 4 and file 6 have the same SOPInstanceUID; the first was kept",
        "file 1 and file 5 have the same position; the first by InstanceNumber was kept",
    )


def test_missing_positions_and_gaps_are_noted(tmp_path):
    """B31."""
    for place in range(3):
        hu = np.full((8, 8), place)
        write_slice(tmp_path / "a" / str(9 - place), z=place, hu=hu, ImagePositionPatient=None, InstanceNumber=place)
    scan = read(tmp_path / "a")
    assert scan.hu[:, 0, 0].tolist() == [0, 1, 2]
    assert scan.notes == ("slices have no positions; order falls back to InstanceNumber",)
    write_series(tmp_path / "b", 6)
    (tmp_path / "b" / "003.dcm").unlink()
    assert read(tmp_path / "b").notes == ("gap of 10.0 mm between file 3 and file 2; slices are 5.0 mm apart",)


def test_a_bad_copy_does_not_hide_the_good_one(tmp_path):
    write_series(tmp_path, 3)
    path = tmp_path / "000.dcm"
    path.write_bytes((tmp_path / "002.dcm").read_bytes()[:-10])
    scan = read(tmp_path, skip_bad=True)
    assert scan.positions.tolist() == [0, 5, 10]
    assert scan.notes[0] == "incomplete 3/4"


@pytest.mark.parametrize("start", [b"MZ\x90\x00", b"\x7fELF"])
def test_files_that_begin_like_programs_are_noted(tmp_path, start):
    """B33."""
    path = write_slice(tmp_path / "a")
    path.write_bytes(start + path.read_bytes()[len(start) :])
    assert read(path).notes == ("file 1 begins like an executable program; the preamble was ignored",)
