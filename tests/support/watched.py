"""A watch with a prediction that takes no time, so that faults can come in great number."""

import io
import time
from pathlib import Path

from pydicom import dcmread
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, generate_uid

from ct_files import uid_of, write_series
from psimil.ct.dicomweb.archive import Archive
from psimil.ct.dicomweb.connection import Connection
from psimil.ct.dicomweb.journal import opened
from psimil.ct.dicomweb.watch import Watch
from psimil.ct.scans.identity import Hasher
from psimil.files import rundir
from psimil.foundations.errors import InputError, ServerFault

TEXT_REPORT = "1.2.840.10008.5.1.4.1.1.88.11"
HASHER = Hasher(bytes(32))
SLICES = 3
TIMEOUT = 1.0  # a report whose answer comes later than that, and by itself, would be sent again


def count_slices(images, results):
    """In place of a prediction: a report of a new UID each time, with the slices of the study as its evidence."""
    slices = [dcmread(file, stop_before_pixels=True) for file in sorted(Path(images).iterdir())]
    if not slices:
        raise InputError("no CT study was found.")
    report = Dataset()
    report.file_meta = FileMetaDataset()
    report.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    report.SOPClassUID, report.SOPInstanceUID = TEXT_REPORT, generate_uid()
    report.StudyInstanceUID, report.SeriesInstanceUID = slices[0].StudyInstanceUID, generate_uid()
    report.PatientID, report.PatientName = slices[0].PatientID, slices[0].PatientName
    report.Modality, report.InstanceNumber = "SR", len(slices)
    with rundir.opened(Path(results), overwrite=True) as run:
        run.start({})
        (run.aside / "reports").mkdir()
        report.save_as(run.file("reports/a.dcm"), enforce_file_format=True)
        run.finish()


def watch_of(url, folder, journal, predict=count_slices, timeout=5.0, **more):
    return Watch(Archive(Connection.of(url, timeout)), journal, Path(folder), HASHER, predict, **more)


def watch_until_settled(url, folder, studies, timeout, looks=60):
    """Look until so many studies are known and nothing is to be done for any."""
    with opened(Path(folder), "model") as journal:
        watch = watch_of(url, folder, journal, timeout=float(timeout))
        for _ in range(looks):
            try:
                watch.look()
            except ServerFault:
                time.sleep(0.02)
            entries = journal.entries()
            if len(entries) == int(studies) and all(entry.settled for entry in entries):
                return
    raise SystemExit(f"still to be done: {[entry for entry in entries if not entry.settled]}")


def study(folder, name, n=SLICES, **tags):
    return write_series(folder / name, n, size=16, study=name, **tags)


def state(journal, name):
    return journal.entry(HASHER(uid_of(name))).state


def contents(archive):
    """By study, how many slices each of its reports is about."""
    reports = archive.reports()
    return {study: [int(dcmread(io.BytesIO(r)).InstanceNumber) for r in found] for study, found in reports.items()}
