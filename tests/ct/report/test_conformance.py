"""DICOM objects of phantoms and of a real series before validators that others wrote; `make conformance`."""

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pydicom
import pytest

pytest.importorskip("torch")
pytest.importorskip("highdicom")

from dicom_tools import errors, said, why_not
from psimil import VGPMIL
from psimil.ct.phantom.studies import write_phantoms
from psimil.ct.pipeline import GP_FILE, CTPipeline
from psimil.ct.report.key_objects import write_key_objects
from psimil.ct.report.run_files import write_results
from psimil.ct.report.scan_results import predict_cohort
from psimil.ct.report.structured_report import read_report, write_report
from psimil.ct.scans.cohort import Cohort
from psimil.ct.scans.index import index_folder
from psimil.ct.scans.purpose import HEMORRHAGE, Purpose
from psimil.ct.scans.training_set import read_training_set
from psimil.files.rundir import opened
from reported import scan

NOW = datetime(2026, 1, 2, 3, 4, 5)
DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[4] / "shared" / "data")) / "ct"
SERIES = DATA / "cq500_head_series"
TOOLS = ("dciodvfy", "DicomSRValidator", "dsrdump")
pytestmark = pytest.mark.skipif(why_not(*TOOLS) is not None, reason=str(why_not(*TOOLS)))


def cohort_of(folder):
    return Cohort.of(index_folder(folder, hasher=str.lower))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    files = write_phantoms(folder / "train", 8, seed=1, size=64)
    found = read_training_set(cohort_of(files.studies), files.scans, size=16)
    gp = VGPMIL(n_inducing=8, random_state=0)
    CTPipeline(4, 16, gp=gp, epochs=1, purpose=HEMORRHAGE).fit(found.slices, found.y).save(folder)
    return folder


@pytest.fixture(scope="module")
def results(model, tmp_path_factory):
    """Phantoms, one of them cut to a single slice and one with a file that cannot be read."""
    files = write_phantoms(tmp_path_factory.mktemp("new"), 4, seed=2, size=64)
    one, bad, *_ = sorted(files.studies.iterdir())
    for path in sorted(one.iterdir())[1:]:
        path.unlink()
    first = next(path for path in sorted(bad.iterdir()) if "LOCALIZER" not in pydicom.dcmread(path).ImageType)
    first.write_bytes(first.read_bytes()[:-500])
    found = predict_cohort(CTPipeline.load(model), cohort_of(files.studies), file=model / GP_FILE, heat=True)
    top = int(found.order()[0])
    return replace(found, heat=[maps + 9 * (number == top) for number, maps in enumerate(found.heat)])


@pytest.fixture(scope="module")
def written(results, tmp_path_factory):
    """One run that names nobody, and one that names the patients."""
    folder = tmp_path_factory.mktemp("written")
    for name in ("plain", "identified"):
        with opened(folder / name) as run:
            run.start({})
            kinds = ("sr", "keys", "strips")
            assert write_results(run, results, figures=1, reports=kinds, identify=name != "plain", now=NOW) == []
            run.finish()
    analysed = replace(results.reported(0), obstacle="", slice_called=[True] * len(results.slices[0]))
    write_report(folder / "analysed.dcm", analysed, when=NOW)
    assert write_key_objects(folder / "called.dcm", analysed, when=NOW)
    other = replace(analysed, purpose=Purpose.read("Free air; SCT:169070004:CT of abdomen"))
    write_report(folder / "other.dcm", other, when=NOW)
    return folder


def documents(folder):
    return [path for path in folder.rglob("*.dcm") if path.parent.name != "strips"]


def test_objects_conform_to_their_definitions(written):
    everything = sorted(written.rglob("*.dcm"))
    assert {path.parent.name for path in everything} >= {"reports", "strips"}
    assert [path for path in everything if path.stem.endswith("-heat")] and len(everything) >= 13
    assert {path.name: found for path in everything if (found := errors("dciodvfy", path))} == {}


def test_documents_are_read_by_dsrdump_and_conform(written):
    for path in documents(written):
        lines = said("dsrdump", path)
        assert not [line for line in lines if line.startswith(("E:", "F:"))]
        assert any("Of Interest" in line or "Imaging Measurement Report" in line for line in lines)


def test_documents_conform_to_their_templates(tmp_path):
    """Of two slices, for the validator takes seconds for a document and longer for a long one."""
    told = scan(2, thresholds=(0.5, 0.1), novelty=0.2, slice_novelty=[0.1, 0.2], reason="", slice_called=[True, False])
    write_report(tmp_path / "sr.dcm", told, when=NOW)
    write_key_objects(tmp_path / "keys.dcm", told, when=NOW)
    assert errors("DicomSRValidator", tmp_path / "sr.dcm") == [] == errors("DicomSRValidator", tmp_path / "keys.dcm")


@pytest.mark.slow
def test_every_kind_of_document_conforms_to_its_template(written):
    frames = {path: read_report(path) for path in (written / "identified" / "reports").iterdir()}
    kinds = {frame["obstacle"][0]: path for path, frame in frames.items()}
    assert set(kinds) >= {"a single slice", "cannot be read"}
    more = [written / name for name in ("analysed.dcm", "called.dcm", "other.dcm")]
    for path in [*kinds.values(), *more]:
        assert errors("DicomSRValidator", path) == [], path


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(not SERIES.is_dir(), reason="the CT files are not at hand")
@pytest.mark.parametrize("tool", TOOLS[:2])
def test_a_real_series_conforms(tool, model, tmp_path):
    results = predict_cohort(CTPipeline.load(model), cohort_of(SERIES), file=model / GP_FILE)
    called = [True, *[False] * 27, True, False]
    told = replace(results.reported(0), obstacle="", slice_called=called)
    write_report(tmp_path / "sr.dcm", told, when=NOW)
    write_key_objects(tmp_path / "keys.dcm", told, when=NOW)
    assert errors(tool, tmp_path / "sr.dcm") == [] == errors(tool, tmp_path / "keys.dcm")
    dataset = pydicom.dcmread(tmp_path / "keys.dcm")
    referred = [item.ReferencedSOPSequence[0] for item in dataset.ContentSequence if item.ValueType == "IMAGE"]
    files = {pydicom.dcmread(path, stop_before_pixels=True).SOPInstanceUID for path in SERIES.iterdir()}
    assert [one.ReferencedSOPInstanceUID for one in referred] == [told.sources[n].sop_instance_uid for n in (0, 28)]
    assert {one.ReferencedSOPInstanceUID for one in referred} <= files


def test_a_validator_that_finds_nothing_would_be_no_judge(written, tmp_path):
    dataset = pydicom.dcmread(written / "analysed.dcm")
    del dataset.CompletionFlag
    dataset.save_as(tmp_path / "broken.dcm")
    assert errors("dciodvfy", tmp_path / "broken.dcm")
