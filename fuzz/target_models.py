"""Model files and results files: safetensors with JSON inside and a checksum over both."""

from __future__ import annotations

import hashlib
import json
import struct
import warnings
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from mutator import changed_bytes, changed_json
from safetensors import SafetensorError
from safetensors.numpy import load
from target import MAX_BYTES, Target

from psimil.datasets import make_bags
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.files.schema import kernel_json
from psimil.files.sealed import checksum
from psimil.foundations.errors import PsimilError
from psimil.model.kernels import RBF, Constant, Kernel, Linear, Matern32
from psimil.results.result_file import NAME
from psimil.results.result_set import ResultSet

PREDICTED = 4  # one in so many models that load must also predict
FLOATS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e150, 1e300, 1.8e308, -1e300, float("nan"), float("inf"))
WORDS = (
    b"__metadata__",
    b'"psimil"',
    b'"dtype":"BF16"',
    b'"F64"',
    b'"shape":[',
    b"data_offsets",
    b"\x80\x04",
    b"PK\3\4",
)
Apart = tuple[dict[str, Any], bytes]


def target(folder: Path) -> Target:
    """Loads a file as a results file if it says that it is one, else as a model, which then predicts."""
    model, results = folder / "model.safetensors", folder / NAME
    bags = make_bags(n_bags=2, bag_size=(2, 2), n_features=2, seed=1)[0]

    def run(data: bytes) -> str:
        if b"results file" in data:
            results.write_bytes(data)
            found = ResultSet.load(folder)
            assert len(found.by_probability()) == len(found) == len(found.notes)
            return f"results of {found.kind}"
        model.write_bytes(data)
        estimator = PsiVGPMIL.load(model)
        if hashlib.sha256(data).digest()[0] % PREDICTED or estimator.n_features_in_ != bags.n_features:
            return "model"
        try:
            prediction = estimator.predict_dist(bags)
        except PsimilError:
            return "model that refuses to predict"
        assert np.isfinite(prediction.prob).all() and np.isfinite(prediction.std).all()
        return "model that predicts"

    return Target("models", run, lambda: seeds(folder), change, WORDS, bombs)


@cache
def seeds(folder: Path) -> list[bytes]:
    """Models of several kernels and results of several kinds, all small."""
    bags, y, known = make_bags(n_bags=8, bag_size=(2, 3), n_features=2, seed=0)
    path = folder / "seed.safetensors"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one pass is not enough for a good model
        model = PsiVGPMIL(n_inducing=3, kernel=RBF(), max_iter=1, random_state=0).fit(bags, y)
    model.save(path)
    found = [path.read_bytes()]
    found += [_with_kernel(found[0], kernel) for kernel in (Matern32(1.0, (0.5, 2.0)), Linear(1.0) + Constant(2.0))]
    prediction = model.predict_dist(bags)
    n = len(bags.X)
    effects = (np.zeros((n, 1), np.int64), bags.X[:, :1], bags.X[:, :1])
    for how in (
        {"truth": y, "instance_truth": known, "effects": effects, "feature_names": ("a",), "model": {"kernel": "RBF"}},
        {"kind": "images", "images": np.zeros((n, 2, 2), np.uint8)},
        {"kind": "ct", "positions": np.arange(n, dtype=float), "series": tuple("abcdefgh")},
    ):
        ResultSet.of(prediction, **how).write(path)
        found.append(path.read_bytes())
    path.unlink()
    return [*found, b"", b"\x80\x04.", b"PK\3\4"]


def _with_kernel(data: bytes, kernel: Kernel) -> bytes:
    """The model file with another kernel, which its tensors do not fit."""
    apart = take_apart(data)
    assert apart is not None
    facts = json.loads(apart[0]["__metadata__"]["psimil"])
    facts["model"]["kernel"] = facts["parameters"]["kernel"] = kernel_json(kernel)
    apart[0]["__metadata__"]["psimil"] = json.dumps(facts)
    return resealed(*apart)


