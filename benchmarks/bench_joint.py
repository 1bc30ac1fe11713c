"""Whether joint training helps: the CT demo with and without it, on the same synthetic studies."""

import tempfile
import time
import warnings
from pathlib import Path

from timing import last_line

from psimil.ct.phantom.trial import demo_pipeline, run_demo, write_demo_studies
from psimil.foundations.errors import DataWarning

TRAIN, TEST, JOINT = 200, 60, 6
SEEDS = (0, 1)


def main():
    warnings.simplefilter("ignore", DataWarning)
    results = {}
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            files = write_demo_studies(Path(folder), TRAIN, TEST, seed=seed)
            for joint in (0, JOINT):
                started = time.perf_counter()
                scores = run_demo(*files, demo_pipeline(seed, joint)).scores
                found = {
                    "scan_auc": scores["scans"]["auc"],
                    "slice_auc": scores["slices"]["auc"],
                    "slice_f1": scores["slices"]["f1"],
                    "uncertainty_auc": scores["uncertainty_auc"],
                    "attention_slice_auc": scores["attention_slice_auc"],
                    "cnn_scan_auc": scores["cnn_scan_auc"],
                }
                results[f"seed {seed}, joint epochs {joint}"] = {name: round(v, 4) for name, v in found.items()}
                words = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
                print(f"seed {seed}, joint epochs {joint}: {words}; {time.perf_counter() - started:.0f} s", flush=True)
    last_line(benchmark="joint", train=TRAIN, test=TEST, **results)


if __name__ == "__main__":
    main()
