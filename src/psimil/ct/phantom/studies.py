"""Synthetic head CT studies as DICOM files, with labels of scans and, kept aside, of slices."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from psimil.ct.phantom.head import Phantom, check_lesions, head
from psimil.files.csv_table import write_table
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, OutputError
from psimil.foundations.extras import needed
from psimil.foundations.numbers import at_least
from psimil.version import VERSION

if TYPE_CHECKING:
    from pydicom.dataset import Dataset

MAKER = uuid.UUID("6f9d3a52-7f0c-5c0e-9d5b-3c1f4f0a8e21")  # namespace of the UIDs made here
CT_IMAGE = "1.2.840.10008.5.1.4.1.1.2"
INTERCEPT = -1024


@dataclass(frozen=True)
class PhantomFiles:
    """Where the files of synthetic studies are.

    Parameters
    ----------
    studies : folder with one folder of DICOM files per study.
    scans : CSV file with the columns scan (study UID) and label.
    truth : CSV file with the columns scan, sop_instance_uid, position and label, one row per slice.
    """

    studies: Path
    scans: Path
    truth: Path


def write_phantoms(
    directory: str | Path,
    n_scans: int = 60,
    *,
    seed: int = 0,
    size: int = 256,
    share: float = 0.5,
    lesions: int = 1,
    progress: Callable[[str], None] | None = None,
) -> PhantomFiles:
    """Write synthetic head CT studies; the same arguments give the same bytes.

    Names of files are not in the order of slices, instance numbers run downwards in some studies, and some studies
    have a scout: as in real archives, only the positions tell the order.

    Parameters
    ----------
    directory : made when it is not there; ``studies/<number>/*.dcm``, ``scans.csv`` and ``truth.csv`` are written.
    n_scans : number of studies.
    seed : source of chance.
    size : rows and columns of a slice.
    share : of studies with blood, rounded to a whole number of studies.
    lesions : bleeds in such a study at most, see :func:`psimil.ct.phantom.head.head`.
    progress : called with the number of each study that was written.

    Returns
    -------
    files : PhantomFiles.

    Raises
    ------
    InputError
        When there are studies already, or a number is out of range.

    Examples
    --------
    >>> files = write_phantoms("phantoms", 2, size=32)
    >>> sorted(path.name for path in files.studies.iterdir()), files.scans.read_text().count(",1")
    (['001', '002'], 1)
    """
    import pandas as pd

    _dicom()
    at_least(1, whole=True, n_scans=n_scans)
    at_least(0, whole=True, seed=seed, size=size)
    check_lesions(lesions)
    at_least(0, share=share)
    if share > 1 or not 32 <= size <= 1024:
        raise InputError(f"phantoms need a share in [0, 1] and a size in [32, 1024], got {share} and {size}.")
    folder = as_path(directory, "directory")
    files = PhantomFiles(*(folder / name for name in ("studies", "scans.csv", "truth.csv")))
    if files.studies.exists() and any(files.studies.iterdir()):
        raise InputError(f"{files.studies} has studies already; remove it or name another folder.")
    positive = np.random.default_rng(seed).permutation(n_scans) < round(share * n_scans)
    width, labels, truth = max(3, len(str(n_scans))), [], []
    for number, label in enumerate(positive.tolist(), start=1):
        rng = np.random.default_rng([seed, number])
        source = f"{seed}/{size}/{number}/{int(label)}" + (f"/{lesions}" if lesions > 1 else "")
        study = _Study(source, head(rng, positive=label, lesions=lesions, size=size), rng)
        name = f"{number:0{width}}"
        study.write(files.studies / name)
        labels.append((study.uid, int(label)))
        truth += study.rows()
        if progress is not None:
            progress(name)
    write_table(pd.DataFrame(truth, columns=["scan", "sop_instance_uid", "position", "label"]), files.truth)
    write_table(pd.DataFrame(labels, columns=["scan", "label"]), files.scans)
    return files


class _Study:
    """One phantom with the UIDs and the header that its files get."""

    def __init__(self, name: str, phantom: Phantom, rng: np.random.Generator) -> None:
        self.name, self.phantom = name, phantom
        self.uid = self._uid("study")
        self.bits, self.signed = (12, 0) if rng.uniform() < 0.5 else (16, 1)
        self.downwards, self.scout = bool(rng.uniform() < 0.4), bool(rng.uniform() < 0.4)
        self.corner = round(-0.5 * (phantom.hu.shape[1] - 1) * phantom.spacing[0], 4)
        self.heights = np.round(phantom.positions + round(rng.uniform(-400.0, 400.0), 3), 3)

    def rows(self) -> list[tuple[str, str, float, int]]:
        """Rows of the table of truth."""
        return [
            (self.uid, self._uid(f"slice {n}"), float(height), int(label))
            for n, (height, label) in enumerate(zip(self.heights, self.phantom.truth, strict=True))
        ]

    def write(self, folder: Path) -> None:
        """Write all files of the study; the folder appears when they are complete."""
        unfinished = folder.with_name(f".{folder.name}")
        try:
            unfinished.mkdir(parents=True)
            dataset = self._header("axial", self.phantom.spacing)
            for n in range(len(self.heights)):
                self._fill(dataset, f"slice {n}", self.phantom.hu[n])
                self._place_slice(dataset, n)
                _write(unfinished / f"{self._code(f'file {n}')}.dcm", dataset)
            if self.scout:
                _write(unfinished / f"{self._code('file scout')}.dcm", self._scout())
            unfinished.rename(folder)
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise OutputError(f"cannot write study {folder.name}: {reason}.") from error

    def _uid(self, what: str) -> str:
        """A UID under 2.25, the same for the same study and purpose."""
        return f"2.25.{uuid.uuid5(MAKER, f'{self.name}/{what}').int}"

    def _code(self, what: str) -> str:
        return uuid.uuid5(MAKER, f"{self.name}/{what}").hex[:12]

    def _header(self, series: str, spacing: tuple[float, float]) -> Dataset:
        """What all files of a series share."""
        dataset = _dicom()()
        dataset.SOPClassUID, dataset.StudyInstanceUID = CT_IMAGE, self.uid
        dataset.SeriesInstanceUID, dataset.SeriesNumber = self._uid(f"series {series}"), 2 if series == "axial" else 1
        dataset.FrameOfReferenceUID, dataset.PositionReferenceIndicator = self._uid("frame of reference"), ""
        for empty in ("StudyDate", "StudyTime", "ReferringPhysicianName", "AccessionNumber", "PatientBirthDate",
                      "PatientSex", "StudyID", "AcquisitionNumber", "SliceThickness"):  # fmt: skip
            setattr(dataset, empty, None)
        dataset.PatientName, dataset.PatientID = "Phantom", self._code("patient")
        dataset.PatientIdentityRemoved, dataset.DeidentificationMethod = "YES", "synthetic"
        dataset.Modality, dataset.Manufacturer, dataset.ManufacturerModelName = "CT", "psimil", "head phantom"
        dataset.SoftwareVersions, dataset.PatientPosition, dataset.KVP = VERSION, "HFS", 120
        dataset.SeriesDescription, dataset.BurnedInAnnotation = f"synthetic, {series}", "NO"
        dataset.PixelSpacing = list(spacing)
        dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 16, self.bits, self.bits - 1
        dataset.PixelRepresentation = self.signed
        dataset.RescaleIntercept, dataset.RescaleSlope, dataset.RescaleType = INTERCEPT, 1, "HU"
        dataset.WindowCenter, dataset.WindowWidth = 40, 80
        return dataset

    def _fill(self, dataset: Dataset, what: str, hu: NDArray[np.int16]) -> None:
        dataset.SOPInstanceUID = self._uid(what)
        dataset.Rows, dataset.Columns = hu.shape
        dataset.PixelData = (hu.astype(np.int32) - INTERCEPT).astype("<u2").tobytes()

    def _place_slice(self, dataset: Dataset, n: int) -> None:
        dataset.ImageType = ["ORIGINAL", "PRIMARY", "AXIAL"]
        dataset.InstanceNumber = len(self.heights) - n if self.downwards else n + 1
        dataset.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
        dataset.ImagePositionPatient = [self.corner, self.corner, float(self.heights[n])]
        dataset.SliceThickness, dataset.SliceLocation = self.phantom.thickness, float(self.heights[n])

    def _scout(self) -> Dataset:
        """A view from the side: the mean over the columns, highest row first."""
        step = round(float(self.heights[1] - self.heights[0]), 4)
        dataset = self._header("scout", (step, self.phantom.spacing[0]))
        self._fill(dataset, "scout", np.rint(self.phantom.hu.mean(axis=2)).astype(np.int16)[::-1])
        dataset.ImageType = ["ORIGINAL", "PRIMARY", "LOCALIZER"]
        dataset.InstanceNumber, dataset.ImageOrientationPatient = 1, [0, 1, 0, 0, 0, -1]
        dataset.ImagePositionPatient = [0.0, self.corner, float(self.heights[-1])]
        return dataset


def _write(path: Path, dataset: Dataset) -> None:
    from pydicom import dcmwrite
    from pydicom.dataset import FileMetaDataset
    from pydicom.uid import UID, ExplicitVRLittleEndian

    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.file_meta.ImplementationClassUID = UID(f"2.25.{MAKER.int}")
    dataset.file_meta.ImplementationVersionName = "PSIMIL"
    dcmwrite(path, dataset, enforce_file_format=True, overwrite=False)


def _dicom() -> type[Dataset]:
    with needed("DICOM files need pydicom", "ct"):
        from pydicom.dataset import Dataset
    return Dataset
