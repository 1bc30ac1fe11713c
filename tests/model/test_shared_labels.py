"""Labels that share noise: against hundreds of digits, differences, a frailty that is drawn, noisy-or and "max"."""

from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import kendalltau

from problems import offsets_of
from psimil.model.bag_likelihoods import IndependentLabels, Labels
from psimil.model.densities import HyperbolicSecant, SmoothLaplace, StudentT
from psimil.model.shared_labels import SharedLabels, total_hazard
from shared_noise import drawn_labels, factor, noise, power_of_hazard, total

TAUS = pytest.mark.parametrize("tau", [1e-9, 0.25, 0.6, 0.95])
EVERY_H = pytest.mark.parametrize("H", [np.inf, 1.5, 100.0, 0.2])
KNOWN = pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
LOGISTIC = HyperbolicSecant()
DIGITS = 350
EXTREMES = [-700.0, -690.0, -100.0, -40.0, -29.0, -1e-9, 0.0, 1.0, 40.0, 100.0, 700.0]
close = np.testing.assert_allclose


@pytest.fixture(autouse=True)
def fifty_digits():
    with localcontext(prec=50):
        yield


def random_bags(tau, H=np.inf, with_known=False, *, largest=8, S=2):
    """Negative and positive bags of every size up to the largest, in no order of size: f (S, N), and their labels."""
    rng = np.random.default_rng(largest)
    sizes, T = rng.permutation(np.tile(np.arange(1, largest + 1), 2)), np.tile([0, 1], largest)
    offsets, known = offsets_of(sizes), rng.choice([-1, -1, 0, 1], size=sizes.sum())
    for (a, z), T_b in zip(pairwise(offsets), T, strict=True):
        if H == np.inf:  # without contradiction
            known[a:z] = np.where(known[a:z] == 1, T_b, known[a:z])
            known[a] = -1 if T_b and (known[a:z] == 0).all() else known[a]
    labels = Labels(T, offsets, float(np.log(H)), known if with_known else None, sharing=tau)
    return 2.5 * rng.normal(size=(S, sizes.sum())), labels


def derived(f, labels, density=LOGISTIC):
    """What is under test, once it has the right shapes and precision, no NaN and no infinity, and probabilities."""
    found = SharedLabels(density).derivatives(f, labels)
    assert [array.shape for array in found[:6]] == [(len(f), len(labels.T)), *[f.shape] * 5]
    assert all(np.isfinite(array).all() for array in found[:6])
    assert ((found.label >= 0) & (found.label <= 1)).all()
    assert found.chains == ()
    return found


def each_bag(labels, S):
    for k, (b, (a, z)) in product(range(S), enumerate(pairwise(labels.offsets))):
        yield k, b, slice(a, z), [-1] * (z - a) if labels.known is None else labels.known[a:z].tolist()


def decimals(numbers):
    return [Decimal(float(x)) for x in numbers]


def numbers(decimals):
    return np.array([float(x) for x in decimals])


def logarithm(p):
    """log of a Decimal with hundreds of digits, good to fifty."""
    with localcontext(prec=100):
        return p.ln() if abs(p - 1) > Decimal("1e-40") else (p - 1) - (p - 1) ** 2 / 2


def difference(function, h=1e-3):
    """Derivative of an array at 0 by the five-point rule: error O(h^4)."""
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)


# ---------------------------------------------------------------- oracles: digits, differences, draws


@KNOWN
@EVERY_H
@TAUS
def test_value_and_label_equal_their_definition(tau, H, with_known):
    f, labels = random_bags(tau, H, with_known)
    found = derived(f, labels)
    for k, b, rows, known in each_bag(labels, len(f)):
        p, label = factor(decimals(f[k, rows]), labels.T[b], Decimal(tau), H, known)
        close(found.value[k, b], float(p.ln()), rtol=1e-13, atol=1e-15)
        close(found.label[k, rows], numbers(label), rtol=1e-13, atol=1e-15)
    close(found.alone, -np.logaddexp(0.0, f), rtol=1e-13)


