import os

import numpy as np
import pytest

from ct_files import head, uid_of, write_enhanced, write_series, write_slice
from psimil.ct.dicom import headers
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.study import choose_series
from psimil.foundations.errors import InputError

READ = os.pread


def short(uid):
    return f"id{sum(map(ord, uid)) % 9973:04d}"


def index(folder, **options):
    return index_folder(folder, hasher=short, **options)


def series_of(folder, **options):
    return [part for study in index(folder, **options).studies for part in study.series]


def test_no_pixels_are_read(tmp_path, monkeypatch):
    write_series(tmp_path, 3, size=256)
    asked = []
    monkeypatch.setattr(headers.os, "pread", lambda fd, n, place: asked.append(place + n) or READ(fd, n, place))
    assert series_of(tmp_path)[0].n_slices == 3
    assert len(asked) == 3
    assert max(asked) <= 1 << 14


def test_studies_and_series_are_told_apart(tmp_path):
    write_series(tmp_path / "x", 12, study="one", series="thick")
    write_series(tmp_path / "x2", 30, study="one", series="thin", spacing=1.0)
    write_series(tmp_path / "y", 11, study="two", series="thick")
    found = index(tmp_path)
    assert [(study.id, len(study.series)) for study in found.studies] == [
        (short(uid_of("one")), 2),
        (short(uid_of("two")), 1),
    ]
    thin, thick = found.studies[0].series
    assert (thin.n_slices, thin.thickness, thin.coverage, thin.kind) == (30, 1, 29, "axial CT")
    assert (thick.n_slices, thick.thickness, thick.coverage, thick.id) == (12, 5, 55, short(uid_of("one/thick")))
    assert thick.problems == thick.notes == found.problems == ()
    assert list(thick.positions) == sorted(thick.positions)


def test_slices_of_one_series_that_make_no_volume_are_split(tmp_path):
    """B30: orientations, sizes and frames of reference."""
    write_series(tmp_path / "a", 6)
    write_slice(tmp_path / "b", z=1, ImageOrientationPatient=[1, 0, 0, 0, 0, -1])
    write_slice(tmp_path / "c", z=2, hu=head(16))
    write_slice(tmp_path / "d", z=3, FrameOfReferenceUID="1.2.3")
    write_slice(tmp_path / "e", z=30, ImageOrientationPatient=[1, 0.0001, 0, 0, 0.99999, -0.0001])
    parts = series_of(tmp_path)
    plain = short(uid_of("study/series"))
    assert [(part.n_slices, part.id) for part in parts] == [
        (7, plain),
        (1, f"{plain}-2"),
        (1, f"{plain}-3"),
        (1, f"{plain}-4"),
    ]
    assert sorted(part.kind for part in parts) == ["axial CT"] * 3 + ["coronal CT"]


