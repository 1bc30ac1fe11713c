"""A folder of tiny CT studies whose positive ones have a block of blood in two slices, and their labels."""

from pathlib import Path

import numpy as np

from ct_files import head, uid_of, write_slice

SLICES = 6
FEW = ["--size", "16", "--epochs", "2", "--n-inducing", "8", "--n-features", "4"]


def write_studies(folder, count=12, seed=0, **tags):
    """``folder/scans/<n>/*.dcm``, ``folder/scans.csv`` and ``folder/truth.csv``; the folder of the scans."""
    rng = np.random.default_rng(seed)
    folder = Path(folder)
    scans, truth = ["scan,label"], ["sop_instance_uid,label"]
    for number in range(count):
        study = f"study {seed} {number}"
        scans.append(f"{uid_of(study)},{number % 2}")
        for place in range(SLICES):
            positive = number % 2 and place in (2, 3)
            hu = head(32, blood=8 if positive else 0) + rng.normal(0, 3, (32, 32))
            path = folder / "scans" / f"{number}" / f"{SLICES - place}.dcm"
            write_slice(path, z=20.0 * place, study=study, hu=hu, uid=f"{study}/{place}", **tags)
            truth.append(f"{uid_of(f'{study}/{place}')},{int(positive)}")
    (folder / "scans.csv").write_text("\n".join(scans) + "\n")
    (folder / "truth.csv").write_text("\n".join(truth) + "\n")
    return folder / "scans"
