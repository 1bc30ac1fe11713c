"""log p(T | f), its gradient and its curvature: against enumeration of labels, differences and 500 digits."""

from collections import Counter
from dataclasses import replace
from decimal import Decimal, localcontext
from functools import cache
from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest

from problems import offsets_of
from psimil.model.bag_likelihoods import Derivatives, IndependentLabels, Labels
from psimil.model.densities import GammaMixture, HyperbolicSecant, SmoothLaplace, StudentT

HS = [np.inf, 1.0, 1.5, 100.0, 1e12, 0.2]
KNOWN = pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
LOGISTIC = HyperbolicSecant()
EVERY_H = pytest.mark.parametrize("H", HS)

# log psi of each density in decimal arithmetic, with the constants that the package leaves out also left out
LOG_PSI = {
    LOGISTIC: lambda x: -((x / 2).exp() + (-x / 2).exp()).ln(),
    GammaMixture(1.0, 1.0): lambda x: -(1 + x * x / 2).ln(),
    GammaMixture(0.5, 2.5): lambda x: -(Decimal("2.5") + x * x / 2).ln() / 2,
    StudentT(4.0): lambda x: -Decimal("2.5") * (1 + x * x / 4).ln(),
    SmoothLaplace(): lambda x: -(x * x + 1).sqrt(),
}

# Latent values at which exp, log1p or 1 - P0 give way, and groups of them that leave P0 near 1, between, and near 0.
EXTREMES = [-1000.0, -745.0, -100.0, -40.0, -29.0, -20.0, -1e-9, 0.0, 40.0, 100.0, 800.0]
GROUPS = [EXTREMES[:2], EXTREMES[:4], EXTREMES[3:6], EXTREMES[4:8], EXTREMES[:8], EXTREMES[6:], EXTREMES]
DIGITS = 500  # 1 - P0 of a bag at -1000 begins in the 435th digit


@pytest.fixture(autouse=True)
def fifty_digits():
    with localcontext(prec=50):
        yield


def without_contradiction(known, sizes, T, H):
    """Known labels that H = inf allows; the others are refused where labels are read."""
    for bag, T_b in zip(np.split(known, np.cumsum(sizes)[:-1]), T, strict=True):  # views
        if np.isinf(H) and T_b == 0:
            bag[bag == 1] = 0
        elif np.isinf(H) and (bag == 0).all():
            bag[0] = -1
    return known


def bags_of(f, sizes, T, H, known=None):
    return f, Labels(np.asarray(T), offsets_of(sizes), float(np.log(H)), known)


def random_bags(H, with_known=False, *, largest=8, S=3):
    """Negative and positive bags of every size up to the largest at S values of f: f (S, N), and their labels."""
    rng = np.random.default_rng(largest)
    sizes, T = np.tile(np.arange(1, largest + 1), 2), np.repeat([0, 1], largest)
    f, known = 2.5 * rng.normal(size=(S, sizes.sum())), rng.choice([-1, -1, 0, 1], size=sizes.sum())
    assert set(without_contradiction(known, sizes, T, H)) == {-1, 0, 1}
    return bags_of(f, sizes, T, H, known if with_known else None)


def extreme_bags(size, H, with_known=False):
    """Bags with every extreme, every pair of them, or many drawn from each group, negative and positive: f (2, N)."""
    rng = np.random.default_rng(size)
    all_of_them = list(combinations_with_replacement(EXTREMES, min(size, 2)))
    rows = all_of_them if size <= 2 else [rng.choice(group, size) for group in GROUPS]
    f, sizes, T = np.tile(np.concatenate(rows), 2), [size] * (2 * len(rows)), np.repeat([0, 1], len(rows))
    known = without_contradiction(rng.choice([-1, -1, 0, 1], size=len(f)), sizes, T, H)
    return bags_of(np.stack([f, f[::-1]]), sizes, T, H, known if with_known else None)


