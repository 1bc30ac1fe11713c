"""Folders in the layout of torchmil's own datasets: RSNA_ICH_MIL, and sets of slides."""

import numpy as np


def scans(root, *, sets=("resnet18", "resnet50"), instance_labels="slice_labels", n_bags=24, seed=0):
    """Scans with runs of positive slices under ``root``; the first half of them is for training."""
    rng = np.random.default_rng(seed)
    for folder in (*(f"features/features_{name}" for name in sets), "labels", instance_labels):
        (root / folder).mkdir(parents=True)
    rows = ["bag_name,split"]
    for b in range(n_bags):
        size, name = int(rng.integers(5, 12)), f"ID_{b:02d}"
        known = np.zeros(size, dtype=np.int64)
        if b % 2:
            first = int(rng.integers(0, size - 2))
            known[first : first + 3] = 1
        X = rng.normal(size=(size, 3)) + 3.0 * known[:, None]
        for number, one in enumerate(sets):
            np.save(root / "features" / f"features_{one}" / name, X[:, : 2 + number].astype(np.float32))
        np.save(root / "labels" / name, np.array(b % 2))
        np.save(root / instance_labels / name, known[:, None])
        rows.append(f"{name},{'train' if b < n_bags // 2 else 'test'}")
    (root / "splits.csv").write_text("\n".join(rows) + "\n")
    return root
