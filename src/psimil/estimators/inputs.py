"""Reading of what users give to a fit: bags, labels, weights, evaluation set, callbacks, and how to compute."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.estimators.voice import say_pass
from psimil.foundations.errors import DataWarning, InputError
from psimil.foundations.numbers import at_least, unmasked
from psimil.inference.history import Callback
from psimil.inference.options import Execution, Options
from psimil.inference.preparation import Supervision
from psimil.model.bags import Bags
from psimil.model.features import COLUMNS, columns_fingerprint, listed, numbered
from psimil.model.labels import Classes, label_values, values_of_bags

Array = NDArray[Any]


def read_bags(bags: Any, bag_ids: Any = None, what: str = "training set") -> Bags:
    """Bags from anything a user may hold: Bags, a sequence of 2-D arrays, an object array, or rows with ``bag_ids``.

    Examples
    --------
    >>> len(read_bags([[[1.0]], [[2.0], [3.0]]]))
    2
    """
    if isinstance(bags, Bags) and bag_ids is not None:
        raise InputError("bag_ids belong to (N, D) rows; these are bags already. Leave bag_ids out.")
    bags = bags.collect() if hasattr(bags, "collect") else bags
    if bag_ids is not None:
        found = Bags.from_arrays(bags, bag_ids)
    elif isinstance(bags, Bags):
        found = bags
    else:
        if not hasattr(bags, "__len__") or isinstance(bags, (str, bytes, dict)):
            raise InputError(f"bags must be a sequence of 2-D arrays or Bags, got {type(bags).__name__}.")
        if hasattr(bags, "columns"):
            raise InputError('a table needs its bag column: use Bags.from_frame(frame, bag="..."), or bag_ids=.')
        if len(bags) and all(map(_is_row, bags)):
            raise InputError(
                f"bags are one matrix of {len(bags)} rows, and nothing says which rows are a bag. "
                f"Give bag_ids=, one id per row, or a list with one matrix per bag."
            )
        found = Bags.from_list(list(bags))
    if len(found) == 0:
        raise InputError(f"{what} is empty: 0 bags. Give at least 1 bag.")
    return found


def _is_row(bag: Any) -> bool:
    """Whether this is one row of numbers, and so no bag."""
    if isinstance(bag, (list, tuple)):
        return bool(bag) and np.ndim(bag[0]) == 0
    return getattr(bag, "ndim", None) == 1 and getattr(bag, "dtype", None) != np.dtype(object)


def check_fingerprint_of(fingerprint: str | None, bags: Bags) -> None:
    """Refuse named features that a model of 1.0.0, which stored a digest of their names, was not trained on."""
    names = bags.feature_names
    if fingerprint is None or names is None or not fingerprint.startswith(COLUMNS) or numbered(names):
        return
    if fingerprint != columns_fingerprint(names):
        raise InputError(
            "the features are not those of training, or in another order. Give the same columns in the same order."
        )


def features_of(bags: Bags, n_features: int, names: tuple[str, ...] | None) -> Bags:
    """The bags with the features of a model in its order; told apart by name where both sides have names.

    Examples
    --------
    >>> bags = Bags([[1.0, 2.0]], [0, 1], feature_names=["size", "mass"])
    >>> features_of(bags, 2, ("mass", "size")).X.tolist()
    [[2.0, 1.0]]
    """
    if names is not None and bags.feature_names is not None and names != bags.feature_names:
        unused = [name for name in bags.feature_names if name not in set(names)]
        bags = bags.with_features(names)
        if unused:
            warnings.warn(f"features that the model does not know are not used: {listed(unused)}.", DataWarning, 4)
    if bags.n_features != n_features:
        raise InputError(f"model expects {n_features} features, got {bags.n_features}.")
    return bags


def read_labels(
    y: Any, bags: Bags, *, positive: Any = None, classes: Classes | None = None, from_rows: bool = False
) -> tuple[Classes, NDArray[np.int64]]:
    """The classes of the labels, and for each of the B bags 1 where it is positive, 0 where it is negative.

    Parameters
    ----------
    y : labels of any two classes, as :func:`psimil.model.labels.values_of_bags` takes them.
    positive : the class of positive bags; None takes the greater one.
    classes : those that a model knows; None finds them among the labels.
    from_rows : whether the bags were given as rows with ``bag_ids``.

    Examples
    --------
    >>> read_labels([1, 0], read_bags([[[1.0]], [[2.0]]]))
    (Classes(negative=0, positive=1), array([1, 0]))
    """
    if not hasattr(y, "__len__"):
        raise InputError(f"labels have shape {np.shape(y)}, expected one per bag.")
    values = values_of_bags(y, bags, from_rows=from_rows)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values.ravel()
    if values.ndim != 1:
        raise InputError(f"labels have shape {values.shape}, expected one per bag.")
    values = label_values(values, bags.names)
    found = Classes.among(values, positive) if classes is None else classes
    if classes is None and positive is None and isinstance(found.positive, str) and not found.usual:
        warnings.warn(
            f"labels are text: {found.positive!r} is taken for positive, as the last in the alphabet. Say positive=.",
            DataWarning,
            stacklevel=3,
        )
    T = found.codes(values, bags.names)
    if T.min() == T.max():
        kind = "positive" if T[0] else "negative"
        warnings.warn(f"all {len(T)} bags are {kind}; probabilities are not informative.", DataWarning, stacklevel=3)
    return found, T


def read_instance_labels(y: Any, bags: Bags, T: Array, H: float) -> Array | None:
    """(N,) known instance labels with -1 for unknown, checked against the bag labels; None when nothing is known.

    Parameters
    ----------
    y : (N,) in the caller's row order, or one sequence per bag.
    """
    if not hasattr(y, "__len__") or isinstance(y, (str, bytes, dict)):
        raise InputError(f"y_instances must be a sequence, got {type(y).__name__}.")
    if np.ndim(next(iter(y), 0)) == 1:
        per_bag, values = True, _concatenated(y, bags)
    else:
        per_bag, values = False, np.asarray(unmasked(y, "y_instances"))
    if values.ndim != 1 or len(values) != bags.n_instances:
        raise InputError(f"{bags.n_instances} instances but y_instances has shape {values.shape}.")
    if bags.rows is not None and not per_bag:
        values = values[bags.rows]
    if not np.isin(values, (-1, 0, 1)).all():
        wrong = values[~np.isin(values, (-1, 0, 1))][0]
        raise InputError(f"an instance label is {wrong}; instance labels must be 0, 1, or -1 for unknown.")
    known = values.astype(np.int64)
    if (known < 0).all():
        return None
    if np.isinf(H):
        low, high = (extreme.reduceat(known, bags.offsets[:-1]) for extreme in (np.minimum, np.maximum))
        wrong = np.where(T == 0, high == 1, (low == 0) & (high == 0))  # low is -1 where a label is unknown
        if wrong.any():
            b = int(np.argmax(wrong))
            kind = (
                "negative but has a positive instance" if T[b] == 0 else "positive but all its instances are negative"
            )
            raise InputError(f"bag {bags.names[b]} is {kind}. Correct the labels or give a finite H.")
    return known


def read_weights(sample_weight: Any, bags: Bags) -> Array:
    """(B,) bag weights.

    Examples
    --------
    >>> read_weights([2], read_bags([[[1.0]]]))
    array([2.])
    """
    try:
        weights = values_of_bags(sample_weight, bags, "weights").astype(np.float64)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError("sample_weight must be numbers, one per bag.") from error
    if weights.shape != (len(bags),):
        raise InputError(f"{len(bags)} bags but sample_weight has shape {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError("sample_weight must be finite, >= 0, and not all zero.")
    return weights


def read_random_state(random_state: Any) -> np.random.Generator:
    """A generator of the caller's own choosing; numpy's global state is never touched.

    Examples
    --------
    >>> int(read_random_state(0).integers(10)) == int(read_random_state(0).integers(10))
    True
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(f"random_state must be an int, a Generator or None, got {random_state!r}.") from error