def derived(f, labels, density=LOGISTIC):
    """What is under test, once it has the right shapes, no NaN and no infinity, and probabilities for labels."""
    found = IndependentLabels(density).derivatives(f, labels)
    assert [array.shape for array in found[:6]] == [(len(f), len(labels.T)), *[f.shape] * 5]
    assert all(np.isfinite(array).all() for array in found[:6])
    assert ((found.label >= 0) & (found.label <= 1)).all()
    return found


def each_bag(f, labels, density=LOGISTIC):
    """f, T, known labels, derivatives and sign of one bag at one value of f."""
    found, sign = derived(f, labels, density), IndependentLabels(density).sign(labels)
    for b, (a, z) in enumerate(pairwise(labels.offsets)):
        known = np.full(z - a, -1) if labels.known is None else labels.known[a:z]
        for k in range(len(f)):
            arrays = (array[k, a:z] for array in found[1:6])
            yield f[k, a:z], labels.T[b], known, Derivatives(found.value[k, b], *arrays), sign[b]


def sigmoid(f):
    return np.where(f < 0, np.exp(-np.abs(f)), 1.0) / (1.0 + np.exp(-np.abs(f)))


# ---------------------------------------------------------------- oracles


@cache
def sigma(x, digits=50):
    with localcontext(prec=digits):
        return 1 / (1 + (-Decimal(x)).exp())


def told(T, log_H, digits=50):
    """p(T | max y) for max y = 0 and 1, Eq. (4): H / (H + 1) where they agree."""
    agree = Decimal(1) if log_H == np.inf else sigma(log_H, digits)
    return [agree if T == top else 1 - agree for top in (0, 1)]


def enumerated(f, T, log_H, known):
    """p(known y, T | f) and P(y = 1 | known y, T, f): the sum over all 2^n labels."""
    s, weight = [sigma(x) for x in f], told(T, log_H)
    total, ones = Decimal(0), [Decimal(0)] * len(f)
    for y in product((0, 1), repeat=len(f)):
        if all(k in (-1, label) for k, label in zip(known, y, strict=True)):
            p = weight[max(y)]
            for s_n, label in zip(s, y, strict=True):
                p *= s_n if label else 1 - s_n
            total += p
            ones = [one + label * p for one, label in zip(ones, y, strict=True)]
    return total, np.array([one / total for one in ones], float)


@cache
def extra(x, density):
    """log(2 cosh(x / 2) psi(x))."""
    return ((x / 2).exp() + (-x / 2).exp()).ln() + LOG_PSI[density](x)


def differences(function, f, h=Decimal("1e-10")):
    """Gradient and Hessian by central differences; with 50 digits both are good to 19."""

    def at(*moves):
        return function([x + sum(step for i, step in moves if i == n) for n, x in enumerate(f)])

    def mixed(i, j):
        return at((i, h), (j, h)) - at((i, h), (j, -h)) - at((i, -h), (j, h)) + at((i, -h), (j, -h))

    size = range(len(f))
    half = [[mixed(i, j) / (4 * h * h) for j in range(i + 1)] for i in size]
    gradient = [(at((i, h)) - at((i, -h))) / (2 * h) for i in size]
    return np.array(gradient, float), np.array([[half[max(i, j)][min(i, j)] for j in size] for i in size], float)


def log(p):
    """log p of a number with DIGITS digits, good to 50: by its series next to 1."""
    with localcontext(prec=100):
        return p.ln() if abs(p - 1) > 1e-40 else (p - 1) - (p - 1) ** 2 / 2


