"""Kernels, densities and metrics as callers misuse them."""

from dataclasses import fields

import numpy as np
import pytest

from psimil import (
    RBF,
    Constant,
    GammaMixture,
    HyperbolicSecant,
    Linear,
    Matern32,
    Matern52,
    SmoothLaplace,
    StudentT,
    density_from_log,
)
from psimil.figures.bag import bag_table
from psimil.foundations.errors import InputError
from psimil.paper.published import ClippedGammaMixture
from psimil.results.metrics import bag_metrics, expected_calibration_error, instance_metrics
from tiny import fitted, problem

STATIONARY = [RBF, Matern32, Matern52]
POINTS = np.random.default_rng(0).normal(size=(4, 9))


def refused(call):
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", [*STATIONARY, Linear, Constant])
@pytest.mark.parametrize("value", ["2", None, [1.0, 2.0], (1.0,), True, 1j, [[1.0], [1.0, 2.0]]], ids=repr)
def test_a_variance_is_one_number(kind, value):
    assert refused(lambda: kind(variance=value)) == f"variance must be a number > 0, got {value!r}."


@pytest.mark.parametrize("kind", STATIONARY)
@pytest.mark.parametrize("value", ["2", [], [[1.0, 2.0]], [1.0, None], ["a"], True], ids=repr)
def test_length_scales_are_numbers(kind, value):
    message = refused(lambda: kind(lengthscale=value))
    assert message == f"lengthscale must be a number, or one number per feature, > 0, got {value!r}."


@pytest.mark.parametrize("other", [3, None, "linear", np.float64(2.0)], ids=repr)
def test_only_kernels_can_be_added(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        RBF() + other


@pytest.mark.parametrize("kind", STATIONARY)
def test_a_kernel_without_length_scale_takes_that_of_the_features(kind):
    open_, resolved = kind(2.0), kind(2.0).resolve(9)
    np.testing.assert_array_equal(open_.gram(POINTS, POINTS[:2]), resolved.gram(POINTS, POINTS[:2]))
    np.testing.assert_array_equal((open_ + Linear()).gram(POINTS, POINTS), (resolved + Linear()).gram(POINTS, POINTS))
    assert resolved.lengthscale == 3.0
    draws = [k.spectral_sample(np.random.default_rng(0), 5, 9) for k in (open_, resolved)]
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("kind", STATIONARY)
def test_parameters_that_are_not_there_yet_are_not_nan(kind):
    message = refused(lambda: kind().log_parameters)
    assert message == f"{kind.__name__} has no length scale yet. Call resolve(n_features) first."


@pytest.mark.parametrize("kind", STATIONARY)
def test_a_kernel_has_two_parameters(kind):
    assert [field.name for field in fields(kind)] == ["variance", "lengthscale"]
    with pytest.raises(TypeError):
        kind(1.0, 1.0, 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GammaMixture("1"), "gamma density needs alpha > 0 and beta > 0, got alpha='1'."),
        (lambda: GammaMixture(1.0, None), "gamma density needs alpha > 0 and beta > 0, got beta=None."),
        (lambda: GammaMixture(True), "gamma density needs alpha > 0 and beta > 0, got alpha=True."),
        (lambda: ClippedGammaMixture(clip=0.0), "clipped gamma density needs clip > 0, got clip=0.0."),
        (lambda: StudentT(None), "Student density needs nu > 0 and scale > 0, got nu=None."),
        (lambda: StudentT(np.inf), "Student density needs nu > 0 and scale > 0, got nu=inf."),
        (lambda: StudentT(1.0, [1.0]), "Student density needs nu > 0 and scale > 0, got scale=[1.0]."),
        (lambda: SmoothLaplace(None), "smooth Laplace density needs rate > 0 and width > 0, got rate=None."),
        (lambda: SmoothLaplace(1.0, np.inf), "smooth Laplace density needs rate > 0 and width > 0, got width=inf."),
        (lambda: density_from_log(5), "log psi must be a function of an array, got 5."),
        (lambda: density_from_log(lambda x: float(x)), "log psi must take an array and return one number per element."),
        (lambda: density_from_log(lambda x: x.astype(str)), "log psi must return one finite number per element."),
    ],
)
def test_densities_refuse(make, message):
    assert refused(make) == message


