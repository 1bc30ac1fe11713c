"""q(y) of a bag against enumeration of all labellings, and against scalar loops."""

import numpy as np
import pytest

from problems import joint_exact, joint_product, label_terms, labellings, marginals, offsets_of
from psimil.model.bag_likelihoods import Labels
from psimil.paper.label_posteriors import RULES, exact, given, mean_field
from psimil.paper.published import largest_other

HS = [1.0, 2.0, 100.0, 1e12, np.inf]


def random_bags(seed, count=40, largest=8, spread=3.0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=count)
    return rng, sizes, spread * rng.normal(size=sizes.sum()), rng.integers(0, 2, size=count)


def per_bag(labels):
    return [slice(a, b) for a, b in zip(labels.offsets[:-1], labels.offsets[1:], strict=True)]


def scalar_sweep(mu, pi, T, H, known=None):
    """Eq. (25), one instance after another, largest mean first."""
    pi = pi.copy()
    for n in np.argsort(-mu, kind="stable"):
        if known is None or known[n] < 0:
            others = np.prod(np.delete(1 - pi, n))
            pi[n] = 1 / (1 + np.exp(-(mu[n] + (2 * T - 1) * np.log(H) * others)))
    return pi


def bag_elbo(joint, mu, T, H):
    return sum(label_terms(joint, mu, T, H))


@pytest.mark.parametrize("H", HS)
@pytest.mark.parametrize("seed", range(5))
def test_exact_equals_enumeration(H, seed):
    _, sizes, mu, T = random_bags(seed)
    labels = Labels(T, offsets_of(sizes), float(np.log(H)))
    q = exact(mu, labels)
    assert q.pi.shape == mu.shape
    assert q.potential.shape == q.bags.shape == q.entropy.shape == T.shape
    for b, rows in enumerate(per_bag(labels)):
        joint = joint_exact(mu[rows], T[b], H)
        np.testing.assert_allclose(q.pi[rows], marginals(joint, sizes[b]), rtol=1e-10, atol=1e-14)
        expected = label_terms(joint, mu[rows], T[b], H)
        np.testing.assert_allclose([q.potential[b], q.bags[b], q.entropy[b]], expected, rtol=1e-9, atol=2e-11)


@pytest.mark.parametrize("H", HS)
def test_known_instance_labels_equal_enumeration(H):
    rng, sizes, mu, T = random_bags(11, count=80, largest=6)
    known = rng.choice([-1, -1, 0, 1], size=len(mu))
    labels = Labels(T, offsets_of(sizes), float(np.log(H)), known)
    for b, rows in enumerate(per_bag(labels)):
        if np.isinf(H) and T[b] == 0:  # a contradiction is refused where labels are read
            known[rows] = np.minimum(known[rows], 0)
        if np.isinf(H) and T[b] == 1 and (known[rows] == 0).all():
            known[rows] = -1
    assert ((known == 1).any(), (known == 0).any(), (known < 0).any()) == (True, True, True)
    q = exact(mu, labels)
    for b, rows in enumerate(per_bag(labels)):
        joint = joint_exact(mu[rows], T[b], H, known[rows])
        np.testing.assert_allclose(q.pi[rows], marginals(joint, sizes[b]), rtol=1e-10, atol=1e-14)
        expected = label_terms(joint, mu[rows], T[b], H)
        np.testing.assert_allclose([q.potential[b], q.bags[b], q.entropy[b]], expected, rtol=1e-9, atol=2e-11)