def by_moments(f, T, log_H, known):
    """Derivatives of one bag of any size in DIGITS digits, from moments of y in place of the formulas of the module.

    log p = log sum_y p(T | y) e^(y'f) - sum log(1 + e^f) has the gradient E[y | T] - E[y] and the Hessian
    Cov[y | T] - Cov[y]. As y_n = 1 makes the maximum 1, E[y_n | T] = pull s_n and E[y_n y_m | T] = pull s_n s_m with
    pull = p(T | 1) / p(T): off its diagonal -Hessian is pull (pull - 1) s_n s_m, which fixes r, and r fixes d.
    """
    with localcontext(prec=DIGITS):
        pairs = list(zip(f.tolist(), known.tolist(), strict=True))
        s, (without, within) = {x: sigma(x, DIGITS) for x in f.tolist()}, told(T, log_H, DIGITS)
        none = given = Decimal(1)  # P(every free y = 0, no known y = 1), P(known y)
        for (x, k), count in Counter(pairs).items():
            none *= (1 - s[x]) ** count if k < 0 else 1 - k
            given *= {-1: 1, 0: 1 - s[x], 1: s[x]}[k] ** count
        p = within * (1 - none) + without * none
        pull, less = within / p, (within - without) * none / p  # less = pull - 1
        rows = {}
        for x, k in set(pairs):
            label = pull * s[x] if k < 0 else Decimal(k)
            square = pull * less * s[x] ** 2 if k < 0 else Decimal(0)  # sign r^2
            curvature = s[x] * (1 - s[x]) - label * (1 - label)
            numbers = (label - s[x], curvature - square, abs(square).sqrt(), label, log(1 - s[x]))
            rows[x, k] = [float(number) for number in numbers]
        return Derivatives(float(log(p * given)), *np.array([rows[pair] for pair in pairs]).T)


# ---------------------------------------------------------------- tests: oracles first, then laws


