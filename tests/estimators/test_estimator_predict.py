"""Predictions against quadrature and dense algebra done here."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import norm

from psimil import RBF, Bags
from psimil.foundations.errors import InputError
from tiny import fitted, problem, quick, shuffled


def averaged(function, mean, variance):
    """E function(f), f ~ N(mean, variance), by adaptive quadrature."""
    sd = np.sqrt(variance)
    value, _ = quad(lambda f: function(f) * norm.pdf(f, mean, sd), mean - 9 * sd, mean + 9 * sd, points=[0, mean])
    return value


DRAWS = 20_000


def spread(function, means, variances):
    """Standard deviations of function(f), f ~ N(mean, variance), and the error of each when DRAWS draws give it."""
    found = []
    for m, v in zip(means, variances, strict=True):
        mean = averaged(function, m, v)
        second, fourth = (averaged(lambda f, k=k, c=mean: (function(f) - c) ** k, m, v) for k in (2, 4))
        found.append((np.sqrt(second), np.sqrt((fourth - second**2) / DRAWS / (4 * second))))
    return np.array(found).T


def dense_latent(model, X):
    """Latent mean and variance of a projected model, with inverses and no cleverness."""
    scaling = model.model_.scaling
    x, z = ((a - scaling.location) / scaling.scale for a in (X, model.inducing_points_))

    def k(a, b):
        distance = ((a[:, None] - b[None]) ** 2).sum(-1)
        return model.kernel_.variance * np.exp(-distance / (2 * model.kernel_.lengthscale**2))

    L = np.linalg.cholesky(k(z, z))
    V = np.column_stack([k(x, z) @ np.linalg.inv(L).T, np.full(len(x), 3.0)])
    return V @ model.q_mean_, np.einsum("nm,mk,nk->n", V, model.q_cov_, V)


def test_latent_moments_follow_from_the_public_attributes():
    bags, _, _ = problem()
    model = fitted()
    assert isinstance(model.kernel_, RBF)
    found = model.predict_dist(bags, raw=True)
    mean, variance = dense_latent(model, bags.X)
    np.testing.assert_allclose(found.latent_mean, mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.latent_variance, variance, rtol=1e-6, atol=1e-6)


def test_calibration_moves_the_latent_and_raw_leaves_it():
    bags, _, _ = problem()
    calibration = fitted().model_.calibration
    assert calibration.scale != 1.0
    raw, calibrated = (fitted().predict_dist(bags, raw=r) for r in (True, False))
    expected = calibration.scale * raw.latent_mean + calibration.shift
    np.testing.assert_allclose(calibrated.latent_mean, expected, rtol=1e-12)
    np.testing.assert_allclose(calibrated.latent_variance, calibration.spread**2 * raw.latent_variance, rtol=1e-12)
    assert np.abs(raw.prob - calibrated.prob).max() > 1e-3


@pytest.mark.parametrize("raw", [False, True])
def test_instance_moments_by_quadrature(raw):
    bags, _, _ = problem()
    found = fitted().predict_dist(bags[:6], raw=raw)
    for n, (m, v) in enumerate(zip(found.latent_mean, found.latent_variance, strict=True)):
        first, second = averaged(expit, m, v), averaged(lambda f: expit(f) ** 2, m, v)
        assert found.instance_prob[n] == pytest.approx(first, abs=1e-6)
        assert found.instance_std[n] == pytest.approx(np.sqrt(second - first**2), abs=1e-5)
        assert found.instance_log_odds[n] == pytest.approx(logit(first), abs=1e-4)


def test_bag_moments_by_enumeration_of_independent_instances():
    bags, y, _ = problem()
    found = quick(posterior="augmented").fit(bags, y).predict_dist(bags)
    for b, (start, stop) in enumerate(pairwise(bags.offsets)):
        p, sd = found.instance_prob[start:stop], found.instance_std[start:stop]
        survival, square = np.prod(1 - p), np.prod(sd**2 + (1 - p) ** 2)
        assert found.prob[b] == pytest.approx(1 - survival, abs=1e-10)
        assert found.std[b] == pytest.approx(np.sqrt(square - survival**2), abs=1e-8)
        assert found.log_odds[b] == pytest.approx(np.log1p(-survival) - np.log(survival), abs=1e-6)


def test_max_takes_the_most_probable_instance():
    bags, y, _ = problem()
    model = quick(aggregate="max").fit(bags, y)
    found = model.predict_dist(bags)
    expected = [part.max() for part in bags.split(found.instance_prob)]
    np.testing.assert_allclose(found.prob, expected, rtol=1e-12)


def test_predict_proba_predict_and_decision_function_agree():
    bags, _, _ = problem()
    for threshold in (None, 0.2, 0.9):
        model = quick(threshold=threshold, max_iter=10, tol=0.0).fit(bags, problem()[1])
        proba = model.predict_proba(bags)
        assert proba.shape == (24, 2)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
        assert threshold is None or model.threshold_ == threshold
        label = model.predict(bags)
        np.testing.assert_array_equal(label, proba[:, 1] >= model.threshold_)
        np.testing.assert_array_equal(label, model.decision_function(bags) >= 0)
        np.testing.assert_allclose(
            model.decision_function(bags), logit(proba[:, 1]) - logit(model.threshold_), atol=1e-6
        )
        assert 0 < label.sum() < 24


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_instance_intervals_hold_their_mass(level):
    bags, _, _ = problem()
    found = fitted().predict_dist(bags, level=level)
    assert found.level == level
    sd, prob = np.sqrt(found.latent_variance), found.instance_prob
    for end, tail, sign in ((found.instance_lower, 0.5 - level / 2, 1), (found.instance_upper, 0.5 + level / 2, -1)):
        holds = sign * (prob - expit(norm.ppf(tail, found.latent_mean, sd))) >= 0
        np.testing.assert_allclose(norm.cdf(logit(end), found.latent_mean, sd)[holds], tail, atol=1e-6)
        np.testing.assert_array_equal(end[~holds], prob[~holds])  # a mean that leaves the interval widens it
        assert holds.mean() > (0.99 if level > 0.9 else 0.3)
    if level > 0.9:  # the mean of a skewed law may leave its central half
        assert (found.lower <= found.prob).all()
        assert (found.prob <= found.upper).all()


def test_wider_levels_contain_narrower_ones():
    bags, _, _ = problem()
    narrow, wide = (fitted().predict_dist(bags, level=level) for level in (0.6, 0.9))
    assert (wide.lower < narrow.lower).all()
    assert (wide.upper > narrow.upper).all()
    np.testing.assert_array_equal(wide.prob, narrow.prob)


def test_sampling_agrees_within_its_error():
    bags, _, _ = problem()
    exact = fitted().predict_dist(bags)
    sampled = fitted().predict_dist(bags, expectation="sample", n_samples=DRAWS)
    standard_error = exact.instance_std / np.sqrt(DRAWS)
    assert (np.abs(sampled.instance_prob - exact.instance_prob) < 5 * standard_error + 1e-9).all()
    assert (sampled.instance_prob != exact.instance_prob).any()
    std, error = spread(expit, exact.latent_mean, exact.latent_variance)
    assert (np.abs(sampled.instance_std - std) < 5 * error).all() and (error / std).min() < 0.012
    few = fitted().predict_dist(bags, expectation="sample", n_samples=100)
    assert np.abs(few.prob - exact.prob).max() > np.abs(sampled.prob - exact.prob).max()


def test_the_expectation_parameter_is_the_default_method():
    bags, y, _ = problem()
    model = quick(expectation="sample").fit(bags, y)
    np.testing.assert_array_equal(model.predict_dist(bags).prob, model.predict_dist(bags, expectation="sample").prob)
    assert (model.predict_dist(bags).prob != model.predict_dist(bags, expectation="quadrature").prob).any()


@pytest.mark.parametrize("raw", [True, False])
def test_joint_std_keeps_the_correlation(raw):
    bags, _, _ = problem()
    single = Bags.from_list([bag[:1] for bag in bags])
    one = fitted().predict_dist(single, joint=True, raw=raw)
    std, _ = spread(expit, one.latent_mean, one.latent_variance)
    np.testing.assert_allclose(one.joint_std, std, atol=1e-5)
    twins = Bags.from_list([np.repeat(bag[:1], 2, axis=0) for bag in bags])
    two = fitted().predict_dist(twins, joint=True, raw=raw)
    std, _ = spread(lambda f: 1 - expit(-f) ** 2, one.latent_mean, one.latent_variance)  # two copies of an instance
    off = np.abs(two.joint_std / std - 1.0)  # by the noise of draws
    assert off.max() < 0.5 and np.median(off) < 0.05


def test_asking_for_the_joint_std_changes_nothing_else():
    bags, _, _ = problem()
    plain, asked = fitted().predict_dist(bags), fitted().predict_dist(bags, joint=True, n_samples=77)
    assert plain.joint_std is None
    for name in ("prob", "std", "log_odds", "lower", "upper", "instance_prob", "instance_std"):
        np.testing.assert_array_equal(getattr(asked, name), getattr(plain, name))


def test_predict_instances_in_every_form():
    bags, _, _ = problem()
    model = fitted()
    dist = model.predict_dist(bags)
    plain = model.predict_instances(bags)
    assert [len(part) for part in plain] == bags.sizes.tolist()
    np.testing.assert_array_equal(np.concatenate(plain), dist.instance_prob)
    prob, std = model.predict_instances(bags, return_std=True)
    np.testing.assert_array_equal(np.concatenate(prob), dist.instance_prob)
    np.testing.assert_array_equal(np.concatenate(std), dist.instance_std)
    raw = np.concatenate(model.predict_instances(bags, raw=True))
    np.testing.assert_array_equal(raw, model.predict_dist(bags, raw=True).instance_prob)
    frame = model.predict_instances(bags, as_frame=True)
    assert frame["bag"].tolist() == bags.bag_index.tolist()
    assert frame["instance"].tolist() == [i for n in bags.sizes for i in range(n)]
    np.testing.assert_array_equal(frame["prob"], dist.instance_prob)
    np.testing.assert_array_equal(frame["label"], dist.instance_prob >= model.instance_threshold_)


def test_recalibrated_probabilities_are_monotone_and_ordered_like_the_rows():
    bags, _, _ = problem()
    X, ids, order = shuffled(bags)
    model = fitted()
    recalibrated = np.concatenate(model.predict_instances(bags, recalibrated=True))
    score = model.predict_dist(bags).instance_log_odds
    assert recalibrated.min() >= 0
    assert recalibrated.max() <= 1
    assert np.diff(recalibrated[np.argsort(score)]).min() >= 0
    assert recalibrated.max() > recalibrated.min()
    frame = model.predict_instances(X, bag_ids=ids, recalibrated=True, as_frame=True)
    np.testing.assert_allclose(frame["prob"], recalibrated[order], atol=1e-9)


def test_recalibration_needs_both_classes():
    bags, y, _ = problem()
    with pytest.warns(UserWarning, match="all 12 bags are negative"):
        model = quick().fit(bags[y == 0], y[y == 0])
    with pytest.raises(InputError, match="need positive and negative training bags"):
        model.predict_instances(bags, recalibrated=True)


def test_instance_threshold_keeps_the_false_positive_rate_on_out_of_bag_negatives():
    bags, y, _ = problem(n_bags=60)
    for rate in (0.05, 0.3):
        model = quick(false_positive_rate=rate).fit(bags, y)
        negative = np.repeat(y, bags.sizes) == 0
        exceed = model.out_of_bag_.prediction.instance_prob[negative] > model.instance_threshold_
        assert exceed.mean() == pytest.approx(rate, abs=1.5 / negative.sum())


def test_tables():
    bags, _, _ = problem()
    found = fitted().predict_dist(bags, joint=True)
    frame, columns = found.to_frame(), ["bag", "prob", "std", "lower", "upper", "log_odds", "label", "refer", "reason"]
    assert frame.columns.tolist() == [*columns, "novelty", "joint_std"]
    assert len(frame) == 24
    near = np.abs(frame["log_odds"] - logit(fitted().threshold_)) <= found.margin
    np.testing.assert_array_equal(frame["refer"], near | (frame["novelty"] > 0.5))
    old = replace(found, margin=None, instance_novelty=None).to_frame()  # as of a model of 1.0.0
    assert old.columns.tolist() == [*columns, "joint_std"]
    crossing = (old["lower"] < fitted().threshold_) & (old["upper"] > fitted().threshold_)
    np.testing.assert_array_equal(old["refer"], crossing)


def test_bags_do_not_influence_each_other():
    bags, _, _ = problem()
    together = fitted().predict_proba(bags)
    alone = np.concatenate([fitted().predict_proba([bag]) for bag in bags])
    np.testing.assert_allclose(alone, together, rtol=1e-10)
    np.testing.assert_allclose(fitted().predict_proba(bags[::-1]), together[::-1], rtol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"expectation": "guess"}, "expectation must be one of 'quadrature', 'sample', got 'guess'."),
        ({"level": 1.0}, "level must be a number between 0 and 1, got 1.0."),
        ({"level": float("nan")}, "level must be a number between 0 and 1, got nan."),
        ({"n_samples": 0}, "n_samples must be a whole number >= 2, got 0."),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InputError) as caught:
        fitted().predict_dist(problem()[0], **arguments)
    assert str(caught.value) == message
