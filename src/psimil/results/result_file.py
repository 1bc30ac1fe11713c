"""The schema of results.safetensors: which arrays and texts it holds, and what each must satisfy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psimil.files.sealed import read_tensors, write_tensors
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.predictive.aggregates import AGGREGATES, BagMoments
from psimil.predictive.drawn import Bounds
from psimil.predictive.moments import InstanceMoments
from psimil.predictive.prediction import Prediction

NAME = "results.safetensors"
KIND = "results file"
KINDS = ("ct", "images", "features")
REAL = ("float64", "float32")
HEADER = {"kind_of_bags", "aggregate", "threshold", "instance_threshold", "level", "model", "ids"}
TEXTS = {"ids", "notes", "series", "feature_names"}
OBSTACLES = "obstacles"  # text that is there where bags were not analysed
WHICH_IDS = ("numbers", "text", "objects")


@dataclass(frozen=True)
class Field:
    """One array of the file.

    Parameters
    ----------
    shape : letters of its dimensions: B bags, O = B + 1, N instances, H x W pixels, K features of each, 6 cosines.
    dtypes : names of the dtypes that it may have.
    low, high : smallest and largest value.
    needed : whether a file without it is refused.

    Examples
    --------
    >>> FIELDS["truth"].shape, FIELDS["truth"].low
    ('B', -1)
    """

    shape: str
    dtypes: tuple[str, ...] = REAL
    low: float = -np.inf
    high: float = np.inf
    needed: bool = True


FIELDS = {
    "offsets": Field("O", ("int64",), 0),
    "latent_mean": Field("N"),
    "latent_variance": Field("N", low=0),
    "instance_log_p": Field("N", high=0),
    "instance_log_q": Field("N", high=0),
    "instance_variance": Field("N", low=0),
    "bag_log_odds": Field("B"),
    "bag_prob": Field("B", low=0, high=1),
    "bag_std": Field("B", low=0),
    "truth": Field("B", ("int8",), -1, 1),
    "instance_truth": Field("N", ("int8",), -1, 1),
    "text": Field("T", ("uint8",)),
    "ids": Field("B", ("int64", "int32", "uint64", "uint32", "bool", *REAL), needed=False),
    "rows": Field("N", ("int64",), 0, needed=False),
    "joint_std": Field("B", low=0, needed=False),
    "centre": Field("B", needed=False),
    "width": Field("B", low=0, needed=False),
    "instance_novelty": Field("N", low=0, high=1, needed=False),
    "margin": Field("1", low=0, needed=False),
    "lower": Field("B", low=0, high=1, needed=False),
    "upper": Field("B", low=0, high=1, needed=False),
    "instance_lower": Field("N", low=0, high=1, needed=False),
    "instance_upper": Field("N", low=0, high=1, needed=False),
    "positions": Field("N", ("float64",), needed=False),
    "images": Field("NHW", ("uint8",), needed=False),
    "heat": Field("NHW", ("uint8",), needed=False),
    "orientation": Field("B6", ("float64",), -1.1, 1.1, needed=False),
    "features": Field("NK", ("int64",), 0, needed=False),
    "values": Field("NK", ("float64",), needed=False),
    "effects": Field("NK", ("float64",), needed=False),
    "own_effect": Field("N", ("float64",), needed=False),
    "bag_effect": Field("N", ("float64",), needed=False),
    "fold": Field("B", ("int64",), 0, needed=False),
}


def prediction_arrays(found: Prediction) -> dict[str, Array]:
    """The arrays of a prediction, under their names in the file."""
    arrays: dict[str, Array | None] = {
        "offsets": np.asarray(found.offsets, dtype=np.int64),
        "rows": None if found.rows is None else np.asarray(found.rows, dtype=np.int64),
        "latent_mean": found.latent_mean,
        "latent_variance": found.latent_variance,
        "instance_log_p": found.instances.log_p,
        "instance_log_q": found.instances.log_q,
        "instance_variance": found.instances.variance,
        "bag_log_odds": found.bags.log_odds,
        "bag_prob": found.bags.prob,
        "bag_std": found.bags.std,
        "joint_std": found.joint_std,
        **dict(zip(("centre", "width"), found.log_odds_moments or (), strict=False)),
        "instance_novelty": found.instance_novelty,
        "margin": None if found.margin is None else np.array([found.margin]),
        **({} if found.bounds is None else found.bounds._asdict()),
    }
    return {name: array for name, array in arrays.items() if array is not None}


def prediction_of(
    ids: Array, arrays: dict[str, Array], texts: dict[str, list[str]], header: dict[str, Any]
) -> Prediction:
    """The prediction whose arrays, texts and header these are, bit for bit."""
    return Prediction(
        ids,
        arrays["offsets"],
        arrays.get("rows"),
        arrays["latent_mean"],
        arrays["latent_variance"],
        InstanceMoments(arrays["instance_log_p"], arrays["instance_log_q"], arrays["instance_variance"]),
        BagMoments(arrays["bag_log_odds"], arrays["bag_prob"], arrays["bag_std"]),
        header["aggregate"],
        header["threshold"],
        header["instance_threshold"],
        header["level"],
        arrays.get("joint_std"),
        (arrays["centre"], arrays["width"]) if "centre" in arrays else None,
        arrays.get("instance_novelty"),
        float(arrays["margin"][0]) if "margin" in arrays else None,
        Bounds(*(arrays[name] for name in Bounds._fields)) if "lower" in arrays else None,
        np.array(texts[OBSTACLES], dtype=np.str_) if OBSTACLES in texts else None,
    )


def write_result(path: Path, tensors: dict[str, Array], texts: dict[str, list[str]], header: dict[str, Any]) -> None:
    """Write arrays, texts and a header after the checks that :func:`read_result` makes."""
    packed = np.frombuffer(json.dumps(texts, sort_keys=True).encode("ascii"), dtype=np.uint8)
    full = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()} | {"text": packed}
    check_result(full, texts, header)
    write_tensors(path, KIND, full, header)


def read_result(path: Path) -> tuple[dict[str, Array], dict[str, list[str]], dict[str, Any]]:
    """Arrays, texts and header of a results file; whatever does not follow the schema is refused.

    Raises
    ------
    MissingFile
        When there is none.
    InputError
        When it is damaged, foreign, too large, or breaks the schema; the message names the file.
    """
    tensors, header = read_tensors(path, KIND)
    try:
        texts = json.loads(tensors["text"].tobytes())
    except (KeyError, ValueError, RecursionError):
        raise _broken("its texts cannot be read") from None
    check_result(tensors, texts, header)
    return tensors, texts, header


def check_result(tensors: dict[str, Array], texts: Any, header: Any) -> None:
    """Refuse missing and unknown keys, wrong dtypes and shapes, and values that no prediction has.

    Raises
    ------
    InputError
        Naming the file and the culprit.
    """
    needed = {name for name, field in FIELDS.items() if field.needed}
    for name in sorted((needed - set(tensors)) | (set(tensors) - set(FIELDS))):
        raise _broken(f'array "{name}" is {"missing" if name in needed else "unknown"}')
    sizes = {"O": len(tensors["offsets"]), "B": len(tensors["offsets"]) - 1, "1": 1, "6": 6}
    for name, tensor in tensors.items():
        _check_array(name, tensor, sizes)
    _check_header(header)
    _check_texts(texts, tensors, header, sizes)
    _check_together(tensors, header, sizes, len(texts["feature_names"]))


def _check_array(name: str, tensor: Array, sizes: dict[str, int]) -> None:
    field = FIELDS[name]
    if str(tensor.dtype) not in field.dtypes:
        raise _broken(f'array "{name}" is {tensor.dtype}, expected {" or ".join(field.dtypes)}')
    expected = tuple(sizes.setdefault(letter, size) for letter, size in zip(field.shape, tensor.shape, strict=False))
    if tensor.ndim != len(field.shape) or tensor.shape != expected:
        raise _broken(f'array "{name}" has shape {tensor.shape}, which does not fit the other arrays')
    if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
        raise _broken(f'array "{name}" has values that are not finite')
    if tensor.size and (tensor.min() < field.low or tensor.max() > field.high):
        raise _broken(f'array "{name}" has values outside [{field.low:g}, {field.high:g}]')


def _check_header(header: Any) -> None:
    if not isinstance(header, dict) or set(header) != HEADER:
        raise _broken("the header is incomplete or has unknown keys")
    words = (header["kind_of_bags"], header["aggregate"])
    if not all(isinstance(word, str) for word in words) or words[0] not in KINDS or words[1] not in AGGREGATES:
        raise _broken("the kind of bags or the aggregate is unknown")
    for name in ("threshold", "instance_threshold", "level"):
        value = header[name]
        if not isinstance(value, float) or not 0 < value < 1:
            raise _broken(f'"{name}" is not a number between 0 and 1')
    if not isinstance(header["model"], list) or not all(map(_is_pair, header["model"])):
        raise _broken("the model's card is not a list of names and texts")


def _check_texts(texts: Any, tensors: dict[str, Array], header: dict[str, Any], sizes: dict[str, int]) -> None:
    if not isinstance(texts, dict) or set(texts) - {OBSTACLES} != TEXTS:
        raise _broken("the texts are incomplete or have unknown keys")
    for values in texts.values():
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            raise _broken("the texts are not lists of text")
    named = header["ids"] != "numbers"
    if header["ids"] not in WHICH_IDS or named == ("ids" in tensors) or len(texts["ids"]) != named * sizes["B"]:
        raise _broken("there is not one id per bag")
    if {len(texts[name]) for name in ("notes", "series", OBSTACLES) if name in texts} != {sizes["B"]}:
        raise _broken("there is not one note, one series and one obstacle per bag")


def _check_together(tensors: dict[str, Array], header: dict[str, Any], sizes: dict[str, int], names: int) -> None:
    """What one array says about another."""
    offsets, N = tensors["offsets"], sizes["N"]
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != N or (np.diff(offsets) < 1).any():
        raise _broken(f'array "offsets" does not run from 0 to {N} with at least one instance per bag')
    if "rows" in tensors and (np.bincount(np.minimum(tensors["rows"], N), minlength=N + 1) != [*[1] * N, 0]).any():
        raise _broken('array "rows" is not an order of the instances')
    if len({"features", "values", "effects"} & set(tensors)) not in (0, 3):
        raise _broken('arrays "features", "values" and "effects" do not come together')
    if "features" in tensors and tensors["features"].max(initial=-1) >= names:
        raise _broken('array "features" names features that are not there')
    _check_bounds(tensors)
    kind = header["kind_of_bags"]
    scans_only, others_only = {"orientation", "heat"} & set(tensors), "features" in tensors
    if (kind == "ct") != ("positions" in tensors) or (others_only if kind == "ct" else scans_only):
        raise _broken(f'the arrays are not those of kind "{kind}"')
    if "heat" in tensors and "images" not in tensors:
        raise _broken('array "heat" is there without "images", over which it lies')
    if "images" in tensors and (kind == "features" or 0 in tensors["images"].shape):
        raise _broken(f'array "images" does not fit bags of kind "{kind}"')


def _check_bounds(tensors: dict[str, Array]) -> None:
    """Interval ends of draws come together, and none is above the other; so do other pairs."""
    for together in (Bounds._fields, ("centre", "width"), ("own_effect", "bag_effect")):
        missing = [name for name in together if name not in tensors]
        if 0 < len(missing) < len(together):
            other = next(name for name in together if name not in missing)
            raise _broken(f'array "{missing[0]}" is missing, which comes with "{other}"')
    for low, high, row in (("lower", "upper", "bag"), ("instance_lower", "instance_upper", "instance")):
        if low in tensors and (wrong := np.flatnonzero(tensors[low] > tensors[high])).size:
            ends = f"{tensors[low][wrong[0]]:.6g} > {tensors[high][wrong[0]]:.6g}"
            raise _broken(f'{row} {wrong[0]}: array "{low}" is above "{high}" ({ends}); the two may be swapped')


def _is_pair(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) == 2 and all(isinstance(text, str) for text in entry)


def _broken(why: str) -> InputError:
    return InputError(f"{NAME}: {why}. Write it again with psimil predict or psimil ct predict.")