DENSITIES = [
    HyperbolicSecant(),
    GammaMixture(1.0, 2.0),
    ClippedGammaMixture(1.0, 4.0),
    StudentT(),
    SmoothLaplace(),
    density_from_log(lambda x: -np.log(np.cosh(x / 2))),
]


@pytest.mark.parametrize("density", DENSITIES, ids=lambda d: type(d).__name__)
def test_densities_are_even_and_take_lists(density):
    c = [0.0, 1e-5, 0.5, 3.0, 40.0]
    for function in (density.theta, density.log_prob):
        expected = function(np.array(c))
        np.testing.assert_array_equal(function(c), expected)
        np.testing.assert_allclose(function([-x for x in c]), expected, rtol=1e-12)


def test_theta_of_the_secant_left_of_zero():
    np.testing.assert_allclose(HyperbolicSecant().theta([-3.0, 3.0]), np.tanh(1.5) / 6.0, rtol=1e-14)
    np.testing.assert_allclose(HyperbolicSecant().theta([-1e-4, 0.0]), 0.25, rtol=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bag_metrics([0, 1], ["a", "b"]), "probabilities must be numbers, one per label."),
        (lambda: bag_metrics([0, 1], ["0.1", "0.2"]), "probabilities must be numbers, one per label."),
        (lambda: bag_metrics([0, 1], [[0.1], [0.2, 0.3]]), "probabilities must be numbers, one per label."),
        (lambda: bag_metrics([0, 1], None), "probabilities must be numbers, one per label."),
        (lambda: bag_metrics(["0", "1"], [0.1, 0.2]), "label 0 is '0'; labels must be the numbers 0 or 1."),
        (lambda: bag_metrics([0, 0.5], [0.1, 0.2]), "label 1 is 0.5; labels must be 0 or 1."),
        (lambda: bag_metrics([[0], [1, 0]], [0.1, 0.2]), "labels are ragged, expected (n,) with n >= 1."),
        (lambda: bag_metrics(None, [0.1]), "labels have shape (), expected (n,) with n >= 1."),
        (lambda: bag_metrics([0, 1], [0.1, 0.2], threshold=1.5), "threshold must be a number from 0 to 1, got 1.5."),
        (lambda: bag_metrics([0, 1], [0.1, 0.2], threshold="0.5"), "threshold must be a number from 0 to 1, got '0.5'"),
        (lambda: bag_metrics([0, 1], [0.1, 0.2], threshold=None), "threshold must be a number from 0 to 1, got None."),
        (
            lambda: bag_metrics([0, 1], [0.1, 0.2], log_odds=[-np.inf, 1.0]),
            "log-odds have 1 infinite values. Give finite ones.",
        ),
        (lambda: bag_metrics([0, 1], [0.1, np.inf]), "probabilities have 1 infinite values."),
        (lambda: expected_calibration_error([0, 1], [0.1, 0.2], 2.5), "bins must be a whole number >= 1, got 2.5."),
        (lambda: expected_calibration_error([0, 1], [0.1, 0.2], "3"), "bins must be a whole number >= 1, got '3'."),
        (lambda: instance_metrics([0, 0.5, -1], [0.1] * 3), "label 1 is 0.5; labels must be 0 or 1."),
        (lambda: instance_metrics(3, [0.1]), "labels have shape (), expected (n,) with n >= 1."),
        (lambda: instance_metrics([0, 1], None), "probabilities must be numbers, one per label."),
        (lambda: instance_metrics([[0, 1], 1], [0.1] * 3), "values per instance must be one flat sequence, or one"),
    ],
)
def test_metrics_refuse(call, message):
    assert refused(call).startswith(message)


def test_instance_metrics_take_one_sequence_per_bag():
    bags, _, known = problem()
    found = fitted().predict_dist(bags)
    flat = instance_metrics(known, found.instance_prob, 0.5, found.instance_log_odds)
    per_bag = instance_metrics(
        bags.split(known), fitted().predict_instances(bags), 0.5, bags.split(found.instance_log_odds)
    )
    assert per_bag == flat
    assert flat["auc"] > 0.8


@pytest.mark.parametrize("bag", [None, 1.5, True, [0]], ids=repr)
def test_a_figure_of_no_bag_is_refused(bag):
    prediction = fitted().predict_dist(problem()[0])
    assert refused(lambda: bag_table(prediction, bag)) == f"bag must be a position or an id in text, got {bag!r}."
