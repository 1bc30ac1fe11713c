"""A scan as DICOM reports tell of it, with numbers that are hard to write."""

import math
from dataclasses import replace
from datetime import datetime

import numpy as np

from psimil.ct.report.reported_scan import ReportedScan
from psimil.ct.scans.purpose import HEMORRHAGE
from psimil.ct.scans.scan import Source

CT, ENHANCED = "1.2.840.10008.5.1.4.1.1.2", "1.2.840.10008.5.1.4.1.1.2.1"
WHEN = datetime(2026, 3, 4, 5, 6, 7)
PATIENT = ("PatientName", "PatientID", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID", "StudyDate",
           "StudyTime", "ReferringPhysicianName")  # fmt: skip


def scan(count=5, *, multiframe=False, **changes):
    rng = np.random.default_rng(0)
    sources = tuple(
        Source(ENHANCED, "2.25.77", n + 1) if multiframe else Source(CT, f"2.25.7.{n}", None) for n in range(count)
    )
    prob = rng.uniform(size=count)
    found = ReportedScan(
        "2.25.1", "2.25.2", sources, 1 / 3, 0.1 + 0.2, (math.ulp(0.0), 1 - 2**-53), True, prob, prob / 3, prob > 0.5
    )
    return replace(found, **{"purpose": HEMORRHAGE, **changes})