@pytest.mark.parametrize("size", [1, 2, 35])
@pytest.mark.parametrize("tau", [1e-12, 0.5, 0.95])
def test_extremes_equal_arithmetic_with_hundreds_of_digits(tau, size):
    """Eleven digits of everything, however small: 1 - P0 of a bag at -700 begins in the 305th digit."""
    rng = np.random.default_rng(size)
    rows = list(product(EXTREMES, repeat=size))[:: 3 * size - 2] if size < 3 else rng.choice(EXTREMES, (4, 35)).tolist()
    rows += [[x] * size for x in EXTREMES[:5]]
    T, f = np.repeat([0, 1], len(rows)), np.tile(np.concatenate(rows), 2)[None]
    labels = Labels(T, offsets_of([size] * len(T)), sharing=tau)
    found = derived(f, labels)
    with localcontext(prec=DIGITS):
        for _, b, at, _ in each_bag(labels, 1):
            x, eta = decimals(f[0, at]), 1 / (1 - Decimal(tau))
            (p, label), A = factor(x, T[b], Decimal(tau)), total(x, Decimal(tau))
            a, odds = [[power_of_hazard(one, power, DIGITS) for one in x] for power in (Decimal(1), eta - 1)]
            s, by_A = [1 / (1 + (-one).exp()) for one in x], (1 - p) / p if T[b] else Decimal(-1)  # d log p / dA
            h = [A**-eta * of_a * s_n for of_a, s_n in zip(odds, s, strict=True)]
            root = ((by_A * (1 + by_A) * A + (eta - 1) * abs(by_A)) * A).sqrt()
            bends = [-by_A * A * h_n * ((eta - 1) * s_n / a_n + 1 - s_n) for h_n, s_n, a_n in zip(h, s, a, strict=True)]
            close(found.value[0, b], float(logarithm(p)), rtol=1e-12, atol=1e-300)
            close(found.gradient[0, at], numbers(by_A * A * h_n for h_n in h), rtol=1e-11, atol=1e-300)
            close(found.diagonal[0, at], numbers(bends), rtol=1e-11, atol=1e-300)
            close(found.vector[0, at], numbers(root * h_n for h_n in h), rtol=1e-11, atol=1e-160)
            close(found.label[0, at], numbers(label), rtol=1e-12, atol=1e-15)
            close(total_hazard(numbers(a)[None], np.array([0, size]), tau), float(A), rtol=1e-12)


@KNOWN
@EVERY_H
@TAUS
def test_gradient_and_curvature_equal_differences_of_the_value(tau, H, with_known):
    """-Hessian = diag(d) + sign r r', of up to three instances, to twelve digits."""
    f, labels = random_bags(tau, H, with_known, largest=3, S=1)
    found, sign, h = derived(f, labels), SharedLabels().sign(labels), Decimal("1e-10")
    for k, b, rows, known in each_bag(labels, len(f)):
        x = decimals(f[k, rows])

        def value(*moves, x=x, b=b, known=known):
            moved = [x_n + sum(step for i, step in moves if i == n) for n, x_n in enumerate(x)]
            return factor(moved, labels.T[b], Decimal(tau), H, known)[0].ln()

        def mixed(i, j, at=value):
            return at((i, h), (j, h)) - at((i, h), (j, -h)) - at((i, -h), (j, h)) + at((i, -h), (j, -h))

        size = range(len(x))
        gradient = numbers([(value((i, h)) - value((i, -h))) / (2 * h) for i in size])
        close(found.gradient[k, rows], gradient, rtol=1e-12, atol=1e-15)
        hessian = np.array([[float(mixed(i, j) / (4 * h * h)) for j in size] for i in size])
        dense = np.diag(found.diagonal[k, rows]) + sign[b] * np.outer(found.vector[k, rows], found.vector[k, rows])
        close(dense, -hessian, rtol=1e-12, atol=1e-14)


@KNOWN
@EVERY_H
@pytest.mark.parametrize("tau", [0.1, 0.6, 0.95])
def test_gradient_and_curvature_of_many_instances_equal_differences(tau, H, with_known):
    """Bags of up to 35 instances, a direction at a time: of the value, and of the gradient."""
    f, labels = random_bags(tau, H, with_known, largest=35, S=1)
    found, sign, rng = derived(f, labels), SharedLabels().sign(labels), np.random.default_rng(1)
    for _ in range(3):
        u = rng.normal(size=f.shape)

        def moved(step, u=u):
            return derived(f + step * u, labels)

        slope = difference(lambda step: moved(step).value)
        close(labels.sum(found.gradient * u), slope, rtol=1e-9, atol=1e-9)
        bend = difference(lambda step: moved(step).gradient)
        along = labels.spread(sign * labels.sum(found.vector * u))
        close(found.diagonal * u + along * found.vector, -bend, rtol=1e-7, atol=1e-8)


