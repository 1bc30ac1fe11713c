"""Small CT files for tests, written by pydicom."""

import hashlib
from pathlib import Path

import numpy as np
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import UID, ExplicitVRLittleEndian

CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"
ENHANCED_CT = "1.2.840.10008.5.1.4.1.1.2.1"
AXIAL = (1, 0, 0, 0, 1, 0)


def uid_of(text):
    """A valid UID that depends on the text alone."""
    return f"2.25.{int(hashlib.sha256(str(text).encode()).hexdigest()[:30], 16)}"


def head(size=32, blood=0):
    """(size, size) Hounsfield units: air, a ring of bone, brain, and a block of blood of the given side."""
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    r = np.hypot(x, y) / size
    hu = np.full((size, size), -1000, np.int16)
    hu[r < 0.45] = 1000
    hu[r < 0.38] = 30
    middle = size // 2
    hu[middle : middle + blood, middle : middle + blood] = 70
    return hu


def slice_dataset(*, z=0.0, uid=None, series="series", study="study", hu=None, syntax=ExplicitVRLittleEndian, **tags):
    """A CT image as a dataset; ``tags`` set elements by keyword, None removes one. ``hu`` (rows, columns)."""
    hu = head() if hu is None else np.asarray(hu)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CT_IMAGE
    meta.MediaStorageSOPInstanceUID = uid_of(f"{study}/{series}/{z}" if uid is None else uid)
    meta.TransferSyntaxUID = syntax = UID(syntax)
    encoding = {"is_implicit_VR": syntax.is_implicit_VR, "is_little_endian": syntax.is_little_endian}
    dataset = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128, **encoding)
    dataset.SOPClassUID, dataset.SOPInstanceUID = CT_IMAGE, meta.MediaStorageSOPInstanceUID
    dataset.StudyInstanceUID, dataset.SeriesInstanceUID = uid_of(study), uid_of(f"{study}/{series}")
    dataset.FrameOfReferenceUID = uid_of(f"{study}/frame")
    dataset.Modality, dataset.ImageType = "CT", ["ORIGINAL", "PRIMARY", "AXIAL"]
    dataset.PatientName, dataset.PatientID = "Canary^Bird", "canary-id"
    dataset.InstanceNumber, dataset.SliceThickness = round(float(z)) + 1000, 5
    dataset.ImagePositionPatient, dataset.ImageOrientationPatient = [-100, -100, z], list(AXIAL)
    dataset.PixelSpacing = [0.5, 0.5]
    dataset.Rows, dataset.Columns = hu.shape
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit, dataset.PixelRepresentation = 16, 16, 15, 1
    dataset.RescaleSlope, dataset.RescaleIntercept, dataset.RescaleType = 1, -1024, "HU"
    dataset.PixelData = (hu.astype(np.int32) + 1024).astype("<i2").tobytes()
    dataset["PixelData"].VR = "OW"
    for keyword, value in tags.items():
        if value is not None:
            setattr(dataset, keyword, value)
        elif keyword in dataset:
            delattr(dataset, keyword)
    return dataset


def write_slice(path, *, z=0.0, uid=None, series="series", study="study", hu=None, **tags):
    """Write one CT image; the path. See :func:`slice_dataset` for the arguments."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset = slice_dataset(z=z, uid=uid, series=series, study=study, hu=hu, **tags)
    dataset.save_as(path, enforce_file_format=True)
    return path


def write_series(folder, n=12, *, spacing=5.0, size=32, start=0.0, **tags):
    """Write n slices whose file names run against their positions; the value of pixel (0, 0) is -1000 + place."""
    paths = []
    for place in range(n):
        hu = head(size)
        hu[0, 0] = -1000 + place
        z = start + spacing * place
        paths.append(write_slice(Path(folder) / f"{n - place:03d}.dcm", z=z, hu=hu, SliceThickness=spacing, **tags))
    return paths


def write_enhanced(path, n=4, *, spacing=5.0, size=32, series="enhanced", study="study", **tags):
    """Write one enhanced multi-frame CT of n frames in descending position order; pixel (0, 0) as in write_series."""

    def group(**elements):
        item = Dataset()
        for keyword, value in elements.items():
            setattr(item, keyword, value)
        return [item]

    shared = Dataset()
    shared.PixelMeasuresSequence = group(PixelSpacing=[0.5, 0.5], SliceThickness=spacing)
    shared.PlaneOrientationSequence = group(ImageOrientationPatient=list(AXIAL))
    shared.PixelValueTransformationSequence = group(RescaleSlope=1, RescaleIntercept=-1024, RescaleType="HU")
    frames, pixels = [], []
    for place in reversed(range(n)):
        frame = Dataset()
        frame.PlanePositionSequence = group(ImagePositionPatient=[-100, -100, spacing * place])
        frames.append(frame)
        hu = head(size)
        hu[0, 0] = -1000 + place
        pixels.append((hu.astype(np.int32) + 1024).astype("<i2"))
    gone = dict.fromkeys(["ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "SliceThickness"])
    gone |= dict.fromkeys(["RescaleSlope", "RescaleIntercept", "RescaleType"])
    dataset = slice_dataset(series=series, study=study, hu=head(size), **(gone | tags))
    dataset.SOPClassUID = dataset.file_meta.MediaStorageSOPClassUID = ENHANCED_CT
    dataset.NumberOfFrames = n
    dataset.SharedFunctionalGroupsSequence, dataset.PerFrameFunctionalGroupsSequence = [shared], frames
    dataset.PixelData = np.stack(pixels).tobytes()
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    dataset.save_as(path, enforce_file_format=True)
    return path
