import os

import numpy as np
import pytest

from ct_files import head
from psimil.ct.dicom.folder import Limits
from psimil.ct.scans.series import read_series
from psimil.foundations.errors import InputError

nibabel = pytest.importorskip("nibabel")


def volume():
    """(S, rows, columns) with marks: the left of the patient, the back and the top are brighter."""
    hu = np.stack([head(16)] * 5).astype(np.int16)
    hu[:, :, -1] = 100
    hu[:, -1, :] = 200
    hu[-1, 8, 8] = 300
    return hu


def write(path, hu, codes="RAS", dtype=np.int16, zooms=(0.5, 0.4, 5.0)):
    """Write a volume given as in DICOM; ``codes`` are the directions of the axes in the file."""
    ras = hu.transpose(2, 1, 0)[::-1, ::-1]
    image = nibabel.Nifti1Image(np.ascontiguousarray(ras.astype(dtype)), np.diag([*zooms, 1.0]))
    wanted = nibabel.orientations.axcodes2ornt(tuple(codes))
    image = image.as_reoriented(nibabel.orientations.ornt_transform(nibabel.io_orientation(image.affine), wanted))
    nibabel.save(image, path)
    return path


@pytest.mark.parametrize("codes", ["RAS", "LPS", "LAS", "ASR", "SLP"])
@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
def test_slices_come_as_from_dicom_however_the_axes_are_stored(tmp_path, codes, ending):
    scan = read_series(write(tmp_path / f"a.{ending}", volume(), codes), hasher=str.upper)
    np.testing.assert_array_equal(scan.hu, volume())
    assert scan.id == f"A.{ending}".upper()
    assert scan.spacing == pytest.approx((0.4, 0.5))
    assert scan.thickness == 5
    np.testing.assert_allclose(np.diff(scan.positions), 5)
    assert scan.sources == ()
    assert scan.orientation == (1, 0, 0, 0, 1, 0)


def test_the_orientation_is_that_of_the_affine_and_unknown_without_one(tmp_path):
    """A volume turned by 10 degrees about the patient's axis; then the same without a place in the patient."""
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(0.1745), -np.sin(0.1745)], [np.sin(0.1745), np.cos(0.1745)]]
    ras = np.ascontiguousarray(volume().transpose(2, 1, 0)[::-1, ::-1])
    image = nibabel.Nifti1Image(ras, turn)
    nibabel.save(image, tmp_path / "a.nii")
    # Columns run against the first axis of the file: to the left and, turned, to the front.
    expected = (np.cos(0.1745), np.sin(0.1745), 0, -np.sin(0.1745), np.cos(0.1745), 0)
    np.testing.assert_allclose(read_series(tmp_path / "a.nii", hasher=str).orientation, expected, atol=1e-6)
    image.set_sform(None, 0)
    image.set_qform(None, 0)
    nibabel.save(image, tmp_path / "b.nii")
    assert read_series(tmp_path / "b.nii", hasher=str).orientation is None


def test_values_are_clipped_and_holes_are_air(tmp_path):
    hu = volume().astype(np.float32)
    hu[0, 0, :4] = [np.nan, -3024, 9000, 40.4]
    scan = read_series(write(tmp_path / "a.nii", hu, dtype=np.float32), hasher=str)
    assert scan.hu[0, 0, :4].tolist() == [-1024, -1024, 3071, 40]


def test_a_fourth_axis_of_one_is_accepted(tmp_path):
    ras = volume().transpose(2, 1, 0)[::-1, ::-1]
    for n, ok in ((1, True), (2, False)):
        nibabel.save(nibabel.Nifti1Image(np.stack([ras] * n, -1), np.eye(4)), tmp_path / "a.nii")
        if ok:
            np.testing.assert_array_equal(read_series(tmp_path / "a.nii", hasher=str).hu, volume())
        else:
            with pytest.raises(InputError, match=r"expected one volume"):
                read_series(tmp_path / "a.nii", hasher=str)


@pytest.mark.parametrize("ending", ["nii", "nii.gz"])
def test_damaged_files_are_refused_without_their_name(tmp_path, ending):
    path = write(tmp_path / f"canary.{ending}", volume())
    content = path.read_bytes()
    for damaged in (content[:100], content[:-50] if ending == "nii.gz" else content[:-500], b"no image " * 100):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"^the NIfTI file is damaged or cut short.$"):
            read_series(path, hasher=str)


def test_limits_hold_before_anything_is_unpacked(tmp_path):
    path = write(tmp_path / "a.nii.gz", volume())
    with pytest.raises(InputError, match=r"above the limit of 0 MB"):
        read_series(path, hasher=str, limits=Limits(scan_bytes=1000))
    with pytest.raises(InputError, match=r"above the limit"):
        read_series(path, hasher=str, limits=Limits(side=8))
    os.mkfifo(tmp_path / "pipe.nii")
    with pytest.raises(InputError, match=r"not a regular file"):
        read_series(tmp_path / "pipe.nii")