@KNOWN
@EVERY_H
def test_value_and_label_equal_the_sum_over_all_labels(H, with_known):
    f, labels = random_bags(H, with_known)
    for f_b, T, known, found, _ in each_bag(f, labels):
        p, label = enumerated([Decimal(x) for x in f_b], T, labels.log_H, known)
        np.testing.assert_allclose(found.value, float(p.ln()), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(found.label, label, rtol=1e-13, atol=1e-15)


@KNOWN
@EVERY_H
@pytest.mark.parametrize("density", LOG_PSI, ids=repr)
def test_gradient_and_curvature_equal_differences_of_the_enumerated_value(density, H, with_known):
    """-Hessian = diag(d) + sign r r'; second derivatives of log psi are good to eight digits, all else to thirteen."""
    f, labels = random_bags(H, with_known, largest=4, S=1)
    for f_b, T, known, found, sign in each_bag(f, labels, density):

        def function(x, T=T, known=known):
            return enumerated(x, T, labels.log_H, known)[0].ln() + sum(extra(x_n, density) for x_n in x)

        x = [Decimal(n) for n in f_b]
        gradient, hessian = differences(function, x)
        dense = np.diag(found.diagonal) + sign * np.outer(found.vector, found.vector)
        np.testing.assert_allclose(found.value, float(function(x)), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(found.gradient, gradient, rtol=1e-13, atol=1e-15)
        limit = 1e-15 + 1e-13 * np.abs(hessian) + (0.0 if density == LOGISTIC else 2e-8) * np.eye(len(f_b))
        assert (np.abs(dense + hessian) <= limit).all()
        np.testing.assert_allclose(found.label, enumerated(x, T, labels.log_H, known)[1], rtol=1e-13, atol=1e-15)


@KNOWN
@pytest.mark.parametrize(
    ("size", "H"),
    [
        pytest.param(size, H, marks=[pytest.mark.slow] * (size == 2 and H not in (100.0, np.inf)))  # all pairs
        for size in (1, 2, 35, 1000)
        for H in (*HS, 1e300)
    ],
)
def test_extremes_equal_arithmetic_with_hundreds_of_digits(size, H, with_known):
    """Twelve digits of value, gradient, d and r, however small, but for two places where only rounding is promised.

    They are the value where it is the difference of two numbers near log H, and s of a known instance, as 1 - (1 - s).
    """
    f, labels = extreme_bags(size, H, with_known)
    for f_b, T, known, found, sign in each_bag(f, labels):
        expected = by_moments(f_b, T, labels.log_H, known)
        rounding = 1e-15 * abs(labels.log_H) if sign < 0 and H < np.inf else 1e-300
        np.testing.assert_allclose(found.value, expected.value, rtol=5e-13, atol=rounding)
        np.testing.assert_allclose(found.vector, expected.vector, rtol=5e-13, atol=1e-300)
        np.testing.assert_allclose(found.label, expected.label, rtol=5e-13, atol=1e-15)
        np.testing.assert_allclose(found.alone, expected.alone, rtol=5e-13, atol=1e-300)
        for array, right in ((found.gradient, expected.gradient), (found.diagonal, expected.diagonal)):
            assert (np.abs(array - right) <= 5e-13 * np.abs(right) + np.where(known < 0, 1e-300, 2e-16)).all()


@KNOWN
@EVERY_H
def test_many_draws_of_many_bags_equal_one_draw_of_one_bag_at_a_time(H, with_known):
    f, labels = random_bags(H, with_known)
    found = derived(f, labels, StudentT(4.0))
    for k, b in product(range(len(f)), range(len(labels.T))):
        rows = slice(*labels.offsets[b : b + 2])
        alone = derived(f[k : k + 1, rows], labels.chunk(b, b + 1), StudentT(4.0))
        for array, part in zip(
            (found.value[k, [b]], *(array[k, rows] for array in found[1:6])), alone[:6], strict=True
        ):
            np.testing.assert_allclose(array, part[0], rtol=1e-15)


@EVERY_H
def test_instances_in_another_order_give_the_same_in_that_order(H):
    f, labels = random_bags(H, with_known=True)
    rng = np.random.default_rng(0)
    order = np.concatenate([a + rng.permutation(z - a) for a, z in pairwise(labels.offsets)])
    moved = derived(f[:, order], replace(labels, known=labels.known[order]), StudentT(4.0))
    found = derived(f, labels, StudentT(4.0))
    np.testing.assert_allclose(moved.value, found.value, rtol=1e-13, atol=1e-14)
    for one, other in zip(moved[1:6], found[1:6], strict=True):
        np.testing.assert_allclose(one, other[:, order], rtol=1e-13, atol=1e-15)


@KNOWN
@EVERY_H
def test_gradient_is_what_the_bag_label_adds_to_the_mean_of_each_label(H, with_known):
    f, labels = random_bags(H, with_known)
    found = derived(f, labels)
    np.testing.assert_allclose(found.gradient, found.label - sigmoid(f), rtol=0, atol=5e-16)


@EVERY_H
def test_no_diagonal_is_beyond_one(H):
    for bags in (random_bags(H), extreme_bags(2, H), extreme_bags(35, H, with_known=True)):
        assert np.abs(derived(*bags).diagonal).max() <= 1 + 1e-13


def test_certain_negative_bags_have_positive_curvature_and_no_vector():
    f, labels = random_bags(np.inf)
    found, rows = derived(f, labels), labels.spread(labels.T) == 0
    assert (found.diagonal[:, rows] > 0).all()
    assert (found.vector[:, rows] == 0).all()


def test_a_certain_positive_bag_of_one_is_logistic_regression():
    x = np.linspace(-30.0, 30.0, 61)
    found = derived(*bags_of(x[None], [1] * 61, [1] * 61, np.inf))
    np.testing.assert_allclose(found.value[0], -np.log1p(np.exp(-x)), rtol=1e-13)
    np.testing.assert_allclose(found.gradient[0], sigmoid(-x), rtol=1e-13)
    np.testing.assert_allclose((found.diagonal + found.vector**2)[0], sigmoid(x) * sigmoid(-x), rtol=0, atol=2e-13)


def test_a_bag_label_without_information_teaches_nothing():
    found = derived(*random_bags(1.0))
    np.testing.assert_allclose(found.value, np.log(0.5), rtol=1e-15)
    assert all((array == 0).all() for array in found[1:4])


@pytest.mark.filterwarnings("error")
def test_single_precision_is_close_to_double_however_large_the_values_are():
    pairs = np.repeat([-100.0, -40.0, -3.0, 0.0, 2.0, 60.0, 200.0], 2)[None]
    f, labels = bags_of(pairs, [2] * 7, [1, 1, 1, 0, 1, 0, 1], np.inf)
    double, single = derived(f, labels), derived(f.astype(np.float32), labels)
    for one, other in zip(double[:6], single[:6], strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=1e-30)
