"""All checks in order, those that apply to an estimator, and how a failure is told."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

from psimil.testing import (
    decisions,
    forms,
    hard_bags,
    instance_order,
    instances,
    intervals,
    invariances,
    labels,
    life_cycle,
    parameters,
    persistence,
    probabilities,
    refused_bags,
    refused_labels,
    repetition,
    side_effects,
    uncertain_instances,
    uncertainty,
)
from psimil.testing.subject import Subject, applies, demand_estimator

ALWAYS = (
    parameters,
    life_cycle,
    probabilities,
    decisions,
    repetition,
    side_effects,
    persistence,
    forms,
    labels,
    refused_bags,
    refused_labels,
    hard_bags,
    invariances,
)


def check_mil_estimator(estimator: Any, *, instances: bool = True, uncertainty: bool = True) -> list[str]:
    """Put an estimator through every check of the contract that applies to it.

    The bags of the checks have three features each, but for a few checks that say otherwise; explicit
    ``inducing_points`` of an estimator are therefore (M, 3) and follow whatever a check does to the features.

    Parameters
    ----------
    estimator : unfitted scikit-learn classifier of bags: ``fit(bags, y)``, ``predict``, ``predict_proba``. It is cloned
        for every fit. Give it an integer ``random_state`` if it has that parameter.
    instances : whether ``predict_instances(bags)`` gives one (n_i,) array of probabilities per bag.
    uncertainty : whether ``predict_dist(bags)`` has ``prob``, ``std``, ``lower`` and ``upper`` (B,); with ``instances``
        also ``instance_prob``, ``instance_std``, ``instance_lower`` and ``instance_upper`` (N,).

    Returns
    -------
    names : the checks that ran, in order.

    Raises
    ------
    AssertionError
        At the first check that fails; the message starts with its name.

    Examples
    --------
    >>> from psimil.paper.baselines import BagForest
    >>> forest = BagForest(n_estimators=5, random_state=0)
    >>> names = check_mil_estimator(forest, instances=False, uncertainty=False)
    >>> len(names) >= 60, names[0]
    (True, 'check_estimator_repr')
    """
    names = []
    for name, check in mil_checks(estimator, instances=instances, uncertainty=uncertainty):
        check()
        names.append(name)
    return names


def mil_checks(
    estimator: Any, *, instances: bool = True, uncertainty: bool = True
) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks that apply to an estimator, to be called without arguments; nothing is fitted before that.

    Parameters
    ----------
    estimator, instances, uncertainty : as of :func:`check_mil_estimator`.

    Returns
    -------
    checks : iterator of (name, check); check() raises AssertionError, with the name first, when the estimator breaks
        the rule.

    Raises
    ------
    InputError
        When the estimator is a class or no estimator.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> checks = dict(mil_checks(VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0)))
    >>> checks["check_clone"]()
    """
    demand_estimator(estimator)
    return _applying(estimator, instances, uncertainty)


def _applying(estimator: Any, has_instances: bool, has_uncertainty: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    subject = Subject(estimator)
    for module in (*ALWAYS, *_optional(has_instances, has_uncertainty)):
        for name, check in list(vars(module).items()):
            if name.startswith("check_") and check.__module__ == module.__name__ and applies(check, estimator):
                yield name, partial(_run, name, check, subject)


def _optional(has_instances: bool, has_uncertainty: bool) -> tuple[ModuleType, ...]:
    for_instances = (instances, instance_order) if has_instances else ()
    for_uncertainty = (uncertainty, intervals) if has_uncertainty else ()
    return (*for_instances, *for_uncertainty, *((uncertain_instances,) if has_instances and has_uncertainty else ()))


def _run(name: str, check: Callable[[Subject], None], subject: Subject) -> None:
    """Awkward data may well cause warnings; only errors count, and every one of them is a failed check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(subject)
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
