"""Key object selections and strips: which slices they refer to, and what they say about the patient."""

import numpy as np
import pydicom
import pytest

pytest.importorskip("highdicom")

from psimil.ct.report.key_objects import write_capture, write_key_objects
from psimil.foundations.errors import InputError
from reported import CT, ENHANCED, PATIENT, WHEN, scan


def references(path):
    items = [item for item in pydicom.dcmread(path).ContentSequence if item.ValueType == "IMAGE"]
    return [item.ReferencedSOPSequence[0] for item in items]


def test_it_refers_to_the_called_slices_alone(tmp_path):
    called = [False, True, False, False, True]
    assert write_key_objects(tmp_path / "k.dcm", scan(slice_called=called), when=WHEN)
    assert [(one.ReferencedSOPClassUID, one.ReferencedSOPInstanceUID) for one in references(tmp_path / "k.dcm")] == [
        (CT, "2.25.7.1"), (CT, "2.25.7.4"),
    ]  # fmt: skip
    dataset = pydicom.dcmread(tmp_path / "k.dcm")
    assert (dataset.Modality, dataset.SOPClassUID) == ("KO", "1.2.840.10008.5.1.4.1.1.88.59")
    (study,) = dataset.CurrentRequestedProcedureEvidenceSequence
    assert len(study.ReferencedSeriesSequence[0].ReferencedSOPSequence) == 2
    (text,) = [item.TextValue for item in dataset.ContentSequence if "Key Object Description" in str(item)]
    assert text.startswith("2 of 5 slices reach the slice threshold for Intracranial hemorrhage; the scan is called")
    assert all(not dataset.get(keyword) for keyword in PATIENT)


def test_frames_of_one_file_are_named(tmp_path):
    told = scan(4, multiframe=True, slice_called=[False, True, True, False])
    write_key_objects(tmp_path / "k.dcm", told, when=WHEN)
    (one,) = references(tmp_path / "k.dcm")
    assert (one.ReferencedSOPClassUID, list(one.ReferencedFrameNumber)) == (ENHANCED, [2, 3])


@pytest.mark.parametrize("changes", [{"slice_called": [False] * 5}, {"obstacle": "a single slice"}])
def test_without_called_slices_there_is_no_file(changes, tmp_path):
    assert not write_key_objects(tmp_path / "k.dcm", scan(**changes), when=WHEN)
    assert not list(tmp_path.iterdir())


def test_a_strip_shows_its_pixels_and_has_a_uid_of_its_own(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    write_capture(tmp_path / "s.dcm", scan(model="sha256:a"), pixels, when=WHEN)
    dataset = pydicom.dcmread(tmp_path / "s.dcm")
    np.testing.assert_array_equal(dataset.pixel_array, pixels)
    write_capture(tmp_path / "other.dcm", scan(model="sha256:a"), pixels[::-1], when=WHEN)
    assert (
        pydicom.dcmread(tmp_path / "other.dcm").SOPInstanceUID != dataset.SOPInstanceUID
    )  # as with known labels drawn
    assert dataset.SeriesInstanceUID == pydicom.dcmread(tmp_path / "other.dcm").SeriesInstanceUID
    assert "Research use only" in dataset.DerivationDescription and not dataset.PatientName
    write_capture(tmp_path / "again.dcm", scan(model="sha256:a"), pixels, when=WHEN)
    assert (tmp_path / "again.dcm").read_bytes() == (tmp_path / "s.dcm").read_bytes()
    write_capture(tmp_path / "heat.dcm", scan(model="sha256:a"), pixels, "heat", when=WHEN)
    heat = pydicom.dcmread(tmp_path / "heat.dcm")
    assert {heat.SOPInstanceUID, heat.SeriesInstanceUID}.isdisjoint({dataset.SOPInstanceUID, dataset.SeriesInstanceUID})
    assert heat.SeriesNumber != dataset.SeriesNumber
    said = ("psimil heat maps, research use only", "psimil strip of slices, research use only")
    assert (heat.SeriesDescription, dataset.SeriesDescription) == said
    with pytest.raises(InputError, match="BurnedInAnnotation"):
        write_capture(tmp_path / "t.dcm", scan(), pixels, when=WHEN, burned_in=True)
