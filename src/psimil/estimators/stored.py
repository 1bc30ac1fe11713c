"""Fitted models in files: one of its own, or in a folder as model hubs lay it out."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any, Self

from psimil.estimators.fitted import FittedAttributes
from psimil.estimators.online import changed_since
from psimil.estimators.parameters import check_parameters, resolved
from psimil.files.model_file import ModelFile, save_model
from psimil.files.paths import as_path
from psimil.foundations.errors import DataWarning, MissingFile, ModelFileError
from psimil.version import VERSION

WEIGHTS, CONFIG = "model.safetensors", "config.json"
LARGEST = 1 << 26  # bytes of a config.json
NOT_COMPARED = {"psimil_version", "use"}  # of config.json; a newer version may say it in other words
_NOT_STORED = ("device", "inducing_points", "random_state", "verbose", "warm_start", "feature_fingerprint")


class Stored(FittedAttributes):
    """What writes a fitted estimator to a file, and reads it from a folder; ``load`` is the estimator's own."""

    feature_fingerprint: str | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a safetensors file, atomically; it holds no training rows.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from psimil import VGPMIL, PsiVGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.save(Path(folder) / "model.safetensors")
        ...     again = PsiVGPMIL.load(Path(folder) / "model.safetensors")
        >>> bool((again.predict_proba(bags) == clf.predict_proba(bags)).all())
        True
        """
        self._check_fitted()
        check_parameters({"feature_fingerprint": self.feature_fingerprint})
        parameters = {k: v for k, v in resolved(self).items() if k not in _NOT_STORED}  # of a PsiVGPMIL, as it loads
        changed = {name: value for name, value in changed_since(self).items() if name in parameters}
        if changed:
            warnings.warn(
                f"{', '.join(changed)} changed since the fit; the file says what the model was fitted with.",
                DataWarning,
                stacklevel=2,
            )
        known = (self.feature_fingerprint, self.training_counts_, VERSION, self._feature_names, self._classes)
        save_model(path, ModelFile(self.model_, parameters | changed, *known, bag_column=self.bag_column_))

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Self:
        """The model in a folder of :func:`psimil.export.save_pretrained`, or of ``psimil fit``; needs no network.

        Parameters
        ----------
        folder : with a ``model.safetensors``, such as one that a hub's own client has downloaded. What ``config.json``
            says of the model, if it is there, must be what the weights say.

        Raises
        ------
        MissingFile
            When there is no such folder, or no model in it.
        ModelFileError
            When the two files are not of one model.

        Examples
        --------
        >>> import tempfile
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> from psimil.export import save_pretrained
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_pretrained(clf, folder)
        ...     VGPMIL.from_pretrained(folder).training_counts_["bags"]
        8
        """
        path = as_path(folder, "folder")
        if not path.is_dir():
            raise MissingFile(f"{path} is no folder here. Download a model of a hub first, or load() its file.")
        loaded: Self = cls.load(path / WEIGHTS)  # type: ignore[attr-defined]
        check_config(path, loaded)
        return loaded


def facts_of(estimator: Stored) -> dict[str, Any]:
    """What a file says of the model in it, for programs: version, classes, features, thresholds, training counts."""
    model, names = estimator.model_, estimator._feature_names
    return {
        "library_name": "psimil",
        "psimil_version": VERSION,
        "use": "research use only, not a medical device",
        "num_classes": 2,
        "class_names": [str(label) for label in estimator.classes_.tolist()],
        "positive_class": str(estimator.positive_),
        "num_features": model.n_features,
        "feature_names": None if names is None else list(names),
        "feature_fingerprint": estimator.feature_fingerprint,
        "bag_column": estimator.bag_column_,
        "threshold": model.threshold,
        "instance_threshold": model.instance_threshold,
        "referral_margin": None if model.referral is None else model.referral.margin,
        "training_counts": estimator.training_counts_,
    }


def check_config(folder: Path, estimator: Stored) -> None:
    """Refuse a folder whose config.json contradicts its weights; one without is taken, for a run has none.

    Raises
    ------
    ModelFileError
        When it cannot be read, or says something else than the weights.
    """
    path = folder / CONFIG
    if not path.is_file():
        return
    try:
        config = json.loads(path.read_bytes()) if path.stat().st_size <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ModelFileError(f"{CONFIG} of {folder} cannot be read. Take it out, or save the model anew.")
    facts = json.loads(json.dumps(facts_of(estimator)))
    for name in (name for name in facts if name in config and name not in NOT_COMPARED):
        if type(config[name]) is not type(facts[name]) or config[name] != facts[name]:
            raise ModelFileError(
                f"{CONFIG} of {folder} is not of its {WEIGHTS}: they differ in {name}. Use two files of one model."
            )
