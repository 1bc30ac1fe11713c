"""Keep what a finished run says, without its predictions: rows of fits, splits, settings, figures without data in them.

Run from the root of a checkout: ``python scripts/keep_results.py RUNS RESULTS --data DIR``.
RUNS holds the run directories of ``psimil reproduce``; ``scripts/write_reproduction.py`` turns RESULTS into
the pages docs/results/reproduction.md and reproduction-record.md.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from psimil.datasets import authors_mnist_bags, load_cq500, load_mnist, load_musk1, load_musk2, load_rsna
from psimil.paper.experiments.plans import EXPERIMENTS

FILES = ("fits.csv", "config.json", "environment.json")
FIGURES = ("bars-*", "time-auc-*", "referral-*", "reliability-*")  # no picture of an instance


def keep(run: Path, results: Path) -> None:
    """Copy the files of one run."""
    target = results / run.name
    shutil.rmtree(target, ignore_errors=True)
    (target / "figures").mkdir(parents=True)
    for name in FILES:
        shutil.copyfile(run / name, target / name)
    splits = gzip.compress((run / "splits.csv").read_bytes(), mtime=0)  # equal bytes for equal splits
    (target / "splits.csv.gz").write_bytes(splits)
    for pattern in FIGURES:
        for path in sorted((run / "figures").glob(f"{pattern}.png")):
            shutil.copyfile(path, target / "figures" / path.name)


def count_datasets(data: Path) -> pd.DataFrame:
    """Bags and instances of every dataset by label, counted in the files."""
    _, digits = load_mnist(data)
    drawn = authors_mnist_bags(digits)
    rsna, cq500 = load_rsna(data), load_cq500(data)
    found = {
        "MNIST": (drawn.y, drawn.y_instances.ravel()),
        "MUSK1": (load_musk1()[1], np.full(len(load_musk1()[0].X), -1)),
        "MUSK2": (load_musk2()[1], np.full(len(load_musk2()[0].X), -1)),
        "RSNA": (rsna.y, rsna.y_instances),
        "CQ500": (cq500.y, cq500.y_instances),
    }
    return pd.DataFrame(
        {
            "dataset": name,
            "instances": len(instances),
            "positive_instances": int((instances == 1).sum()) if (instances >= 0).all() else None,
            "bags": len(y),
            "positive_bags": int(y.sum()),
        }
        for name, (y, instances) in found.items()
    )


def main() -> None:
    """Read the arguments and copy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder of the MNIST and ICH files")
    arguments = parser.parse_args()
    for name in EXPERIMENTS:
        if (arguments.runs / name / "fits.csv").is_file():
            keep(arguments.runs / name, arguments.results)
    count_datasets(arguments.data).to_csv(arguments.results / "datasets.csv", index=False)


if __name__ == "__main__":
    main()
