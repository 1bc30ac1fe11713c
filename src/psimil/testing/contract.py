"""All checks in order, those that apply to an estimator, and how a failure is told."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from psimil.testing import inputs, life_cycle, predictions, side_effects
from psimil.testing import instances as of_instances
from psimil.testing import uncertainty as of_uncertainty
from psimil.testing.subject import Check, Subject, applies, demand_estimator

ALWAYS = (life_cycle, predictions, side_effects, inputs)


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
    modules = [*ALWAYS, *([of_instances] if instances else []), *([of_uncertainty] if uncertainty else [])]
    subject = Subject(estimator, instances, uncertainty)
    checks = {name: check for module in modules for name, check in _named(module).items() if applies(check, subject)}
    return ((name, partial(_run, name, check, subject)) for name, check in checks.items())


def _named(module: Any) -> dict[str, Check]:
    """The checks of a module: its functions, and those that it makes from tables."""
    own = {name: check for name, check in vars(module).items() if getattr(check, "__module__", "") == module.__name__}
    return {name: check for name, check in own.items() if name.startswith("check_")} | getattr(module, "MADE", {})


def _run(name: str, check: Check, subject: Subject) -> None:
    """Awkward data may well cause warnings; only errors count, and every one of them is a failed check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check(subject)
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