def change(data: bytes, rng: Random) -> bytes:
    """Another file: its JSON, its tensors or any bytes changed; most have the checksum that they should have."""
    apart = take_apart(data) if rng.randrange(5) else None
    if apart is None:
        return changed_bytes(data, rng, WORDS)
    entries, body = apart
    match rng.randrange(4):
        case 0:
            body = _changed_numbers(body, rng)
        case 1:
            entries = changed_json(entries, rng)
        case 2 if isinstance(text := entries.get("text"), dict) and rng.randrange(2):
            start, stop = text["data_offsets"]
            body = body[:start] + _refilled(body[start:stop], rng) + body[stop:]
        case _:
            _change_facts(entries, rng)
    sealed = resealed(entries, body) if rng.randrange(8) else put_together(entries, body)
    return sealed[:MAX_BYTES]


def take_apart(data: bytes) -> Apart | None:
    """Header and body of a safetensors file, None if it is none."""
    size = int.from_bytes(data[:8], "little")
    try:
        entries = json.loads(data[8 : 8 + size])
        return (entries, data[8 + size :]) if isinstance(entries["__metadata__"]["psimil"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def put_together(entries: Any, body: bytes) -> bytes:
    """A safetensors file."""
    try:
        text = json.dumps(entries).encode()
    except RecursionError:
        text = b"[" * 5000
    return len(text).to_bytes(8, "little") + text + body


def resealed(entries: Any, body: bytes) -> bytes:
    """The file with the right checksum, if its tensors can be read at all."""
    data = put_together(entries, body)
    try:
        tensors, metadata = load(data), entries["__metadata__"]
        if "sha256" in metadata:
            metadata["sha256"] = checksum(tensors, metadata["psimil"])
        else:
            text = json.loads(metadata["psimil"])["header"]
            metadata["psimil"] = json.dumps({"header": text, "sha256": checksum(tensors, f"{len(text)}:{text}")})
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data
    return put_together(entries, body)


def _changed_numbers(body: bytes, rng: Random) -> bytes:
    place = 8 * rng.randrange(len(body) // 8 + 1)
    packed = struct.pack("<d", rng.choice(FLOATS)) if rng.randrange(4) else rng.randbytes(8)
    return body[:place] + packed + body[place + 8 :]


def _refilled(text: bytes, rng: Random) -> bytes:
    """Other texts of the same number of bytes, as JSON may end in spaces."""
    try:
        new = json.dumps(changed_json(json.loads(text), rng)).encode()
    except (ValueError, RecursionError):
        new = b"[" * len(text)
    return new.ljust(len(text))[: len(text)]


def _change_facts(entries: Any, rng: Random) -> None:
    """Change the JSON text inside the JSON header."""
    metadata = entries["__metadata__"]
    try:
        facts = json.loads(metadata["psimil"])
        if isinstance(facts.get("header"), str):
            facts["header"] = json.dumps(changed_json(json.loads(facts["header"]), rng))
        else:
            facts = changed_json(facts, rng)
        metadata["psimil"] = json.dumps(facts)
    except (ValueError, TypeError, AttributeError, RecursionError):
        metadata["psimil"] = "{"


def bombs() -> dict[str, bytes]:
    """Headers that are large or say that the rest is."""
    many = {str(n): {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]} for n in range(50_000)}
    text = {"__metadata__": {"psimil": json.dumps({"format": 1, "header": "[" * 100_000})}}
    return {
        "many empty tensors": put_together(many | text, b""),
        "deep text": put_together(text, b""),
        "deep header": (1 << 20).to_bytes(8, "little") + b"[" * (1 << 20),
        "endless header": (2**63).to_bytes(8, "little") + b"{}",
        "many digits": put_together({"__metadata__": {"psimil": "1" * 1_000_000}}, b""),
    }
