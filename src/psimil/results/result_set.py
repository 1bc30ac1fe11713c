"""What a page or a report shows about bags: the prediction, the truth where known, pictures, feature effects."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psimil.files.paths import as_path
from psimil.files.rundir import RunDirectory
from psimil.files.sealed import MAX_BYTES
from psimil.foundations.arrays import Array
from psimil.foundations.errors import DataWarning, MissingFile
from psimil.predictive.prediction import Prediction
from psimil.predictive.prediction_table import estimate
from psimil.results.feature_effects import FeatureEffect
from psimil.results.localisation import Localisation, Places
from psimil.results.metrics import UNKNOWN, bag_metrics, instance_metrics
from psimil.results.result_file import NAME, OBSTACLES, prediction_arrays, prediction_of, read_result, write_result

SHOWN = (
    "truth", "instance_truth", "positions", "images", "heat", "orientation", "features", "values", "effects",
    "own_effect", "bag_effect", "fold",
)  # fmt: skip
OUT_OF_BAG = "out-of-bag: every bag is predicted by a model that has not learned from it"
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
    heat : (N, h, w) what speaks for each CT slice, by place, 255 the most in a scan, 0 where not called; or None.
    orientation : (B, 6) ImageOrientationPatient of the pictures of scans, zeros where unknown; or None.
    features : (N, k) numbers of the features that move each instance most, the strongest first; or None.
    values : (N, k) their values in the units of the file.
    effects : (N, k) what each adds to the latent log-odds, against the training mean of that feature.
    own_effect, bag_effect : (N,) what the latent log-odds owe to an instance's own features and to those of its bag, of
        models that see instances in context; else None.
    feature_names : names behind the numbers in ``features``.
    notes : (B,) what was odd about a bag, "" if nothing.
    series : (B,) opaque ids of the DICOM series, "" otherwise.
    model : the model's card, see :func:`psimil.results.model_card.model_card`.
    fold : (B,) the fold with which each bag was left out, of out-of-bag predictions; else None.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
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
    heat: Array | None
    orientation: Array | None
    features: Array | None
    values: Array | None
    effects: Array | None
    own_effect: Array | None
    bag_effect: Array | None
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]
    series: tuple[str, ...]
    model: Mapping[str, str]
    fold: Array | None = None

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
        heat: Array | None = None,
        orientation: Array | None = None,
        effects: tuple[Array, Array, Array] | None = None,
        owed: tuple[Array, Array] | None = None,
        feature_names: tuple[str, ...] = (),
        notes: tuple[str, ...] | None = None,
        series: tuple[str, ...] | None = None,
        model: Mapping[str, str] | None = None,
    ) -> ResultSet:
        """With all that is not given marked as unknown; ``effects`` is features, values, effects, ``owed`` own, bag."""
        empty = ("",) * len(prediction.ids)
        features, values, strengths = effects or (None, None, None)
        own, bag = owed or (None, None)
        return cls(
            kind,
            prediction,
            _labels(truth, len(prediction.ids)),
            _labels(instance_truth, int(prediction.offsets[-1])),
            positions,
            images,
            heat,
            orientation,
            features,
            values,
            strengths,
            own,
            bag,
            feature_names if effects is not None else (),
            empty if notes is None else notes,
            empty if series is None else series,
            model or {},
        )

    @property
    def has_truth(self) -> bool:
        """Whether the label of at least one bag is known."""
        return bool((self.truth != UNKNOWN).any())

    @property
    def has_instance_truth(self) -> bool:
        """Whether the label of at least one instance is known."""
        return bool((self.instance_truth != UNKNOWN).any())

    @property
    def origin(self) -> str:
        """How the predictions were made where that matters to a reader, see :data:`OUT_OF_BAG`; else empty."""
        return self.model.get("predictions", "")

    def orientation_of(self, bag: int) -> tuple[float, ...] | None:
        """(6,) ImageOrientationPatient of the pictures of a bag, None where it is unknown."""
        cosines = () if self.orientation is None else tuple(self.orientation[bag].tolist())
        return cosines if any(cosines) else None

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

    def estimate(self, bag: int, instance: int | None = None) -> dict[str, Any]:
        """The numbers of one bag, or of one of its instances, by name, with its ``truth``, -1 where unknown."""
        truth = self.truth[bag] if instance is None else self.instance_truth[self.instances_of(bag)][instance]
        return estimate(self.prediction, bag, instance) | {"truth": int(truth)}

    def counts(self) -> dict[str, int]:
        """Bags and instances in all, and bags called positive, to be referred, and unlike the training data."""
        found = self.prediction
        return {
            "bags": len(self),
            "instances": int(found.offsets[-1]),
            "positives_called": int(found.label.sum()),
            "to_refer": int(found.refer.sum()),
            "novel": int(found.novel.sum()),
        }

    def scores(self) -> dict[str, float] | None:
        """:func:`psimil.results.metrics.bag_metrics` of the bags whose label is known; None when there are none."""
        found, known = self.prediction, self.truth != UNKNOWN
        if not known.any():
            return None
        fold = None if self.fold is None else self.fold[known]
        return bag_metrics(self.truth[known], found.prob[known], found.threshold, found.log_odds[known], fold)

    def instance_scores(self) -> dict[str, float] | None:
        """The same of instances."""
        found = self.prediction
        if not self.has_instance_truth:
            return None
        labels, limit = self.instance_truth, found.instance_threshold
        return instance_metrics(labels, found.instance_prob, limit, found.instance_log_odds)

    def effects_of(self, bag: int, instance: int | None) -> list[FeatureEffect]:
        """The features that move an instance most; empty where none are shown, or the bag is meant."""
        if instance is None or self.features is None or self.values is None or self.effects is None:
            return []
        row = self.instances_of(bag).start + instance
        columns = zip(self.features[row], self.values[row].tolist(), self.effects[row].tolist(), strict=True)
        return [FeatureEffect(self.feature_names[feature], value, effect) for feature, value, effect in columns]

    def owed_of(self, bag: int, instance: int) -> tuple[float, float] | None:
        """What an instance's latent log-odds owe to itself and to its bag; None of models without context."""
        if self.own_effect is None or self.bag_effect is None:
            return None
        row = self.instances_of(bag).start + instance
        return float(self.own_effect[row]), float(self.bag_effect[row])

    def __len__(self) -> int:
        """Number of bags."""
        return len(self.prediction.ids)

    def instances_of(self, bag: int) -> slice:
        """Where the instances of bag number ``bag`` are in arrays of shape (N,)."""
        return self.prediction.instances_of(bag)

    def by_probability(self) -> Array:
        """(B,) numbers of the bags from the most to the least probable."""
        return np.argsort(-self.prediction.log_odds, kind="stable")

    def by_uncertainty(self) -> Array:
        """(B,) numbers of the bags from the largest to the smallest standard deviation."""
        return np.argsort(-self.prediction.std, kind="stable")

    def save(self, run: RunDirectory) -> None:
        """Write results.safetensors among the files of a run; with a warning, nothing, when it would be too large."""
        if sum(array.nbytes for array in self._arrays().values()) > 0.9 * MAX_BYTES:  # ids and notes come on top
            warn_of_size(int(self.prediction.offsets[-1]))
            return
        self.write(run.file(NAME))

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
        if found.obstacles is not None:
            texts[OBSTACLES] = [str(why) for why in found.obstacles]
        write_result(path, self._arrays() | ({"ids": found.ids} if numbers else {}), texts, header)

    def _arrays(self) -> dict[str, Array]:
        shown = {name: getattr(self, name) for name in SHOWN}
        return prediction_arrays(self.prediction) | {name: array for name, array in shown.items() if array is not None}

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
            raise MissingFile(f"{NAME} is not there. Name a folder of psimil fit, psimil predict or psimil ct predict.")
        arrays, texts, header = read_result(path)
        dtype = {"text": np.str_, "objects": np.object_}.get(header["ids"])
        ids = arrays["ids"] if dtype is None else np.array(texts["ids"], dtype=dtype)
        shown: dict[str, Any] = {name: arrays.get(name) for name in SHOWN}
        words: dict[str, Any] = {name: tuple(texts[name]) for name in ("feature_names", "notes", "series")}
        prediction = prediction_of(ids, arrays, texts, header)
        return cls(header["kind_of_bags"], prediction, **shown, **words, model=dict(header["model"]))


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
