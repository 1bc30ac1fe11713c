"""Whatever the bags look like, what comes out of a fit is finite and in range."""

from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from drawn import densities, fit, near, problems, properties
from psimil.foundations.errors import InputError
from psimil.inference.variational import FLOOR

residuals = st.sampled_from(["projected", "full"])
H = st.sampled_from([1.0, 5.0, 100.0, 1e12, np.inf])


def finite(*arrays):
    return all(np.isfinite(array).all() for array in arrays)


def within_unit(array):
    return bool(finite(array) and (np.asarray(array) >= 0).all() and (np.asarray(array) <= 1).all())


def bounds_rise(*args, **choices):
    """Whether the bound of a fit rises; steps on tilted densities, which may lower it, never begin."""
    with patch("psimil.inference.algorithm.BEFORE_TILTING", 0.0):
        return rises(fit(*args, **choices).history_)


def rises(history):
    """Whether bounds never fall; those that are means over draws, by no more than a quarter of their error."""
    bounds, errors = (np.array([row.get(name, 0.0) for row in history]) for name in ("elbo", "error"))
    allowed = 0.25 * errors[:-1] + 1e-9 * max(1.0, np.abs(bounds).max())
    return bool(np.isfinite(bounds).all() and (np.diff(bounds) >= -allowed).all())


@properties
@given(problems())
def test_probabilities_are_probabilities(drawn):
    prob = fit(drawn).predict_proba(drawn.unseen)
    assert prob.shape == (4, 2)
    assert within_unit(prob)
    np.testing.assert_allclose(prob.sum(axis=1), 1.0, rtol=1e-12)


@properties
@given(problems(), densities)
def test_probabilities_are_probabilities_under_every_density(drawn, density):
    assert within_unit(fit(drawn, density=density).predict_proba(drawn.bags))


@properties
@given(problems(), densities)
def test_log_odds_are_finite_and_ordered_as_probabilities(drawn, density):
    found = fit(drawn, density=density).predict_dist(drawn.bags)
    assert finite(found.log_odds, found.instance_log_odds)
    assert np.diff(found.prob[np.argsort(found.log_odds, kind="stable")]).min(initial=0.0) >= -1e-12


@properties
@given(problems())
def test_labels_are_the_probabilities_at_the_threshold(drawn):
    model = fit(drawn)
    label = model.predict(drawn.unseen)
    np.testing.assert_array_equal(label, model.predict_proba(drawn.unseen)[:, 1] >= 0.5)
    np.testing.assert_array_equal(label, model.decision_function(drawn.unseen) >= 0)


@properties
@given(problems())
def test_instances_have_one_probability_each(drawn):
    parts = fit(drawn).predict_instances(drawn.bags)
    assert [len(part) for part in parts] == drawn.bags.sizes.tolist()
    assert within_unit(np.concatenate(parts))


@properties
@given(problems(), densities, residuals)
def test_standard_deviations_are_possible(drawn, density, residual):
    found = fit(drawn, density=density, residual=residual).predict_dist(drawn.unseen)
    for std, prob in ((found.std, found.prob), (found.instance_std, found.instance_prob)):
        assert finite(std)
        assert (std >= 0).all()
        assert (std**2 <= prob * (1 - prob) + 1e-9).all()


@properties
@given(problems(), densities, st.floats(0.01, 0.999))
def test_intervals_are_ordered_and_in_range(drawn, density, level):
    found = fit(drawn, density=density).predict_dist(drawn.unseen, level=level)
    for low, high in ((found.lower, found.upper), (found.instance_lower, found.instance_upper)):
        assert within_unit(low)
        assert within_unit(high)
        assert (low <= high).all()


@properties
@given(problems(), residuals)
def test_latent_moments_are_finite_and_variances_not_negative(drawn, residual):
    found = fit(drawn, residual=residual).predict_dist(drawn.unseen, raw=True)
    assert finite(found.latent_mean, found.latent_variance)
    assert (found.latent_variance >= 0).all()


@properties
@given(problems(), residuals, H)
def test_the_bound_hardly_falls(drawn, residual, H):
    assert bounds_rise(drawn, residual=residual, H=H, max_iter=6)


@properties
@given(problems(), densities)
def test_the_bound_hardly_falls_under_any_density(drawn, density):
    assert bounds_rise(drawn, density=density, max_iter=6)


@properties
@given(problems())
def test_the_bound_hardly_falls_with_larger_steps(drawn):
    assert bounds_rise(drawn, accelerate=True, max_iter=8)


@properties
@given(problems(), densities, residuals)
def test_every_term_of_the_bound_is_finite(drawn, density, residual):
    for row in fit(drawn, density=density, residual=residual).history_:
        assert finite([value for value in row.values() if isinstance(value, float)])


