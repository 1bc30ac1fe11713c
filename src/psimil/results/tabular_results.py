"""The result set of a table of bags: known labels, feature effects and, where features are pixels, pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from psimil.data.bagtable import BagTable
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.model.context import context_names
from psimil.predictive.prediction import Prediction
from psimil.results.feature_effects import feature_effects, owed_to_bag
from psimil.results.model_card import model_card
from psimil.results.result_set import ResultSet

PICTURES = 2**29  # bytes of pictures above which none are kept


def tabular_results(
    table: BagTable,
    prediction: Prediction,
    estimator: PsiVGPMIL,
    *,
    file: Path | None = None,
    image_size: tuple[int, int] | None = None,
) -> ResultSet:
    """What is shown about the bags of a table.

    Parameters
    ----------
    table : B bags of N instances that were predicted.
    prediction : of ``estimator`` for them.
    file : the estimator's model file, for its card.
    image_size : (rows, columns) when the D features are the pixels of a picture, row by row.

    Raises
    ------
    InputError
        When rows times columns are not D.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, n_features=6, seed=0)
    >>> clf = VGPMIL(n_inducing=5, random_state=0).fit(bags, y)
    >>> table = BagTable(bags, y, None)
    >>> results = tabular_results(table, clf.predict_dist(bags), clf, image_size=(2, 3))
    >>> results.kind, results.images.shape[1:], results.features.shape[1]
    ('images', (2, 3), 5)
    """
    model = estimator.model_
    return ResultSet.of(
        prediction,
        kind="features" if image_size is None else "images",
        truth=table.y,
        instance_truth=table.y_instances,
        images=None if image_size is None else pictures(table.bags.X, image_size),
        effects=feature_effects(model, table.bags),
        owed=owed_to_bag(model, table.bags),
        feature_names=context_names(table.feature_names) if model.context else table.feature_names,
        model=model_card(estimator, file),
    )


def pictures(X: Array, size: tuple[int, int]) -> Array | None:
    """(N, rows, columns) pictures in 0..255, black at the smallest feature of all and white at the largest.

    Parameters
    ----------
    X : (N, D) pixels, row by row.
    size : rows and columns; their product is D.

    Returns
    -------
    images : uint8; None when they would take more than 512 MB.

    Examples
    --------
    >>> pictures(np.array([[0.0, 0.5, 1.0, 0.0]]), (2, 2)).tolist()
    [[[0, 128], [255, 0]]]
    """
    rows, columns = size
    if rows * columns != X.shape[1]:
        raise InputError(f"pictures of {rows} x {columns} need {rows * columns} features, got {X.shape[1]}.")
    if X.shape[0] * X.shape[1] > PICTURES:
        return None
    low, high = float(X.min()), float(X.max())
    images = np.empty((len(X), rows, columns), dtype=np.uint8)
    for start in range(0, len(X), 4096):
        part = np.asarray(X[start : start + 4096], dtype=np.float64)
        shades = np.zeros_like(part) if high == low else (part - low) / (high - low)
        images[start : start + 4096] = np.rint(255 * shades).astype(np.uint8).reshape(-1, rows, columns)
    return images