@KNOWN
@EVERY_H
@pytest.mark.parametrize("tau", [0.0, 1e-6, 0.3, 0.9, 0.95])
def test_slope_by_tau_equals_differences_of_the_value(tau, H, with_known):
    f, labels = random_bags(tau, H, with_known, S=1)
    found, h = SharedLabels().slope(f, labels), Decimal("1e-15")
    assert found.shape == (1, len(labels.T))
    for k, b, rows, known in each_bag(labels, len(f)):
        ends = [factor(decimals(f[k, rows]), labels.T[b], Decimal(tau) + e, H, known)[0].ln() for e in (-h, h)]
        close(found[k, b], float((ends[1] - ends[0]) / (2 * h)), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.8])
def test_labels_are_those_of_instances_that_share_a_frailty(tau):
    """Marginals, all pairs and all labels of 200 000 draws within five standard errors; tau is Kendall's."""
    rng, f, count = np.random.default_rng(0), np.array([-2.0, -1.5, 0.3, -0.5, -3.0]), 200_000
    y = drawn_labels(f, tau, count, rng)
    close(y.mean(axis=0), 1.0 / (1.0 + np.exp(-f)), rtol=0, atol=2.5 / np.sqrt(count))
    groups = [*product(range(5), repeat=2), range(5), range(3)]
    for group in groups:
        some = np.unique(list(group))
        labels = Labels(np.array([0]), np.array([0, len(some)]), sharing=tau)
        P0 = np.exp(derived(f[None, some], labels).value[0, 0])
        drawn, error = (~y[:, some]).all(axis=1).mean(), np.sqrt(P0 * (1 - P0) / count)
        assert abs(drawn - P0) < 5 * error
        apart = np.exp(derived(f[None, some], replace(labels, sharing=0.0)).value[0, 0])
        assert len(some) == 1 or abs(drawn - apart) > 5 * error
    assert kendalltau(*noise(tau, 20_000, 2, rng).T).statistic == pytest.approx(tau, abs=0.02)


# ---------------------------------------------------------------- laws


@KNOWN
@EVERY_H
def test_without_sharing_labels_are_independent(H, with_known):
    """Bit for bit; and nearly so with hardly any sharing."""
    f, labels = random_bags(0.0, H, with_known)
    density = StudentT(4.0)
    plain, found = IndependentLabels(density).derivatives(f, labels), derived(f, labels, density)
    assert all(np.array_equal(mine, other) for mine, other in zip(found[:6], plain[:6], strict=True))
    nearly = derived(f, replace(labels, sharing=1e-13), density)
    for mine, other in zip(nearly[:6], plain[:6], strict=True):
        close(mine, other, rtol=1e-10, atol=3e-6 if other is plain.vector else 1e-11)  # a root of tau


@EVERY_H
def test_near_one_a_bag_is_as_positive_as_its_most_positive_instance(H):
    f, labels = random_bags(1.0 - 1e-12, H)
    tops = np.maximum.reduceat(f, labels.offsets[:-1], axis=1)
    P0, right = 1.0 / (1.0 + np.exp(tops)), 1.0 / (1.0 + 1.0 / H)
    p = np.where(labels.T == 1, right * (1.0 - P0) + (1.0 - right) * P0, right * P0 + (1.0 - right) * (1.0 - P0))
    close(derived(f, labels).value, np.log(p), rtol=1e-9)


