import os
from copy import deepcopy

import numpy as np
import pytest
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian

from ct_files import CT_IMAGE, ENHANCED_CT, head, uid_of, write_enhanced, write_series, write_slice
from psimil.ct.dicom.folder import Limits, SliceFile
from psimil.ct.dicom.headers import read_headers
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.scan import Scan, Source
from psimil.ct.scans.series import BURNED_IN, read_series
from psimil.foundations.errors import InputError, MissingFile


def read(path, **options):
    return read_series(path, hasher=lambda uid: f"id-{len(uid)}", **options)


def test_slices_come_by_position_and_not_by_name_or_number(tmp_path):
    write_series(tmp_path, 12)
    for z in (60, 65):
        write_slice(tmp_path / f"000-{z}.dcm", z=z, InstanceNumber=1, hu=head())
    scan = read(tmp_path)
    assert scan.hu.dtype == np.int16
    assert scan.hu.shape == (14, 32, 32)
    assert scan.hu[:12, 0, 0].tolist() == list(range(-1000, -988))
    assert scan.positions.tolist() == list(range(0, 70, 5))
    assert scan.spacing == (0.5, 0.5)
    assert scan.thickness == 5
    assert scan.notes == ()
    assert len(scan) == 14


def test_a_scan_carries_what_a_report_needs(tmp_path):
    write_series(tmp_path, 3)
    scan = read(tmp_path)
    assert scan.study_uid == uid_of("study")
    assert scan.series_uid == uid_of("study/series")
    assert scan.sources == tuple(Source(CT_IMAGE, uid_of(f"study/series/{z}"), None) for z in (0.0, 5.0, 10.0))
    assert uid_of("study") not in repr(scan) + repr(scan.sources)


@pytest.mark.parametrize("as_text", [True, False])
def test_multiframe_files_are_read_frame_by_frame(tmp_path, as_text):
    path = write_enhanced(tmp_path / "m.dcm", 4)
    scan = read(str(path) if as_text else path)
    assert scan.hu[:, 0, 0].tolist() == [-1000, -999, -998, -997]
    assert scan.positions.tolist() == [0, 5, 10, 15]
    assert [source.frame for source in scan.sources] == [4, 3, 2, 1]
    assert {source.sop_class_uid for source in scan.sources} == {ENHANCED_CT}