@properties
@given(problems(), H)
def test_label_posteriors_are_probabilities_and_obey_sure_labels(drawn, H):
    pi = fit(drawn, H=H).label_posterior_
    assert within_unit(pi)
    if np.isinf(H):
        assert (pi[np.repeat(drawn.y, drawn.bags.sizes) == 0] == 0).all()
        for label, part in zip(drawn.y, drawn.bags.split(pi), strict=True):
            assert label == 0 or part.sum() >= 1 - 1e-9  # one instance at least is positive


@properties
@given(problems())
def test_a_sure_positive_bag_of_one_instance_tells_its_label(drawn):
    pi = fit(drawn).label_posterior_
    for label, part in zip(drawn.y, drawn.bags.split(pi), strict=True):
        assert len(part) > 1 or abs(part[0] - label) < near(drawn, 1e-12)


@properties
@given(problems(), densities)
def test_the_posterior_covariance_is_one(drawn, density):
    S = fit(drawn, density=density).q_cov_
    assert finite(S)
    np.testing.assert_allclose(S, S.T, atol=1e-12)
    values = np.linalg.eigvalsh(S)
    assert values.min() > -1e-10
    assert values.max() <= 1 / FLOOR + 1e-8  # positive bags may widen the prior N(0, I): "one of these, which one?"
    augmented = np.linalg.eigvalsh(fit(drawn, density=density, posterior="augmented").q_cov_)
    assert augmented.max() <= 1 + 1e-8  # the paper's mean field only ever narrows it


@properties
@given(problems(), st.sampled_from(["kmeans_by_label", "kmeans", "greedy_variance"]), st.integers(1, 3000))
def test_inducing_points_are_few_enough_and_among_the_instances(drawn, inducing, count):
    points = fit(drawn, inducing=inducing, n_inducing=min(count, 60)).inducing_points_
    X = drawn.bags.X
    assert 1 <= len(points) <= min(count, 60, len(X))
    slack = 1e-9 * np.abs(X).max(axis=0)
    assert (points >= X.min(axis=0) - slack).all()
    assert (points <= X.max(axis=0) + slack).all()


@properties
@given(problems(), st.integers(1, 12))
def test_any_inducing_points_will_do(drawn, count):
    points = np.repeat(drawn.bags.X[:1], count, axis=0)  # all the same
    found = fit(drawn, inducing_points=points).predict_dist(drawn.unseen)
    assert within_unit(found.prob)
    assert finite(found.log_odds, found.std)


@properties
@given(problems(), st.integers(0, 1))
def test_one_class_is_no_obstacle(drawn, label):
    model = fit(drawn, y=np.full(len(drawn.y), label))
    assert within_unit(model.predict_proba(drawn.unseen))
    assert finite(model.out_of_bag_.log_predictive)


@properties
@given(problems())
def test_left_out_predictions_are_finite(drawn):
    loo = fit(drawn).out_of_bag_
    assert within_unit(loo.prediction.prob)
    assert finite(loo.log_predictive, loo.prediction.log_odds, loo.influence)
    assert (loo.log_predictive <= 0).all()


@properties
@given(problems(), densities)
def test_single_precision_stays_in_range(drawn, density):
    found = fit(drawn, density=density, dtype="float32").predict_dist(drawn.unseen)
    assert within_unit(found.prob)
    assert finite(found.std, found.log_odds)


@properties
@given(problems(), st.sampled_from([-1e150, -1e9, 1e3, 1e30, 1e150]), st.booleans())
def test_bags_from_elsewhere_get_a_probability_or_a_reason(drawn, shift, standardize):
    model = fit(drawn, standardize=standardize)
    try:
        found = model.predict_dist([bag + shift for bag in drawn.unseen])
    except InputError as reason:
        assert len(str(reason)) > 10
        return
    assert within_unit(found.prob)
    assert finite(found.log_odds, found.std, found.lower, found.upper)


@properties
@given(problems(), densities)
def test_features_that_are_not_standardised_are_finite_too(drawn, density):
    found = fit(drawn, density=density, standardize=False).predict_dist(drawn.unseen)
    assert within_unit(found.prob)
    assert finite(found.log_odds, found.std)


@properties
@given(problems(labels="both"))
def test_calibration_and_thresholds_are_finite(drawn):
    model = fit(drawn, calibrate="auto", threshold=None, false_positive_rate=0.02, max_iter=2)
    assert 0 < model.threshold_ < 1
    assert 0 < model.instance_threshold_ < 1
    assert within_unit(model.predict_proba(drawn.unseen))
    assert finite(model.model_.calibration.parameters)