def callbacks_of(callbacks: Sequence[Callback] | None, verbose: int) -> tuple[Callback, ...]:
    """The caller's callbacks, and one that says the passes when ``verbose`` asks for it.

    Examples
    --------
    >>> callbacks_of(None, 0), len(callbacks_of([print], 1))
    ((), 2)
    """
    if callable(callbacks) or not hasattr(callbacks or (), "__iter__"):
        raise InputError(f"callbacks must be a list of functions, got {type(callbacks).__name__}.")
    given = tuple(callbacks or ())
    for number, callback in enumerate(given):
        if not callable(callback):
            raise InputError(f"callback {number} cannot be called, got {callback!r}. Give functions of one dict.")
    return (*given, say_pass) if verbose else given


def evaluation_of(
    eval_set: tuple[Any, Any] | None, training: Bags, classes: Classes, early_stopping: str | None
) -> tuple[Bags, Array] | None:
    """Bags and labels that early stopping watches, checked against the training bags."""
    if eval_set is None:
        if early_stopping in ("auc", "log_loss"):
            raise InputError(f'early_stopping "{early_stopping}" needs eval_set=(bags, y).')
        return None
    if not isinstance(eval_set, (tuple, list)) or len(eval_set) != 2:
        raise InputError("eval_set must be a pair (bags, y).")
    bags = read_bags(eval_set[0], what="evaluation set")
    if bags.n_features != training.n_features:
        raise InputError(f"eval_set has {bags.n_features} features, expected {training.n_features}.")
    bags = features_of(bags, training.n_features, training.feature_names)
    _, T = read_labels(eval_set[1], bags, classes=classes)
    if early_stopping == "auc" and T.min() == T.max():
        raise InputError('early_stopping "auc" needs evaluation bags of both labels.')
    return bags, T


def execution_of(
    client: Any,
    checkpoint: Any,
    bags: Bags,
    supervision: Supervision,
    options: Options,
    rng: np.random.Generator,
    batch_bags: int | None,
) -> Execution:
    """Who works out the shards of a fit, where its progress is kept, and from where it goes on."""
    if batch_bags is not None:
        at_least(1, whole=True, batch_bags=batch_bags)
    execution = Execution(batch_bags)
    if client is not None:
        if options.device is not None:
            raise InputError("device and client exclude each other: workers of a cluster compute with NumPy.")
        from psimil.cluster.dask_shards import DaskShards

        execution = replace(execution, spread=lambda shards: DaskShards(shards, client, bags))
    if checkpoint is not None:
        from psimil.cluster.checkpoint import Checkpoint

        kept = Checkpoint.of_fit(checkpoint, bags, supervision, options, rng, batch_bags)
        execution = replace(execution, keep=kept.write, begun=kept.read())
    return execution


def _concatenated(y: Any, bags: Bags) -> Array:
    """(N,) instance labels given as one sequence per bag."""
    parts = [np.asarray(unmasked(part, "y_instances")) for part in y]
    if len(parts) != len(bags):
        raise InputError(f"{len(bags)} bags but instance labels for {len(parts)} bags.")
    for name, size, part in zip(bags.names, bags.sizes, parts, strict=True):
        if part.shape != (size,):
            raise InputError(f"bag {name} has {size} instances but instance labels of shape {part.shape}.")
    return np.concatenate(parts)
