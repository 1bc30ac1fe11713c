"""Several 0/1 labels per bag at once, such as the kinds of a hemorrhage: one kernel and one set of inducing points."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from psimil.estimators.inputs import read_bags
from psimil.estimators.psi_vgpmil import VGPMIL, PsiVGPMIL
from psimil.estimators.voice import say
from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile, ModelFileError, NotFitted
from psimil.model.labels import values_of_bags
from psimil.model.sparse_gp import KernelState
from psimil.predictive.prediction import Prediction

Array = NDArray[Any]

INDEX = "labels.json"
FORMAT = "psimil labels 1"


class MultiLabelMIL(ClassifierMixin, BaseEstimator):
    """One model per label over a shared kernel.

    Scaling, inducing points and kernel are learned once, from whether a bag has any of the labels (from the label that
    is nearest to half of the bags, when all bags have one). Each label then has
    its own q(v), calibration and thresholds, for the price of passes with a fixed kernel.

    Parameters
    ----------
    estimator : PsiVGPMIL, default None
        The model of every label; None is VGPMIL().

    Attributes
    ----------
    estimators_ : one fitted PsiVGPMIL per label.
    label_names_ : tuple of str.

    Examples
    --------
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=40, seed=1)
    >>> Y = np.column_stack([y, 1 - y])
    >>> model = MultiLabelMIL(VGPMIL(n_inducing=10, random_state=0))
    >>> model = model.fit(bags, Y, label_names=["bleeding", "healthy"])
    >>> model.predict_proba(bags).shape, model.label_names_
    ((40, 2), ('bleeding', 'healthy'))
    """

    estimators_: list[PsiVGPMIL]
    label_names_: tuple[str, ...]

    def __init__(self, estimator: PsiVGPMIL | None = None) -> None:
        self.estimator = estimator

    def fit(self, bags: Any, y: Any = None, *, bag_ids: Any = None, label_names: Sequence[str] | None = None) -> Self:
        """Learn from bags and L labels each.

        Parameters
        ----------
        bags, bag_ids : as of :meth:`PsiVGPMIL.fit`.
        y : (B, L) labels, 0 or 1, in the order of the bags, which with ``bag_ids`` is that of their first rows; or a
            table of them with the bag ids as its index.
        label_names : L names; when None those of the columns of y, or "0", "1", ...

        Examples
        --------
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> base = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0)
        >>> MultiLabelMIL(base).fit(bags, np.column_stack([y, 1 - y])).label_names_
        ('0', '1')
        """
        if y is None:
            raise InputError("fit needs labels: fit(bags, y) with one column of y per label.")
        if self.estimator is not None and not isinstance(self.estimator, PsiVGPMIL):
            raise InputError(f"estimator must be a PsiVGPMIL such as VGPMIL(), got {self.estimator!r}.")
        if isinstance(label_names, (str, bytes)) or not (label_names is None or hasattr(label_names, "__iter__")):
            raise InputError(f"label_names must be a list of names, got {label_names!r}.")
        found = read_bags(bags, bag_ids)
        T = values_of_bags(y, found, from_rows=bag_ids is not None)
        if T.ndim != 2 or len(T) != len(found) or T.shape[1] == 0:
            raise InputError(f"labels have shape {T.shape}, expected ({len(found)}, labels).")
        if T.dtype.kind not in "biuf" or not np.isin(T, (0, 1)).all():
            raise InputError("labels must be 0 or 1.")
        columns = getattr(y, "columns", range(T.shape[1]))
        names = tuple(map(str, columns if label_names is None else label_names))
        if len(names) != T.shape[1] or len(set(names)) < len(names):
            raise InputError(f"{T.shape[1]} labels need as many different names, got {len(names)}.")
        base = VGPMIL() if self.estimator is None else self.estimator
        shared = clone(base).fit(found, _teaching(T)).model_
        start = replace(shared, posterior=KernelState.first(shared.gp).posterior)
        self.estimators_ = []
        for name, column in zip(names, T.T, strict=True):
            if base.verbose:
                say(f"label {name}")
            model = clone(base).set_params(warm_start=True, hyperparameters=None)
            model.set_params(context="bag" if shared.context else None)
            if shared.sharing:  # learned with the kernel, and kept with it
                model.set_params(labels="shared")
            model.model_ = start
            self.estimators_.append(model.fit(found, column))
        self.label_names_ = names
        return self

    def predict_dist(self, bags: Any, *, bag_ids: Any = None, **options: Any) -> dict[str, Prediction]:
        """By label: probabilities of bags and instances with uncertainty.

        Parameters
        ----------
        bags, bag_ids, options : as of :meth:`PsiVGPMIL.predict_dist`.
        """
        names = self._names()
        found = read_bags(bags, bag_ids, what="prediction set")
        return {name: model.predict_dist(found, **options) for name, model in zip(names, self.estimators_, strict=True)}

    def predict_proba(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B, L) probability of each label."""
        return np.column_stack([found.prob for found in self.predict_dist(bags, bag_ids=bag_ids).values()])

    def predict(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B, L) labels, 0 or 1, each at its own threshold."""
        return np.column_stack([found.label for found in self.predict_dist(bags, bag_ids=bag_ids).values()])

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write one model file per label and their names to a folder, which is made if need be."""
        names = self._names()
        folder = as_path(directory, "directory")
        folder.mkdir(parents=True, exist_ok=True)
        for number, model in enumerate(self.estimators_):
            model.save(folder / f"label-{number:03d}.safetensors")
        content = json.dumps({"format": FORMAT, "labels": list(names)}).encode()
        atomic_write(folder / INDEX, lambda stream: stream.write(content))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Models written by :meth:`save`.

        Raises
        ------
        ModelFileError
            When the folder's index is not one of ours.
        """
        path = as_path(directory, "directory") / INDEX
        if not path.is_file():
            raise MissingFile(f"{path.parent.name} has no {INDEX}. Name the folder of a multi-label model.")
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            names = found["labels"] if found["format"] == FORMAT else None
        except (ValueError, TypeError, KeyError):
            names = None
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ModelFileError(f"{INDEX} is not the index of a multi-label model.")
        model = cls()
        model.estimators_ = [
            PsiVGPMIL.load(path.parent / f"label-{number:03d}.safetensors") for number in range(len(names))
        ]
        model.label_names_ = tuple(names)
        return model

    def __sklearn_is_fitted__(self) -> bool:
        """Whether fit or load has been called."""
        return hasattr(self, "estimators_")

    def _names(self) -> tuple[str, ...]:
        if not hasattr(self, "estimators_"):
            raise NotFitted("this model is not fitted. Call fit() or load a model.")
        return self.label_names_


def _teaching(T: Array) -> Array:
    """(B,) the label from which the kernel is learned."""
    some = T.max(axis=1)
    return some if some.min() < some.max() else T[:, np.argmin(np.abs(T.mean(axis=0) - 0.5))]
