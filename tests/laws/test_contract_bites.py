"""The contract can be broken: each check fails for some estimator with a fault, and an honest one passes them all."""

import re

import pytest
from sklearn.base import clone

import broken_estimators_effects  # registers its estimators, as the next one does
import broken_estimators_predict
from broken_estimators import BROKEN
from prototype import PrototypeMIL
from psimil.testing import check_mil_estimator, mil_checks

NAMES = [name for name, _ in mil_checks(PrototypeMIL())]


def made(kind):
    return kind(2.0)


def test_an_honest_estimator_of_another_kind_passes():
    assert check_mil_estimator(PrototypeMIL()) == NAMES


def test_there_are_enough_checks_and_every_name_is_used_once():
    assert len(NAMES) >= 60
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.startswith("check_") for name in NAMES)


def test_there_are_enough_faults_and_every_check_is_failed_by_one():
    assert len(BROKEN) >= 20
    files = {"broken_estimators", broken_estimators_effects.__name__, broken_estimators_predict.__name__}
    assert {kind.__module__.rpartition(".")[2] for kind in BROKEN} == {name.rpartition(".")[2] for name in files}
    assert sorted(set().union(*BROKEN.values())) == sorted(NAMES)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] * (n % 5 > 0)) for n, kind in enumerate(BROKEN)],
    ids=lambda kind: kind.__name__,
)
def test_a_fault_is_found(kind):
    with pytest.raises(AssertionError, match=r"^check_\w+: "):
        check_mil_estimator(made(kind))


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in BROKEN.items() for name in names],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_fault_fails_the_checks_that_are_about_it(kind, name):
    check = dict(mil_checks(made(kind)))[name]
    with pytest.raises(AssertionError, match=rf"^{re.escape(name)}: ."):
        check()


def test_flags_leave_out_what_an_estimator_does_not_have():
    bags_only = [name for name, _ in mil_checks(PrototypeMIL(), instances=False, uncertainty=False)]
    assert set(bags_only) < set(NAMES)
    assert not any("instances_" in name or "interval" in name or "std" in name for name in bags_only)
    with_instances = {name for name, _ in mil_checks(PrototypeMIL(), uncertainty=False)}
    with_uncertainty = {name for name, _ in mil_checks(PrototypeMIL(), instances=False)}
    assert "check_instances_range" in with_instances - with_uncertainty
    assert "check_std_not_negative" in with_uncertainty - with_instances
    assert "check_instance_interval" not in with_instances | with_uncertainty


def test_what_an_estimator_lacks_is_not_asked_for():
    class Bare(PrototypeMIL):
        save = property()
        decision_function = property()

        def __init__(self, sharpness=2.0):
            self.sharpness = sharpness
            self.random_state = 0

    names = {name for name, _ in mil_checks(Bare())}
    assert {name for name in NAMES if "save" in name or "decision" in name or "random_state_" in name} == set(
        NAMES
    ) - names


def test_nothing_is_fitted_before_a_check_is_called_and_the_estimator_itself_never_is():
    class Counting(PrototypeMIL):
        fits = 0

        def fit(self, bags, y=None, bag_ids=None):
            Counting.fits += 1
            return super().fit(bags, y, bag_ids)

    estimator = Counting()
    checks = dict(mil_checks(estimator))
    assert Counting.fits == 0
    checks["check_fit_determinism"]()
    assert Counting.fits == 2
    assert vars(estimator) == vars(clone(estimator))