def test_a_bag_is_less_probable_the_more_noise_is_shared():
    """From noisy-or to "max", strictly so where there is more than one instance."""
    taus = [0.0, 1e-6, 0.05, 0.3, 0.6, 0.9, 0.95, 1.0 - 1e-9]
    f, labels = random_bags(0.0)
    labels = replace(labels, T=np.ones_like(labels.T))
    log_p = np.stack([derived(f, replace(labels, sharing=tau)).value for tau in taus])
    many = np.diff(labels.offsets) > 1
    falls = np.diff(log_p, axis=0)[:, :, many]
    assert (falls[:-1] < 0).all() and (falls <= 0).all()
    close(log_p[:, :, ~many], np.broadcast_to(log_p[0][:, ~many], log_p[:, :, ~many].shape), rtol=1e-13)
    tops = np.maximum.reduceat(f, labels.offsets[:-1], axis=1)
    assert (log_p[-1] >= -np.logaddexp(0.0, -tops) - 1e-12).all()
    slopes = np.stack([SharedLabels().slope(f, replace(labels, sharing=tau)) for tau in taus])
    assert (slopes[:-1, :, many] < 0).all() and (slopes <= 0).all()
    close(slopes[:, :, ~many], 0.0, atol=1e-15)


@TAUS
def test_copies_count_little_more_than_once(tau):
    """k copies have k^(1 - tau) times the hazard of one."""
    for k in (1, 2, 7, 100):
        labels = Labels(np.array([0]), np.array([0, k]), sharing=tau)
        close(
            derived(np.full((1, k), -1.3), labels).value[0, 0], -(k ** (1 - tau)) * np.log1p(np.exp(-1.3)), rtol=1e-13
        )


@KNOWN
@EVERY_H
def test_every_bag_is_by_itself_and_in_any_order(H, with_known):
    f, labels = random_bags(0.4, H, with_known)
    found, slope = derived(f, labels, SmoothLaplace()), SharedLabels().slope(f, labels)
    rng = np.random.default_rng(0)
    for k, b, rows, _ in each_bag(labels, len(f)):
        order = rng.permutation(rows.stop - rows.start)
        one = labels.chunk(b, b + 1)
        one = one if one.known is None else replace(one, known=one.known[order])
        at = f[k : k + 1, rows][:, order]
        alone = derived(at, one, SmoothLaplace())
        close(alone.value[0, 0], found.value[k, b], rtol=1e-13)
        close(SharedLabels().slope(at, one)[0, 0], slope[k, b], rtol=1e-12, atol=1e-15)
        for mine, other in zip(alone[1:6], found[1:6], strict=True):
            close(mine[0], other[k, rows][order], rtol=1e-12, atol=1e-15)


@KNOWN
@EVERY_H
@pytest.mark.parametrize("tau", [0.3, 0.95])
def test_single_precision_is_close(tau, H, with_known):
    f, labels = random_bags(tau, H, with_known, largest=35)
    f[1] *= 10.0
    f = f.astype(np.float32)
    for single, double in zip(derived(f, labels)[:6], derived(f.astype(float), labels)[:6], strict=True):
        close(single, double, rtol=5e-5, atol=5e-6)
    close(SharedLabels().slope(f, labels), SharedLabels().slope(f.astype(float), labels), rtol=5e-5, atol=1e-5)


@EVERY_H
def test_what_is_beyond_all_exponentials_gives_numbers_in_both_precisions(H):
    rng, T = np.random.default_rng(0), np.repeat([0, 1], 20)
    f = rng.choice([*EXTREMES, -1000.0, 800.0], (4, 40 * 9))
    f[2:] = np.minimum(f[2:], -30.0)
    for tau in (1e-12, 0.5, 0.95):
        labels = Labels(T, offsets_of([9] * 40), float(np.log(H)), sharing=tau)
        double, single = derived(f, labels), derived(f.astype(np.float32), labels)
        for one, other in zip(double[:6], single[:6], strict=True):
            close(other, one, rtol=1e-4, atol=1e-30)
        assert np.isfinite(SharedLabels().slope(f.astype(np.float32), labels)).all()


def test_only_negative_bags_of_one_are_separate_where_noise_is_shared():
    _, labels = random_bags(0.5)
    negative = labels.T == 0
    expected = labels.spread(negative & (np.diff(labels.offsets) == 1))
    assert 0 < expected.sum() < labels.spread(negative).sum()
    np.testing.assert_array_equal(SharedLabels().separate(labels), expected)
    np.testing.assert_array_equal(SharedLabels().separate(replace(labels, sharing=0.0)), labels.spread(negative))
    assert not SharedLabels().separate(replace(labels, log_H=3.0)).any()
