"""Programs that judge DICOM objects and that others wrote: dciodvfy, PixelMed's DicomSRValidator, dsrdump, Orthanc."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", str(ROOT / ".dicom-tools" / "bin")])
# The stylesheets of PixelMed are larger than what Java's XML parser takes unasked.
LIMITS = [f"-Djdk.xml.xpath{name}Limit=0" for name in ("TotalOp", "ExprOp", "ExprGrp")]
# A short run is over before code that was compiled for long runs pays: half the time.
SHORT = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
JAVA = {"JDK_JAVA_OPTIONS": " ".join([*LIMITS, *SHORT])}


def program(name):
    """Where a program is: on the PATH, or what scripts/install_dicom_tools.sh unpacked; None if nowhere."""
    return shutil.which(name, path=PLACES)


def why_not(*names):
    """Why the programs cannot be asked here, or None; under CI a missing one is an error and no excuse."""
    missing = [name for name in names if program(name) is None]
    return (
        f"{missing[0]} is missing: sh scripts/install_dicom_tools.sh" if missing and not os.environ.get("CI") else None
    )


def said(name, path):
    """All lines that a program says about a file."""
    assert program(name), f"{name} is missing: sh scripts/install_dicom_tools.sh"
    environment = {**os.environ, **JAVA}
    done = subprocess.run(
        [program(name), str(path)], capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    lines = (done.stdout + done.stderr).splitlines()
    assert lines, f"{name} said nothing"
    return lines


def errors(name, path):
    """The errors that a validator finds."""
    lines = said(name, path)
    ends = {"dciodvfy": ("SR", "SelectionDocument", "SCImage"), "DicomSRValidator": ("IOD validation complete",)}[name]
    assert any(line.endswith(ends) for line in lines), lines[-5:]  # it came to the end
    return [line for line in lines if line.startswith("Error") or "Exception" in line]