@pytest.mark.parametrize("H", [2.0, 100.0, 1e12])
@pytest.mark.parametrize("with_known", [False, True])
def test_mean_field_sweep_equals_a_scalar_loop(H, with_known):
    rng, sizes, mu, T = random_bags(3, count=60)
    previous = rng.uniform(0.01, 0.99, size=len(mu))
    known = rng.choice([-1, -1, -1, 0, 1], size=len(mu)) if with_known else None
    labels = Labels(T, offsets_of(sizes), float(np.log(H)), known)
    q = mean_field(mu, labels, previous)
    for b, rows in enumerate(per_bag(labels)):
        start = previous[rows] if known is None else np.where(known[rows] < 0, previous[rows], known[rows])
        expected = scalar_sweep(mu[rows], start, T[b], H, None if known is None else known[rows])
        np.testing.assert_allclose(q.pi[rows], expected, rtol=1e-11, atol=1e-15)
        terms = label_terms(joint_product(expected), mu[rows], T[b], H)
        np.testing.assert_allclose([q.potential[b], q.bags[b], q.entropy[b]], terms, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("H", [100.0, pytest.param(1e12, marks=pytest.mark.slow)])
def test_mean_field_sweep_never_lowers_the_bound_where_parallel_updates_do(H):
    """I2: a positive bag of ten at mu = -4, fifty starts."""
    mu, labels = np.full(10, -4.0), Labels(np.array([1]), np.array([0, 10]), float(np.log(H)))
    parallel_falls = 0
    for seed in range(50):
        pi = np.random.default_rng(seed).uniform(0.0, 1.0, 10)
        parallel = pi.copy()
        for _ in range(15):
            before = bag_elbo(joint_product(pi), mu, 1, H)
            pi = mean_field(mu, labels, pi).pi
            assert bag_elbo(joint_product(pi), mu, 1, H) >= before - 1e-9 * abs(before)
        np.testing.assert_allclose(mean_field(mu, labels, pi).pi, pi, atol=1e-2)  # no cycle
        values = []
        for _ in range(15):
            others = np.array([np.prod(np.delete(1 - parallel, n)) for n in range(10)])
            parallel = 1 / (1 + np.exp(-(mu + np.log(H) * others)))
            values.append(bag_elbo(joint_product(parallel), mu, 1, H))
        parallel_falls += np.diff(values).min() < -0.1
    assert parallel_falls == 50


@pytest.mark.parametrize("H", [1.0, 100.0, 1e12])
def test_converged_mean_field_is_the_maximum_in_every_coordinate(H):
    rng, sizes, mu, T = random_bags(5, count=20, largest=5)
    labels = Labels(T, offsets_of(sizes), float(np.log(H)))
    pi = None
    for _ in range(200):
        pi = mean_field(mu, labels, pi).pi
    for b, rows in enumerate(per_bag(labels)):
        top = bag_elbo(joint_product(pi[rows]), mu[rows], T[b], H)
        for _ in range(20):
            moved = pi[rows].copy()
            n = rng.integers(sizes[b])
            moved[n] = np.clip(moved[n] + rng.normal() * 10.0 ** rng.uniform(-4, 0), 0, 1)
            assert bag_elbo(joint_product(moved), mu[rows], T[b], H) <= top + 1e-9 * max(abs(top), 1)


def test_noise_free_mean_field_is_the_limit_and_the_best_choice_of_a_culprit():
    _, sizes, mu, T = random_bags(6, count=40, largest=5)
    labels = Labels(T, offsets_of(sizes), np.inf)
    q = mean_field(mu, labels)
    near = None
    for _ in range(10):
        near = mean_field(mu, Labels(T, offsets_of(sizes), 1e9), near).pi
    np.testing.assert_allclose(q.pi, near, atol=1e-9)
    for b, rows in enumerate(per_bag(labels)):
        top = bag_elbo(joint_product(q.pi[rows]), mu[rows], T[b], np.inf)
        np.testing.assert_allclose(q.potential[b] + q.bags[b] + q.entropy[b], top, rtol=1e-10, atol=1e-12)
        for culprit in range(sizes[b]) if T[b] else []:
            other = 1 / (1 + np.exp(-mu[rows]))
            other[culprit] = 1.0
            assert bag_elbo(joint_product(other), mu[rows], 1, np.inf) <= top + 1e-12


@pytest.mark.parametrize("H", [100.0, 1e12, np.inf])
def test_exact_is_the_maximum_over_joint_distributions_and_above_mean_field(H):
    rng, sizes, mu, T = random_bags(7, count=30, largest=5)
    labels = Labels(T, offsets_of(sizes), float(np.log(H)))
    q, factorised = exact(mu, labels), mean_field(mu, labels)
    total = q.potential + q.bags + q.entropy
    assert (factorised.potential + factorised.bags + factorised.entropy <= total + 1e-9).all()
    assert (factorised.potential + factorised.bags + factorised.entropy < total - 1e-3).any()
    for b, rows in enumerate(per_bag(labels)):
        joint = joint_exact(mu[rows], T[b], H)
        for _ in range(20):
            tilt = joint * np.exp(rng.normal(size=len(joint)) * 10.0 ** rng.uniform(-3, 0))
            moved = bag_elbo(tilt / tilt.sum(), mu[rows], T[b], H)
            assert moved <= total[b] + 1e-10 * max(abs(total[b]), 1)


def test_expected_maximum_is_the_noisy_or():
    """I8: E max y under independent labels, from the bag term, against enumeration; the largest pi is below it."""
    _, sizes, mu, _ = random_bags(8, count=200)
    T, H = np.ones(200, dtype=int), 100.0
    labels = Labels(T, offsets_of(sizes), float(np.log(H)))
    pi = 1 / (1 + np.exp(-mu))
    q = given(mu, labels, pi)
    assert np.array_equal(q.pi, pi)
    expected_max = (q.bags + np.log1p(H)) / np.log(H)
    for b, rows in enumerate(per_bag(labels)):
        value = joint_product(pi[rows]) @ labellings(sizes[b]).max(axis=1)
        assert expected_max[b] == pytest.approx(value, abs=4e-14)
        assert pi[rows].max() <= expected_max[b] + 1e-14


def test_largest_other_equals_a_scalar_loop():
    rng, sizes, mu, T = random_bags(9, count=50)
    previous, H = np.round(rng.uniform(size=len(mu)), 1), 100.0  # with ties
    labels = Labels(T, offsets_of(sizes), float(np.log(H)))
    found = largest_other(mu, labels, previous).pi
    for b, rows in enumerate(per_bag(labels)):
        for i, n in enumerate(range(rows.start, rows.stop)):
            others = np.delete(previous[rows], i)
            top = others.max() if len(others) else 0.0
            assert found[n] == pytest.approx(
                1 / (1 + np.exp(-(mu[n] + (2 * T[b] - 1) * np.log(H) * (1 - top)))), rel=1e-12
            )


def test_six_equal_instances_share_the_blame():
    labels = Labels(np.array([1]), np.array([0, 6]), float(np.log(1e12)))
    np.testing.assert_allclose(exact(np.full(6, -4.0), labels).pi, 0.174, atol=5e-4)
    pi = None
    for _ in range(20):
        pi = mean_field(np.full(6, -4.0), labels, pi).pi
    np.testing.assert_allclose(np.sort(pi), [0.018] * 5 + [1.0], atol=5e-4)


def test_belief_in_the_bag_label_grows_with_H():
    """I24: q(all negative) falls in H for positive bags and rises for negative ones, from the marginals at n = 1."""
    grid = [1.0, 3.0, 100.0, 1e6, 1e12, np.inf]
    for T, sign in ((1, 1), (0, -1)):
        pi = [exact(np.array([-0.7]), Labels(np.array([T]), np.array([0, 1]), float(np.log(H)))).pi[0] for H in grid]
        assert (sign * np.diff(pi) > 0).all()
        assert pi[-1] == T


@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_noise_free_is_the_limit_of_large_H(rule):
    _, sizes, mu, T = random_bags(10)
    log_H = float(np.log(1e300)) if rule == "exact" else 1e9  # mean field needs log H prod(1 - pi) to be large
    large = RULES[rule].update(mu, Labels(T, offsets_of(sizes), log_H), None)
    limit = RULES[rule].update(mu, Labels(T, offsets_of(sizes), np.inf), None)
    np.testing.assert_allclose(large.pi, limit.pi, atol=1e-9)
    total = [q.potential + q.bags + q.entropy for q in (large, limit)]
    np.testing.assert_allclose(*total, atol=1e-6)


@pytest.mark.parametrize("H", [1.0, 100.0, 1e300, np.inf])
@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_extreme_means_stay_finite(rule, H):
    rng = np.random.default_rng(0)
    mu = np.concatenate([rng.choice([-1e4, -800.0, -40.0, 0.0, 40.0, 800.0, 1e4], size=1000), [-1e4], [1e4]])
    labels = Labels(np.array([0, 1, 0, 1, 1, 0]), np.array([0, 500, 900, 990, 1000, 1001, 1002]), float(np.log(H)))
    q = RULES[rule].update(mu, labels, None)
    assert ((q.pi >= 0) & (q.pi <= 1)).all()
    assert all(np.isfinite(values).all() for values in (q.potential, q.bags, q.entropy))


def test_blame_when_every_instance_is_almost_surely_negative():
    """With P0 = 1 to rounding, pi_n = e^mu_n / sum e^mu: the ratio of two tiny numbers must survive."""
    mu = np.array([-60.0, -61.0, -200.0])
    q = exact(mu, Labels(np.array([1]), np.array([0, 3])))
    np.testing.assert_allclose(q.pi, np.exp(mu) / np.exp(mu).sum(), rtol=1e-12)
    assert q.potential[0] + q.bags[0] + q.entropy[0] == pytest.approx(-0.5 * mu.sum() + np.log(np.exp(mu).sum()))
