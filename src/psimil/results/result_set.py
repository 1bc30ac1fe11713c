"""What a page or a report shows about bags: the prediction, the truth where known, pictures, telling features."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.files.paths import as_path
from psimil.files.sealed import MAX_BYTES
from psimil.foundations.errors import DataWarning, MissingFile
from psimil.inference.prediction import Prediction
from psimil.predictive.aggregates import BagMoments
from psimil.predictive.drawn import Bounds
from psimil.predictive.moments import InstanceMoments
from psimil.results.localisation import Localisation, Places
from psimil.results.result_file import NAME, read_result, write_result

if TYPE_CHECKING:
    from psimil.files.rundir import RunDirectory

Array = NDArray[Any]

UNKNOWN = -1
LARGEST = 500_000  # instances of one file, which is made and read as a whole


@dataclass(frozen=True, eq=False)
class ResultSet:
    """The prediction of B bags with N instances, and what is shown beside it.

    Parameters
    ----------
    kind : "ct", "images" or "features".
    prediction : of the bags; it is stored and read back bit for bit.
    truth : (B,) labels, -1 for unknown.
    instance_truth : (N,) labels, -1 for unknown.
    positions : (N,) millimetres along the axis, feet to head, of CT slices; else None.
    images : (N, h, w) thumbnails in 0..255, or None.
    features : (N, k) numbers of the telling features of each instance, the most telling first; or None.
    values : (N, k) their values in the units of the file.
    effects : (N, k) what each adds to the latent log-odds, against the training mean of that feature.
    own_effect, bag_effect : (N,) what the latent log-odds owe to an instance's own features and to those of its bag, of
        models that see instances in context; else None.
    feature_names : names behind the numbers in ``features``.
    notes : (B,) what was odd about a bag, "" if nothing.
    series : (B,) opaque ids of the DICOM series, "" otherwise.
    model : the model's card, see :func:`psimil.results.model_card.model_card`.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> results = ResultSet.of(prediction, truth=y)
    >>> results.kind, results.has_truth, results.instances_of(1)
    ('features', True, slice(4, 8, None))
    """

    kind: str
    prediction: Prediction
    truth: Array
    instance_truth: Array
    positions: Array | None
    images: Array | None
    features: Array | None
    values: Array | None
    effects: Array | None
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]
    series: tuple[str, ...]
    model: Mapping[str, str]
    own_effect: Array | None = None
    bag_effect: Array | None = None

    @classmethod
    def of(
        cls,
        prediction: Prediction,
        *,
        kind: str = "features",
        truth: Array | None = None,
        instance_truth: Array | None = None,
        positions: Array | None = None,
        images: Array | None = None,
        telling: tuple[Array, Array, Array] | None = None,
        owed: tuple[Array, Array] | None = None,
        feature_names: tuple[str, ...] = (),
        notes: tuple[str, ...] | None = None,
        series: tuple[str, ...] | None = None,
        model: Mapping[str, str] | None = None,
    ) -> ResultSet:
        """With all that is not given marked as unknown; ``telling`` is features, values, effects, ``owed`` own, bag."""
        empty = ("",) * len(prediction.ids)
        features, values, effects = (None, None, None) if telling is None else telling
        return cls(
            kind,
            prediction,
            _labels(truth, len(prediction.ids)),
            _labels(instance_truth, int(prediction.offsets[-1])),
            positions,
            images,
            features,
            values,
            effects,
            feature_names if telling is not None else (),
            empty if notes is None else notes,
            empty if series is None else series,
            model or {},
            *(owed or (None, None)),
        )

    @property
    def has_truth(self) -> bool:
        """Whether the label of at least one bag is known."""
        return bool((self.truth != UNKNOWN).any())

    @property
    def has_instance_truth(self) -> bool:
        """Whether the label of at least one instance is known."""
        return bool((self.instance_truth != UNKNOWN).any())

    def localisation(self) -> Localisation | None:
        """What is found inside bags, in mm for CT slices and else in rows; None when no instance label is known."""
        if not self.has_instance_truth:
            return None
        found, places = self.prediction, None
        if self.positions is not None:
            places = Places(self.positions, "mm")
        elif "labels" in self.model:  # the card of a model whose rows are in order, a chain
            places = Places.of_rows(found.offsets)
        return Localisation.of(self.instance_truth, found.instance_log_odds, found.offsets, places)

    def seen(self, bag: int, instance: int | None) -> dict[str, float]:
        """Names and values of the telling features of an instance; empty where none are shown, or the bag is meant."""
        if instance is None or self.features is None or self.values is None:
            return {}
        row = int(self.prediction.offsets[bag]) + instance
        shown = zip(self.features[row], self.values[row], strict=True)
        return {self.feature_names[feature]: float(value) for feature, value in shown}

    def __len__(self) -> int:
        """Number of bags."""
        return len(self.prediction.ids)

    def instances_of(self, bag: int) -> slice:
        """Where the instances of bag number ``bag`` are in arrays of shape (N,)."""
        return slice(int(self.prediction.offsets[bag]), int(self.prediction.offsets[bag + 1]))

    def by_probability(self) -> Array:
        """(B,) numbers of the bags from the most to the least probable."""
        return np.argsort(-self.prediction.log_odds, kind="stable")

    def by_uncertainty(self) -> Array:
        """(B,) numbers of the bags from the largest to the smallest standard deviation."""
        return np.argsort(-self.prediction.std, kind="stable")

    def save(self, run: RunDirectory) -> None:
        """Write results.safetensors among the files of a run; with a warning, nothing, when it would be too large."""
        if self.nbytes > 0.9 * MAX_BYTES:  # ids and notes come on top
            warn_of_size(int(self.prediction.offsets[-1]))
            return
        self.write(run.file(NAME))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(tensor.nbytes for tensor in self._tensors().values())

    def write(self, path: Path) -> None:
        """Write the results file at ``path``, atomically and after all checks of the schema."""
        found = self.prediction
        header = {
            "kind_of_bags": self.kind,
            "aggregate": found.aggregate,
            "threshold": float(found.threshold),
            "instance_threshold": float(found.instance_threshold),
            "level": float(found.level),
            "model": [[name, text] for name, text in self.model.items()],
            "ids": _which_ids(found.ids),
        }
        numbers = header["ids"] == "numbers"
        texts = {
            "ids": [] if numbers else [str(name) for name in found.ids],
            "notes": list(self.notes),
            "series": list(self.series),
            "feature_names": list(self.feature_names),
        }
        write_result(path, self._tensors() | ({"ids": found.ids} if numbers else {}), texts, header)

    def _tensors(self) -> dict[str, Array]:
        found = self.prediction
        tensors: dict[str, Array | None] = {
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
            "truth": self.truth,
            "instance_truth": self.instance_truth,
            "positions": self.positions,
            "images": self.images,
            "features": self.features,
            "values": self.values,
            "effects": self.effects,
            "own_effect": self.own_effect,
            "bag_effect": self.bag_effect,
        }
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    @classmethod
    def load(cls, directory: Path) -> ResultSet:
        """The results in a run directory.

        Raises
        ------
        MissingFile
            When the directory holds none.
        InputError
            When the file is damaged or breaks the schema.
        """
        path = as_path(directory, "directory") / NAME
        if not path.is_file():
            raise MissingFile(f"{NAME} is not there. Name the folder that psimil predict or psimil ct predict wrote.")
        arrays, texts, header = read_result(path)
        dtype = {"text": np.str_, "objects": np.object_}.get(header["ids"])
        prediction = Prediction(
            arrays["ids"] if dtype is None else np.array(texts["ids"], dtype=dtype),
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
            (arrays["centre"], arrays["width"]) if {"centre", "width"} <= set(arrays) else None,
            arrays.get("instance_novelty"),
            float(arrays["margin"][0]) if "margin" in arrays else None,
            Bounds(*(arrays[name] for name in Bounds._fields)) if set(Bounds._fields) <= set(arrays) else None,
        )
        return cls(
            header["kind_of_bags"],
            prediction,
            arrays["truth"],
            arrays["instance_truth"],
            arrays.get("positions"),
            arrays.get("images"),
            arrays.get("features"),
            arrays.get("values"),
            arrays.get("effects"),
            tuple(texts["feature_names"]),
            tuple(texts["notes"]),
            tuple(texts["series"]),
            dict(header["model"]),
            arrays.get("own_effect"),
            arrays.get("bag_effect"),
        )


def warn_of_size(instances: int) -> None:
    """Say that results of so many instances, more than :data:`LARGEST` or too large, are not written."""
    warnings.warn(
        f"{NAME} is left out: {instances} instances are too many for one page. "
        "Predict fewer bags at a time to view them.",
        DataWarning,
        stacklevel=3,
    )


def _labels(known: Array | None, n: int) -> Array:
    return np.full(n, UNKNOWN, dtype=np.int8) if known is None else np.asarray(known).astype(np.int8)


def _which_ids(ids: Array) -> str:
    if ids.dtype.kind in "biuf":
        return "numbers"
    return "objects" if ids.dtype == object and all(isinstance(name, str) for name in ids) else "text"