@pytest.mark.parametrize("defined", [True, False])
@pytest.mark.parametrize("syntax", [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
def test_groups_of_frames_are_read_in_every_encoding(tmp_path, syntax, defined):
    """Against pydicom, with values of a frame that stand above those of all frames, and in other sequences."""
    from pydicom import dcmread

    path = write_enhanced(tmp_path / "m.dcm", 3, syntax=syntax)
    dataset = dcmread(path)
    groups = dataset.PerFrameFunctionalGroupsSequence
    own = deepcopy(dataset.SharedFunctionalGroupsSequence[0].PixelValueTransformationSequence[0])
    own.RescaleIntercept, second = 7, deepcopy(own)
    second.RescaleIntercept = 9  # not looked at: a group has one item
    groups[1].PixelValueTransformationSequence = [own, second]
    groups[0].FrameContentSequence = deepcopy(groups[2].PlanePositionSequence)  # a position where none belongs
    for sequence in (groups, dataset.SharedFunctionalGroupsSequence, groups[1].PixelValueTransformationSequence):
        for item in sequence:
            item.is_undefined_length_sequence_item = not defined
    dataset["PerFrameFunctionalGroupsSequence"].is_undefined_length = not defined
    dataset.save_as(path)
    images = read_headers(SliceFile(path, 1, path.stat().st_size))
    assert [image.frame for image in images] == [1, 2, 3]
    for image, group in zip(images, dcmread(path).PerFrameFunctionalGroupsSequence, strict=True):
        assert image.position == tuple(group.PlanePositionSequence[0].ImagePositionPatient)
        assert (image.orientation, image.spacing, image.thickness) == ((1, 0, 0, 0, 1, 0), (0.5, 0.5), 5)
    assert [image.intercept for image in images] == [-1024, 7, -1024]


def test_frames_without_groups_have_no_positions(tmp_path):
    stored = np.arange(3 * 16, dtype="<i2").reshape(3, 4, 4)
    path = write_slice(tmp_path / "a", hu=np.zeros((4, 4)), NumberOfFrames=3, PixelData=stored.tobytes())
    scan = read(path)
    np.testing.assert_array_equal(scan.hu, stored.astype(int) - 1024)
    assert scan.notes == ("slices have no positions; order falls back to InstanceNumber",)


def test_damaged_groups_of_frames_are_one_line(tmp_path):
    from pydicom import dcmread

    path = write_enhanced(tmp_path / "m.dcm", 3)
    dataset = dcmread(path)
    del dataset.PerFrameFunctionalGroupsSequence[2]
    dataset.save_as(path)
    with pytest.raises(InputError, match=r"^1 of 1 slices cannot be read. file 1: 2 groups describe 3 frames. "):
        read(path)


def test_a_series_of_an_index_is_read(tmp_path):
    write_series(tmp_path / "a", 4)
    write_series(tmp_path / "b", 3, series="b")
    index = index_folder(tmp_path, hasher=str)
    scans = [read_series(series) for series in index.studies[0].series]
    assert [(scan.id, len(scan)) for scan in scans] == [(uid_of("study/series"), 4), (uid_of("study/b"), 3)]


def test_scouts_do_not_disturb(tmp_path):
    write_series(tmp_path, 4)
    write_slice(tmp_path / "scout", z=50, ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"], hu=head(16))
    assert len(read(tmp_path)) == 4


def test_two_series_must_be_chosen_from(tmp_path):
    """B30."""
    write_series(tmp_path, 4)
    for z in range(3):
        write_slice(tmp_path / f"other{z}", z=z, series="other")
    with pytest.raises(
        InputError, match=r"^folder has 2 series \(4 and 3 slices\). Choose one with --series \(series= in Python\): "
    ) as caught:
        read_series(tmp_path, hasher=lambda uid: uid[-4:])
    wanted = str(caught.value).split()[-1].rstrip(".")
    assert wanted == uid_of("study/other")[-4:]
    assert len(read_series(tmp_path, hasher=lambda uid: uid[-4:], series=wanted)) == 3
    with pytest.raises(InputError, match=r"Choose one"):
        read_series(tmp_path, hasher=lambda uid: uid[-4:], series="nothing")


def test_burned_in_text_is_noted(tmp_path):
    write_series(tmp_path, 2, BurnedInAnnotation="YES")
    assert BURNED_IN in read(tmp_path).notes


def test_mended_slices_are_counted(tmp_path):
    write_series(tmp_path, 3)
    stored = (2**16 - 1 - (head().astype(np.int32) + 1024)).astype("<u2").tobytes()
    write_slice(tmp_path / "m", z=40, PhotometricInterpretation="MONOCHROME1", PixelData=stored, PixelRepresentation=0)
    scan = read(tmp_path)
    np.testing.assert_array_equal(scan.hu[3], head())
    assert scan.notes[-1] == "MONOCHROME1 inverted (1 of 4 slices)"


def test_missing_spacing_is_noted(tmp_path):
    scan = read(write_slice(tmp_path / "a", PixelSpacing=None))
    assert scan.spacing == (1, 1)
    assert scan.notes == ("PixelSpacing is missing; 1 mm is assumed",)


def test_scans_above_the_limit_are_refused_before_reading(tmp_path):
    write_series(tmp_path, 4)
    with pytest.raises(InputError, match=r"scan of 4 slices is above the limit of 0 MB"):
        read(tmp_path, limits=Limits(scan_bytes=5000))


def test_what_is_not_there_is_said_without_its_name(tmp_path):
    with pytest.raises(MissingFile, match=r"^the scan was not found"):
        read(tmp_path / "canary")
    (tmp_path / "canary").mkdir()
    with pytest.raises(InputError, match=r"^no DICOM image was found; the folder is empty.$"):
        read(tmp_path / "canary")
    os.mkfifo(tmp_path / "canary" / "pipe")
    with pytest.raises(InputError, match=r"skipped 1 file that is not a slice"):
        read(tmp_path / "canary")
    with pytest.raises(InputError, match=r"file 1: not a regular file") as caught:
        read(tmp_path / "canary" / "pipe")
    assert "canary" not in str(caught.value)


def test_the_hash_of_the_user_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("PSIMIL_ID_KEY_FILE", str(tmp_path / "key"))
    write_series(tmp_path / "a", 2)
    scan = read_series(tmp_path / "a")
    assert len(scan.id) == 16
    assert scan.id == read_series(tmp_path / "a").id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 4), np.int16), np.zeros(2)), "hu has shape"),
        ((np.zeros((2, 4, 4), np.int16), np.zeros(3)), "positions have shape"),
        ((np.zeros((2, 4, 4), np.int16), np.zeros(2), (1, 1), (Source("", "", None),)), "1 sources for 2 slices"),
    ],
)
def test_a_scan_checks_its_shapes(arguments, message):
    with pytest.raises(InputError, match=message):
        Scan("a", *arguments[:2], *(arguments[2:] or ((1, 1),)))