def test_what_is_no_ct_slice_is_left_out_and_counted(tmp_path):
    write_series(tmp_path / "a", 5)
    write_slice(tmp_path / "b", z=1, ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
    write_slice(tmp_path / "c", z=2, SOPClassUID="1.2.840.10008.5.1.4.1.1.7", uid="c")
    write_slice(tmp_path / "d", z=3, ImageType=["DERIVED", "SECONDARY", "OTHER"], uid="d")
    write_slice(tmp_path / "e", z=4, ImageType=["DERIVED", "PRIMARY", "SCREEN SAVE"], uid="e")
    write_slice(tmp_path / "f", z=5, Modality="MR", uid="f")
    write_slice(tmp_path / "g", z=6, SOPClassUID="1.2.840.10008.5.1.4.1.1.4", uid="g")
    found = index(tmp_path)
    assert found.left_out == {"another kind of object": 1, "another modality": 1, "scout": 1, "secondary capture": 3}
    assert [part.n_slices for part in found.studies[0].series if part.usable] == [5]
    kinds = {part.kind for part in series_of(tmp_path, modalities=("CT", "MR"))}
    assert "axial MR" in kinds
    assert "another modality" not in kinds


def test_derived_axial_images_are_slices(tmp_path):
    write_series(tmp_path, 5, ImageType=["DERIVED", "SECONDARY", "AXIAL"])
    assert [part.kind for part in series_of(tmp_path)] == ["axial CT"]


def test_files_of_the_rsna_challenge_lack_most_elements(tmp_path):
    gone = dict.fromkeys(["SOPClassUID", "FrameOfReferenceUID", "ImageType", "InstanceNumber"])
    for place, z in enumerate([20, 0, 10]):
        write_slice(tmp_path / str(place), z=z, **gone)
    (part,) = series_of(tmp_path)
    assert part.kind == "axial CT"
    assert part.positions == (0, 10, 20)


def test_thickness_falls_back_to_the_distance_of_slices(tmp_path):
    for z in (0, 3, 6):
        write_slice(tmp_path / str(z), z=z, SliceThickness=None)
    assert series_of(tmp_path)[0].thickness == 3


def test_missing_uids_are_a_problem_and_folders_keep_scans_apart(tmp_path):
    for folder in ("a", "b"):
        for z in (0, 5):
            write_slice(tmp_path / folder / f"{z}.dcm", z=z, SeriesInstanceUID=None, uid=f"{folder}{z}")
    parts = series_of(tmp_path)
    assert [part.n_slices for part in parts] == [2, 2]
    assert parts[0].problems == ("2 slices have no SeriesInstanceUID; they are grouped by folder",)
    assert parts[0].id != parts[1].id


def test_problems_are_listed_with_slice_and_reason(tmp_path):
    write_series(tmp_path / "a", 4)
    write_slice(tmp_path / "a" / "900.dcm", z=100, RescaleSlope=0)
    (tmp_path / "a" / "950").write_bytes(b"not an image at all")
    write_series(tmp_path / "b", 4, series="other")
    found = index(tmp_path)
    reason = "file 6: not a DICOM file (no DICM marker)."
    assert found.problems == (f"folder 1, {reason}",)
    first, second = found.studies[0].series
    assert first.problems == ("file 5: RescaleSlope is 0; cannot convert to Hounsfield units.", reason)
    assert second.problems == ()
    assert second.unread == ()


def test_multiframe_files_are_series_too(tmp_path):
    write_enhanced(tmp_path / "m.dcm", 6)
    (part,) = series_of(tmp_path)
    assert (part.n_slices, part.thickness, part.coverage, part.kind) == (6, 5, 25, "axial CT")
    assert [header.frame for header in part.slices] == [6, 5, 4, 3, 2, 1]


def test_nothing_shown_has_a_header_value_or_a_name(tmp_path):
    write_series(tmp_path / "canary", 3, PatientName="canary", SeriesDescription="canary", Modality="CANARY", uid=None)
    write_slice(tmp_path / "canary" / "canary.dcm", z=99, uid="x", PatientName="canary", RescaleSlope=None)
    (tmp_path / "canary" / "zcanary").write_bytes(b"canary")
    found = index(tmp_path)
    shown = repr(found) + repr([(study, study.series, [s.slices for s in study.series]) for study in found.studies])
    shown += repr(found.problems) + repr([part.problems for part in series_of(tmp_path)])
    assert "canary" not in shown.lower()
    assert uid_of("study/series") not in shown


@pytest.fixture
def study(tmp_path):
    soft = {"ConvolutionKernel": "STANDARD"}
    write_series(tmp_path / "1", 40, series="thin", spacing=4.0, size=8, **soft)
    write_series(tmp_path / "2", 20, series="bone", size=8, ConvolutionKernel="BONE")
    write_series(tmp_path / "3", 20, series="contrast", size=8, ContrastBolusAgent="agent", **soft)
    write_series(tmp_path / "4", 18, series="wanted", size=8, **soft)
    write_series(tmp_path / "5", 5, series="short", size=8, **soft)
    write_series(tmp_path / "6", 30, series="scout", size=8, ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
    return index(tmp_path).studies[0]


def named(name):
    return short(uid_of(f"study/{name}"))


def test_the_rule_picks_the_series_and_says_why(study):
    chosen = choose_series(study)
    assert chosen.id == named("wanted")
    assert chosen.reason == (
        "one of 5 axial series (thickness nearest to 5 mm, then soft kernel, no contrast, most slices): "
        "18 slices over 85 mm, thickness 5 mm."
    )
    assert choose_series(study, thickness=3.5).id == named("thin")


@pytest.mark.parametrize(("count", "wanted"), [(10, "few"), (9, "thin")])
def test_ten_slices_over_eighty_millimetres_are_enough(tmp_path, count, wanted):
    write_series(tmp_path / "1", count, series="few", spacing=10.0, size=8)
    write_series(tmp_path / "2", 101, series="thin", spacing=1.0, size=8)
    assert choose_series(index(tmp_path).studies[0], thickness=10.0).id == named(wanted)


def test_the_rule_can_be_overridden(study):
    chosen = choose_series(study, series=named("bone"))
    assert chosen.id == named("bone")
    assert chosen.reason == f"series {named('bone')} was asked for."
    for wrong in ("nothing", named("scout")):
        with pytest.raises(InputError, match=f"has no series {wrong} that can be read. It has: id"):
            choose_series(study, series=wrong)


def test_the_rule_does_not_depend_on_the_order_of_series(study):
    rng = np.random.default_rng(0)
    for _ in range(5):
        mixed = type(study)(study.id, tuple(study.series[i] for i in rng.permutation(len(study.series))))
        assert choose_series(mixed).id == named("wanted")


def test_a_study_without_axial_series_is_refused(tmp_path):
    write_series(tmp_path / "a", 3, ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
    with pytest.raises(InputError, match=r"^no axial series; the study has: scout\.$"):
        choose_series(index(tmp_path / "a").studies[0])
    write_series(tmp_path / "b", 3, ImageOrientationPatient=[1, 0, 0, 0, 0, -1])
    with pytest.raises(InputError, match=r"has: coronal CT\. Name one with series=ID \(--series\)\.$"):
        choose_series(index(tmp_path / "b").studies[0])


def test_a_single_short_series_is_taken(tmp_path):
    write_series(tmp_path, 3)
    assert choose_series(index(tmp_path).studies[0]).reason == (
        "the only axial series: 3 slices over 10 mm, thickness 5 mm."
    )
