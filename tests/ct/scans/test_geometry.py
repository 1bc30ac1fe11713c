from pathlib import Path

import numpy as np
import pytest

from psimil.ct.dicom.folder import SliceFile
from psimil.ct.dicom.headers import Header
from psimil.ct.scans.geometry import arrange, normal_of, plane_of

AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def headers(zs, orientation=AXIAL, numbers=None, move=(0, 0, 1), **more):
    numbers = numbers or range(len(zs))
    return [
        Header(
            SliceFile(Path("x"), place + 1, 9),
            sop_instance=f"1.{place}",
            position=tuple(z * np.array(move, float)),
            orientation=orientation,
            instance_number=number,
            **more,
        )
        for place, (z, number) in enumerate(zip(zs, numbers, strict=True))
    ]


def files(arrangement):
    return [header.file.number for header in arrangement.slices]


def test_order_is_along_the_normal_and_ignores_names_and_numbers():
    found = arrange(headers([10, 0, 15, 5], numbers=[1, 2, 3, 4]))
    assert files(found) == [2, 4, 1, 3]
    assert found.positions.tolist() == [0, 5, 10, 15]
    assert found.notes == ()


@pytest.mark.parametrize("orientation", [AXIAL, (-1, 0, 0, 0, 1, 0), (0, 1, 0, 1, 0, 0)])
def test_axial_slices_go_from_feet_to_head_however_the_image_is_turned(orientation):
    assert files(arrange(headers([5, 0, 10], orientation))) == [2, 1, 3]


def test_order_of_rotated_volumes_does_not_depend_on_the_rotation():
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        normal = np.cross(q[0], q[1])
        zs = rng.permutation(6) * 2.5
        found = arrange(headers(list(zs), (*q[0], *q[1]), move=normal))
        np.testing.assert_allclose(np.diff(found.positions), 2.5)
        assert files(found) in (list(np.argsort(zs) + 1), list(np.argsort(-zs) + 1))


def test_gantry_tilt_is_noted_and_measured_along_the_normal():
    angle = np.radians(20)
    found = arrange(headers([0, 5, 10], (1, 0, 0, 0, np.cos(angle), -np.sin(angle))))
    assert found.notes == ("gantry tilt of 20.0 degrees",)
    np.testing.assert_allclose(np.diff(found.positions), 5 * np.cos(angle))


def test_slices_at_one_place_are_kept_once_by_instance_number():
    found = arrange(headers([0, 5, 5.0004, 10], numbers=[1, 3, 2, 4]))
    assert files(found) == [1, 2, 4]
    assert found.notes == ("file 2 and file 3 have the same position; the first by InstanceNumber was kept",)
    found = arrange(headers([0, 5, 5, 10], numbers=[1, 3, 2, 4]))
    assert files(found) == [1, 3, 4]


def test_copies_of_a_file_are_kept_once():
    one, two = headers([0, 5])
    found = arrange([one, two, two.__class__(**(two.__dict__ | {"file": SliceFile(Path("y"), 3, 9)}))])
    assert files(found) == [1, 2]
    assert found.notes == ("file 2 and file 3 have the same SOPInstanceUID; the first was kept",)


def test_many_notes_are_shortened():
    found = arrange(headers([0] * 8 + [5]))
    assert len(found.slices) == 2
    assert found.notes[3] == "and 4 more like that"


def test_gaps_are_noted():
    found = arrange(headers([0, 5, 10, 25, 30]))
    assert found.notes == ("gap of 15.0 mm between file 3 and file 4; slices are 5.0 mm apart",)


@pytest.mark.parametrize("missing", ["position", "orientation"])
def test_without_positions_the_instance_number_decides(missing):
    parts = headers([0, 5, 10], numbers=[3, 1, 2], thickness=4.0)
    parts = [Header(**(part.__dict__ | {missing: None})) for part in parts]
    found = arrange(parts)
    assert files(found) == [2, 3, 1]
    assert found.positions.tolist() == [0, 4, 8]
    assert found.notes == ("slices have no positions; order falls back to InstanceNumber",)


@pytest.mark.parametrize(
    ("orientation", "plane"),
    [
        (AXIAL, "axial"),
        ((1, 0, 0, 0, 0, -1), "coronal"),
        ((0, 1, 0, 0, 0, -1), "sagittal"),
        ((1, 0, 0, 0, 0.7071, 0.7071), "oblique"),
        ((1, 0, 0, 0, 0.87, -0.5), "axial"),
        ((1, 0, 0, 1, 0, 0), ""),
        ((0,) * 6, ""),
        ((1.4, 0, 0, 0, 1, 0), ""),
        ((0.8, 0, 0, 0, 1, 0), ""),
    ],
)
def test_planes(orientation, plane):
    assert plane_of(orientation) == plane


def test_normal_is_a_unit_vector():
    normal = normal_of((1, 0, 0, 0, 0.99, -0.15))
    assert normal @ normal == pytest.approx(1)
