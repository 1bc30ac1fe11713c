"""Predictions of fits on MUSK1, 2000 bags of MNIST and the RSNA features, for compare_commits.py; public names only."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from psimil import GVGPMIL, VGPMIL
from psimil.datasets import load_musk1, load_rsna, mnist_split

DATA = Path(os.environ.get("PSIMIL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
COLUMNS = ("prob", "std", "lower", "upper", "instance_prob", "instance_std", "latent_mean", "latent_variance")


def problems() -> dict[str, tuple[Any, Any]]:
    """Bags and labels by name, of the data that are there."""
    found = {"MUSK1": load_musk1()}
    if (DATA / "mnist").is_dir():
        bags, y, _ = mnist_split(DATA / "mnist")[0]
        found["MNIST PCA, 2000 bags"] = (bags[np.arange(2000)], np.asarray(y)[:2000])
    if (DATA / "ich").is_dir():
        scans = load_rsna(DATA)
        found["RSNA"] = (scans.bags, scans.y)
    return found


def main() -> None:
    """Write the predictions to the file that is named."""
    warnings.simplefilter("ignore")
    arrays: dict[str, Any] = {}
    for name, (bags, y) in problems().items():
        for model in (VGPMIL(random_state=0), GVGPMIL(random_state=0)):
            prediction = model.fit(bags, y).predict_dist(bags)
            for column in COLUMNS:
                arrays[f"{type(model).__name__} on {name}/{column}"] = getattr(prediction, column)
    np.savez(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
