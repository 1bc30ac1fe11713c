"""Weights of an AttCNN as safetensors with a JSON header, checked strictly. No code runs on load; needs torch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from psimil.ct.network.attcnn import AttCNN
from psimil.ct.scans.purpose import UNNAMED, Purpose
from psimil.ct.scans.windows import Window
from psimil.files.sealed import Tensors, checksum, read_tensors, write_tensors
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError, ModelFileError

Layout = dict[str, tuple[tuple[int, ...], str]]  # shape and dtype by name

KIND = "AttCNN weights"
_LIMITS = {"n_features": 4096, "attention": 4096, "windows": 16}
_PARAMETERS = {"n_features": "n_features", "attention_width": "attention", "n_windows": "windows"}  # AttCNN's: file's
_MOST_CHANNELS, _MOST_BLOCKS, _MOST_SIZE = 4096, 10, 4096


@dataclass(frozen=True, eq=False)
class Weights:
    """A trained network and how the slices it takes are made.

    Parameters
    ----------
    model : AttCNN.
    windows : the channels of a slice.
    size : rows and columns of a slice.
    purpose : what the network was trained to find; no part of the fingerprint.

    Examples
    --------
    >>> from psimil.ct.scans.windows import WINDOWS
    >>> one, other = (Weights(AttCNN(), WINDOWS, size) for size in (96, 64))
    >>> one.fingerprint == other.fingerprint, len(one.fingerprint)
    (False, 30)
    """

    model: AttCNN
    windows: tuple[Window, ...]
    size: int
    purpose: Purpose = UNNAMED

    @property
    def fingerprint(self) -> str:
        """Names the features: equal when weights, windows and size are equal, and only then."""
        facts = [self.model.architecture, [asdict(w) for w in self.windows], self.size]
        text = json.dumps(facts, sort_keys=True, allow_nan=False)
        return f"attcnn sha256:{checksum(state_arrays(self.model), f'{len(text)}:{text}')[:16]}"


def save_weights(path: str | os.PathLike[str], weights: Weights) -> None:
    """Write the weights; what was at ``path`` before stays intact until the new file is complete.

    Examples
    --------
    >>> from pathlib import Path
    >>> from psimil.ct.scans.windows import WINDOWS
    >>> path = Path("cnn.safetensors")
    >>> save_weights(path, Weights(AttCNN(32), WINDOWS, 96))
    >>> load_weights(path).model.n_features
    32
    """
    header = {
        "architecture": weights.model.architecture,
        "windows": [asdict(w) for w in weights.windows],
        "size": weights.size,
        "fingerprint": weights.fingerprint,
        "purpose": weights.purpose.json,
    }
    write_tensors(path, KIND, state_arrays(weights.model), header)


def load_weights(path: str | os.PathLike[str], backbone: Callable[[], nn.Module] | None = None) -> Weights:
    """Read weights; anything that does not follow the schema is refused.

    Parameters
    ----------
    path : a file that :func:`save_weights` wrote.
    backbone : makes the module that was given as backbone when the network was trained; None for SliceCNN.
    """
    tensors, header = read_tensors(path, KIND)
    header = {"purpose": UNNAMED.json, **header}  # files of 1.0.0 have none
    if set(header) != {"architecture", "windows", "size", "fingerprint", "purpose"}:
        raise ModelFileError(f"{KIND}: the header's keys are incomplete or unknown.")
    architecture, size = _architecture(header["architecture"]), header["size"]
    if (architecture["backbone"] == "custom") != (backbone is not None):
        cure = "Give the function that makes it." if backbone is None else "Load it without a backbone."
        raise InputError(f"{KIND}: the backbone is {architecture['backbone']}. {cure}")
    windows = _windows(header["windows"], architecture["windows"])
    if not _whole(size, _MOST_SIZE):
        raise ModelFileError(f"{KIND}: the size of a slice must be a whole number in 1..{_MOST_SIZE}.")
    facts = {name: architecture[stored] for name, stored in _PARAMETERS.items()}
    if backbone is None:
        facts["channels"] = architecture["channels"]
        with torch.device("meta"):  # shapes without memory, whatever sizes the file claims
            check_tensors(tensors, layout(AttCNN(**facts).state_dict()), KIND)
    with torch.random.fork_rng(devices=[]):
        model = AttCNN(**facts, backbone=None if backbone is None else backbone())
    check_tensors(tensors, layout(model.state_dict()), KIND)
    load_state(model, tensors)
    weights = Weights(model.eval(), windows, size, _purpose(header["purpose"]))
    if header["fingerprint"] != weights.fingerprint:
        raise ModelFileError(f"{KIND}: the fingerprint does not belong to the weights.")
    return weights


def state_arrays(model: nn.Module) -> Tensors:
    """A copy of every weight and buffer by name, row-major."""
    return {name: np.array(t.detach().cpu().numpy(), order="C") for name, t in model.state_dict().items()}


def load_state(model: nn.Module, tensors: Mapping[str, Array]) -> None:
    """Put arrays that :func:`check_tensors` found right into the model."""
    model.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in tensors.items()})


def layout(state: Mapping[str, Tensor], group: str = "") -> Layout:
    """Shape and dtype of every tensor by name, the names with ``group`` before them.

    Examples
    --------
    >>> layout(nn.Linear(2, 1).state_dict(), "best/")
    {'best/weight': ((1, 2), 'float32'), 'best/bias': ((1,), 'float32')}
    """
    return {group + name: (tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in state.items()}


def check_tensors(tensors: Mapping[str, Array], expected: Layout, what: str) -> None:
    """Refuse missing or unknown names, wrong dtypes or shapes, and values that are not finite."""
    for name in sorted(set(expected) ^ set(tensors)):
        raise ModelFileError(f'{what}: tensor "{name[:80]}" is {"missing" if name in expected else "unknown"}.')
    for name, (shape, dtype) in expected.items():
        array = tensors[name]
        if array.shape != shape or str(array.dtype) != dtype:
            raise ModelFileError(f"{what}: {name} is {array.dtype} {array.shape}, expected {dtype} {shape}.")
        if not np.isfinite(array).all():
            raise ModelFileError(f"{what}: {name} has non-finite values.")


def _purpose(facts: Any) -> Purpose:
    try:
        return Purpose.from_json(facts)
    except InputError as error:
        raise ModelFileError(f"{KIND}: {error}") from None


def _whole(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _architecture(facts: Any) -> dict[str, Any]:
    if not isinstance(facts, dict) or set(facts) != {*_LIMITS, "channels", "backbone"}:
        raise ModelFileError(f"{KIND}: the architecture is incomplete or unknown.")
    channels = facts["channels"]
    right = all(_whole(facts[name], most) for name, most in _LIMITS.items())
    right = right and isinstance(channels, list) and all(_whole(c, _MOST_CHANNELS) for c in channels)
    right = right and (1 <= len(channels) <= _MOST_BLOCKS if facts["backbone"] == "SliceCNN" else channels == [])
    if not right or facts["backbone"] not in ("SliceCNN", "custom"):
        raise ModelFileError(f"{KIND}: the architecture has values that no network has.")
    return facts


def _windows(facts: Any, count: int) -> tuple[Window, ...]:
    try:
        windows = tuple(Window(**window) for window in facts)
        right = all(isinstance(w.name, str) and abs(w.level) <= 1e5 and w.width <= 1e5 for w in windows)
    except (TypeError, InputError):
        windows, right = (), False
    if not right or len(windows) != count:
        raise ModelFileError(f"{KIND}: the windows need a name, a level and a width > 0, one for each channel.")
    return windows
