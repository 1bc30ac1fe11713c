"""A canary in 60 header fields, in private and nested elements, and in every name appears nowhere (threat T1)."""

import tempfile

import pytest
from pydicom.datadict import dictionary_VR, tag_for_keyword
from pydicom.dataset import Dataset

pytest.importorskip("torch")

from commands import call
from ct_files import slice_dataset, uid_of
from ct_studies import FEW, SLICES

CANARY = "CANARY7731"
TEXT = """
AccessionNumber AcquisitionComments AcquisitionDeviceProcessingDescription AdditionalPatientHistory
AdmissionID AdmittingDiagnosesDescription Allergies BranchOfService CommentsOnThePerformedProcedureStep
ConfidentialityConstraintOnPatientDataDescription ConvolutionKernel ContrastBolusAgent CountryOfResidence
CurrentPatientLocation DerivationDescription DetectorID DeviceSerialNumber EthnicGroup FrameComments
IdentifyingComments ImageComments ImagePresentationComments InstitutionAddress InstitutionName
InstitutionalDepartmentName IssuerOfPatientID Manufacturer ManufacturerModelName MedicalAlerts
MedicalRecordLocator MilitaryRank NameOfPhysiciansReadingStudy Occupation OperatorsName OtherPatientIDs
OtherPatientNames PatientAddress PatientBirthName PatientComments PatientID PatientInsurancePlanCodeSequence
PatientMotherBirthName PatientName PatientReligiousPreference PatientState PatientTelephoneNumbers
PerformedProcedureStepDescription PerformedProcedureStepID PerformingPhysicianName PhysiciansOfRecord
ProtocolName ReasonForTheRequestedProcedure ReferringPhysicianAddress ReferringPhysicianName
ReferringPhysicianTelephoneNumbers RequestedProcedureComments RequestedProcedureDescription
RequestingPhysician RequestingService SeriesDescription SpecialNeeds StationName StudyComments
StudyDescription StudyID VisitComments
""".split()


def canary_dataset(number, place):
    dataset = slice_dataset(z=20.0 * place, study=f"s{number}", uid=f"s{number}/{place}")
    fields = 0
    for keyword in TEXT:
        if dictionary_VR(tag_for_keyword(keyword)) == "SQ":
            item = Dataset()
            item.CodeMeaning = CANARY
            setattr(dataset, keyword, [item])
        else:
            setattr(dataset, keyword, CANARY)
        fields += 1
    nested = Dataset()
    nested.PatientName = CANARY
    dataset.RequestAttributesSequence = [nested]
    block = dataset.private_block(0x0011, CANARY, create=True)
    block.add_new(0x01, "LO", CANARY)
    assert fields >= 60
    return dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("secret")
    labels = ["scan,label"]
    for number in range(8):
        place = root / "scans" / f"{CANARY}-{number}"
        place.mkdir(parents=True)
        labels.append(f"{uid_of(f's{number}')},{number % 2}")
        for slice_number in range(SLICES):
            dataset = canary_dataset(number, slice_number)
            dataset.save_as(place / f"{CANARY}_{slice_number}.dcm", enforce_file_format=True)
    broken = root / "scans" / f"{CANARY}-broken"
    broken.mkdir()
    for slice_number in range(SLICES):
        dataset = canary_dataset(99, slice_number)
        dataset.RescaleSlope = 0
        dataset.save_as(broken / f"{CANARY}_{slice_number}.dcm", enforce_file_format=True)
    (broken / f"{CANARY}.dcm").write_bytes(b"\0" * 128 + b"DICM" + CANARY.encode())
    (root / "scans.csv").write_text("\n".join(labels) + "\n")
    return root


def test_nothing_of_the_canary_leaves_the_files(folder, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("PSIMIL_ID_KEY_FILE", str(tmp_path / "id.key"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "tmp").mkdir()
    scans, model = folder / "scans", tmp_path / "model"
    broken = scans / f"{CANARY}-broken"
    commands = [
        (0, "index", scans, "--out", tmp_path / "index"),
        (0, "index", scans, "--json"),
        (0, "train", scans, "--labels", folder / "scans.csv", "--out", model, *FEW, "--debug"),
        (0, "predict", scans, "--model", model, "--out", tmp_path / "results"),
        (65, "predict", broken, "--model", model, "--out", tmp_path / "none"),
    ]
    with caplog.at_level("DEBUG"):
        for code, *arguments in commands:
            done = call("ct", *arguments)
            assert done.exit_code == code, done.output
            assert CANARY not in done.output
    assert CANARY not in caplog.text
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    reports = [path for path in written if path.suffix == ".dcm" and path.parent.name == "reports"]
    assert len(reports) == 10  # also those of the scan that cannot be read, beside others and alone
    for path in written:
        assert CANARY not in str(path.relative_to(tmp_path))
        assert CANARY.encode() not in path.read_bytes(), path.name
