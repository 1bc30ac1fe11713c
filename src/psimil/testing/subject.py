"""The estimator under test, the bags it is tested on, and the fits and predictions that checks share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError

Check = Callable[["Subject"], None]
AnyCheck = TypeVar("AnyCheck", bound=Check)

METHODS = ("predict", "predict_proba", "decision_function", "predict_instances", "predict_dist")


@dataclass(frozen=True)
class Example:
    """Bags (n_i, D), their labels (B,) and the labels of their instances, one (n_i,) array per bag."""

    bags: list[Array]
    y: Array
    y_instances: list[Array]


@cache
def easy_problem(seed: int = 0, n_bags: int = 16) -> Example:
    """Bags of one to four instances with three features; positive instances stand out in the last one, by four units.

    The arrays are shared: copy them before they go anywhere.

    Examples
    --------
    >>> example = easy_problem()
    >>> len(example.bags), int(example.y.sum()), example.bags[0].shape[1]
    (16, 8, 3)
    """
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n_bags) % 2)
    bags, y_instances = [], []
    for label in y:
        size = int(rng.integers(1, 5))
        witness = label * (rng.permutation(size) < max(1, size // 2)).astype(np.int64)
        bag = rng.standard_normal((size, 3))
        bag[:, -1] += 4.0 * witness
        bags.append(bag)
        y_instances.append(witness)
    return Example(bags, y, y_instances)


@dataclass(frozen=True)
class Subject:
    """An estimator with the easy problem of the checks: 16 bags of one to four instances with three features.

    Parameters
    ----------
    estimator : unfitted; every fit is that of a copy.
    instances, uncertainty : whether its ``predict_instances`` and ``predict_dist`` are tested, too.

    Examples
    --------
    >>> from psimil.paper.baselines import BagSVM
    >>> subject = Subject(BagSVM())
    >>> len(subject.bags), subject.bags[0].shape[1], subject.fitted.n_features_in_
    (16, 3, 3)
    """

    estimator: Any
    instances: bool = True
    uncertainty: bool = True

    @property
    def bags(self) -> list[Array]:
        """Training bags, copied each time."""
        return [bag.copy() for bag in easy_problem().bags]

    @property
    def y(self) -> Array:
        """(16,) bag labels, copied each time."""
        return easy_problem().y.copy()

    @property
    def unseen(self) -> list[Array]:
        """Twelve other bags of the same kind."""
        return [bag.copy() for bag in easy_problem(seed=1, n_bags=12).bags]

    @cached_property
    def fitted(self) -> Any:
        """The estimator after a fit to the easy problem; checks that change it must fit their own."""
        return self.train()

    def fresh(self, **parameters: Any) -> Any:
        """An unfitted copy."""
        return clone(self.estimator).set_params(**parameters)

    def train(self, bags: Any = None, y: Any = None, **parameters: Any) -> Any:
        """A copy fitted to the easy problem, or to other bags and labels."""
        return self.fresh(**parameters).fit(self.bags if bags is None else bags, self.y if y is None else y)

    def proba(self, bags: Any = None, y: Any = None, **parameters: Any) -> Array:
        """(12,) probabilities of the unseen bags after such a fit."""
        return positive(self.train(bags, y, **parameters), self.unseen)

    @cached_property
    def expected(self) -> Array:
        """(12,) probabilities of the unseen bags after the fit to the easy problem."""
        return positive(self.fitted, self.unseen)

    @cached_property
    def expected_instances(self) -> list[Array]:
        """(n_i,) probabilities of the instances of each of the unseen bags after that fit."""
        return list(self.fitted.predict_instances(self.unseen))

    @cached_property
    def expected_dist(self) -> Any:
        """``predict_dist`` of the unseen bags after that fit."""
        return self.fitted.predict_dist(self.unseen)

    def adapted(self, change: Callable[[Array], Array]) -> Any:
        """An unfitted copy for features that were changed; explicit inducing points are changed alike."""
        points = self.estimator.get_params(deep=False).get("inducing_points")
        return self.fresh() if points is None else self.fresh(inducing_points=change(np.asarray(points)))

    def methods(self) -> list[str]:
        """Prediction methods that the estimator has and that are tested, bag by bag in and bag by bag out."""
        left_out = {"predict_instances": not self.instances, "predict_dist": not self.uncertainty}
        return [name for name in METHODS if hasattr(self.estimator, name) and not left_out.get(name)]

    def parameters(self) -> set[str]:
        """Names of the arguments of __init__."""
        return set(inspect.signature(type(self.estimator)).parameters)


def demand_estimator(estimator: Any) -> None:
    """Refuse a class, and what cannot be fitted.

    Examples
    --------
    >>> demand_estimator(Subject)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: estimator is the class Subject; give an instance, ...
    """
    if isinstance(estimator, type):
        name = estimator.__name__
        raise InputError(f"estimator is the class {name}; give an instance, e.g. {name}(random_state=0).")
    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params"):
        kind = type(estimator).__name__
        raise InputError(
            f"estimator must be an unfitted scikit-learn classifier of bags, got {kind}; give an instance."
        )


def positive(estimator: Any, bags: Any) -> Array:
    """(B,) probability of label 1."""
    return np.asarray(estimator.predict_proba(bags))[:, 1]


def answers(estimator: Any, method: str, bags: Any) -> list[Array]:
    """What a prediction method says about each bag; probability and standard deviation of ``predict_dist``."""
    answer = getattr(estimator, method)(bags)
    return list(np.column_stack([answer.prob, answer.std]) if method == "predict_dist" else answer)


def needs(
    *methods: str, parameter: str | None = None, fit_argument: str | None = None, instances: bool = False
) -> Callable[[AnyCheck], AnyCheck]:
    """Mark a check as one for estimators with these methods, this parameter, this argument of fit, and instances.

    Examples
    --------
    >>> from psimil.paper.baselines import BagSVM
    >>> @needs("save")
    ... def check_file(subject):
    ...     pass
    >>> applies(check_file, Subject(BagSVM()))
    False
    """

    def mark(check: AnyCheck) -> AnyCheck:
        def met(subject: Subject) -> bool:
            estimator = subject.estimator
            return (
                all(hasattr(estimator, name) for name in methods)
                and (parameter is None or parameter in estimator.get_params(deep=False))
                and (fit_argument is None or fit_argument in inspect.signature(estimator.fit).parameters)
                and (subject.instances or not instances)
            )

        check.needs = met  # type: ignore[attr-defined]
        return check

    return mark


def applies(check: Check, subject: Subject) -> bool:
    """Whether the estimator has what the check needs."""
    met: Callable[[Subject], bool] | None = getattr(check, "needs", None)
    return met is None or met(subject)
