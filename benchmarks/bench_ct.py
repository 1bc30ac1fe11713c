"""Reading and windowing a study of 35 slices of 512 x 512 against what pydicom needs to decode its pixels."""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from pydicom import dcmread
from timing import last_line

from psimil.ct.dicom.folder import list_folder
from psimil.ct.scans.series import read_series
from psimil.ct.scans.windows import apply_windows

SLICES = 35
REAL = Path(__file__).resolve().parents[2] / "shared" / "data" / "ct" / "cq500_head_series"


def write_study(folder: Path, source: Path) -> None:
    """35 files with distinct UIDs and positions, from the slices of a folder in turn."""
    paths = [file.path for file in list_folder(source).files]
    for place in range(SLICES):
        dataset = dcmread(paths[place % len(paths)])
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = f"1.2.3.{place}"
        dataset.ImagePositionPatient = [0, 0, 5 * place]
        dataset.save_as(folder / f"{(8 * place) % SLICES:03d}.dcm")


def pydicom_alone(folder: Path) -> None:
    """What every reader built on pydicom does at least."""
    for path in sorted(folder.iterdir()):
        dcmread(path).pixel_array  # noqa: B018 - a property that decodes


def ours(folder: Path) -> None:
    """Headers, order, Hounsfield units, three windows of 128 x 128."""
    images = apply_windows(read_series(folder, hasher=str).hu)
    assert images.shape == (SLICES, 3, 128, 128)


def main() -> None:
    """Print the seconds and their ratio, measured in turns; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--source", type=Path, default=REAL, help="folder of uncompressed 512 x 512 slices")
    arguments = parser.parse_args()
    if not arguments.source.is_dir():
        parser.error("name a folder of slices with --source")
    folder = Path(tempfile.mkdtemp())
    try:
        write_study(folder, arguments.source)
        seconds: dict[str, list[float]] = {"pydicom": [], "psimil": []}
        for _ in range(arguments.rounds + 2):
            for name, run in (("pydicom", pydicom_alone), ("psimil", ours)):
                start = time.perf_counter()
                run(folder)
                seconds[name].append(time.perf_counter() - start)
    finally:
        shutil.rmtree(folder)
    figures = {name: float(np.median(values[2:])) for name, values in seconds.items()}
    ratio = figures["psimil"] / figures["pydicom"]
    print(", ".join(f"{name} {1e3 * value:.1f} ms" for name, value in figures.items()), f"ratio {ratio:.2f}")
    last_line(benchmark="ct", slices=SLICES, pydicom_s=figures["pydicom"], psimil_s=figures["psimil"], ratio=ratio)


if __name__ == "__main__":
    main()
