"""Chains of labels: against enumeration of all labels, hundreds of digits, dense matrices and independent labels."""

from dataclasses import replace
from decimal import Context, Decimal, localcontext
from itertools import pairwise, product

import numpy as np
import pytest

from problems import offsets_of
from psimil.foundations.scans import innovations, quadratic, scan, times
from psimil.model.bag_likelihoods import IndependentLabels, Labels
from psimil.model.chains import ChainLabels, mean_chain
from psimil.model.densities import HyperbolicSecant, SmoothLaplace, StudentT

EVERY_H = pytest.mark.parametrize("H", [np.inf, 1.0, 1.5, 100.0, 1e12, 0.2])
KNOWN = pytest.mark.parametrize("with_known", [False, True], ids=["unknown", "known"])
LOGISTIC = HyperbolicSecant()
close = np.testing.assert_allclose
LOG_PSI = {StudentT(4.0): lambda x: -2.5 * np.log1p(x * x / 4), SmoothLaplace(): lambda x: -np.sqrt(x * x + 1)}
EXTREMES = [-1000.0, -745.0, -100.0, -40.0, -29.0, -1e-9, 0.0, 40.0, 100.0, 800.0]
DIGITS = 500  # 1 - P0 of a bag at -1000 begins in the 440th digit


def linked(sizes, T, H=np.inf, known=None, largest=2.0):
    """Labels with a link of its own between any two neighbours, and gaps."""
    offsets = offsets_of(sizes)
    links = np.maximum(np.random.default_rng(0).uniform(-0.2 * largest, largest, offsets[-1]), 0.0)
    links[offsets[1:] - 1] = 0.0
    return Labels(np.asarray(T), offsets, float(np.log(H)), known, links=links)


def random_bags(H=np.inf, with_known=False, *, largest=12, S=2, scale=2.0):
    """Negative and positive bags of every size up to the largest, in no order of size: f (S, N), and their labels."""
    rng = np.random.default_rng(largest)
    sizes, T = rng.permutation(np.tile(np.arange(1, largest + 1), 2)), np.tile([0, 1], largest)
    known = rng.choice([-1, -1, 0, 1], size=sizes.sum())
    labels = linked(sizes, T, H, known if with_known else None)
    if H == np.inf:
        for (a, z), T_b in zip(pairwise(labels.offsets), T, strict=True):
            bag = known[a:z]  # a view
            bag[bag == 1] = T_b
            if T_b and (bag == 0).all():
                bag[0] = -1
    return scale * rng.normal(size=(S, sizes.sum())), labels


def derived(f, labels, density=LOGISTIC):
    """What is under test, once it has the right shapes and precision, no NaN and no infinity, and probabilities."""
    found = ChainLabels(density).derivatives(f, labels)
    arrays = [*found[:6], *(array for pair in found.chains for array in pair)]
    assert [array.shape for array in arrays] == [(len(f), len(labels.T)), *[f.shape] * (len(arrays) - 1)]
    assert all(np.isfinite(array).all() for array in arrays)
    assert all(array.dtype == f.dtype for array in arrays[1:]) or density != LOGISTIC
    assert ((found.label >= 0) & (found.label <= 1)).all()
    assert all(np.abs(rho).max() <= 1 + 1e-6 and not rho[:, labels.offsets[1:] - 1].any() for _, rho in found.chains)
    return found


def dense(c, rho):
    """The matrix c_i rho_i ... rho_j-1 of one bag."""
    half = np.array([[c[i] * np.prod(rho[i:j]) if j > i else 0.0 for j in range(len(c))] for i in range(len(c))])
    return half + half.T + np.diag(c)


def of_bag(found, labels, k, b, sign):
    """Derivatives of one bag at one f: value, gradient, -Hessian, label."""
    rows = slice(*labels.offsets[b : b + 2])
    r = found.vector[k, rows]
    curvature = np.diag(found.diagonal[k, rows]) + sign[b] * np.outer(r, r)
    for c, rho in found.chains:
        curvature += dense(c[k, rows], rho[k, rows]) - np.diag(c[k, rows])
    return found.value[k, b], found.gradient[k, rows], curvature, found.label[k, rows]


def enumerated(f, J, T, log_H, known):
    """log p(known y, T | f), its gradient and -Hessian, and P(y = 1 | known y, T, f): sums over all 2^n labels."""
    y = np.array(list(product((0, 1), repeat=len(f))))
    log_w = y @ f + (y[:, 1:] == y[:, :-1]) @ J[:-1]
    w = np.exp(log_w - log_w.max())
    agree, differ = 1.0 / (1.0 + np.exp([-log_H, log_H]))
    told = w * np.where(y.max(axis=1) == T, agree, differ) * ((known < 0) | (y == known)).all(axis=1)
    mean, told_mean = (p @ y / p.sum() for p in (w, told))
    cov, told_cov = ((y * p[:, None]).T @ y / p.sum() - np.outer(m, m) for p, m in ((w, mean), (told, told_mean)))
    return np.log(told.sum() / w.sum()), told_mean - mean, cov - told_cov, told_mean


def each_bag(labels, S):
    for k, (b, (a, z)) in product(range(S), enumerate(pairwise(labels.offsets))):
        yield k, b, slice(a, z), np.full(z - a, -1) if labels.known is None else labels.known[a:z]


@KNOWN
@EVERY_H
def test_all_equals_the_sum_over_all_labels(H, with_known):
    """Links differ, some are gaps; up to twelve instances, one among them."""
    f, labels = random_bags(H, with_known)
    found, sign = derived(f, labels), ChainLabels().sign(labels)
    for k, b, rows, known in each_bag(labels, len(f)):
        expected = enumerated(f[k, rows], labels.links[rows], labels.T[b], labels.log_H, known)
        for mine, right in zip(of_bag(found, labels, k, b, sign), expected, strict=True):
            close(mine, right, rtol=1e-11, atol=2e-14)


@KNOWN
@pytest.mark.parametrize("density", LOG_PSI, ids=repr)
def test_a_density_adds_to_value_gradient_and_diagonal(density, with_known):
    """What it adds is log(2 cosh(f / 2) psi(f)); derivatives by differences."""
    f, labels = random_bags(2.0, with_known)
    found, plain = derived(f, labels, density), derived(f, labels)

    def extra(x):
        return np.logaddexp(x / 2, -x / 2) + LOG_PSI[density](x)

    close(found.value, plain.value + labels.sum(extra(f)), rtol=1e-12)
    close(found.alone, plain.alone + extra(f), rtol=1e-12, atol=1e-13)
    h = 1e-4
    slope, bend = (extra(f + h) - extra(f - h)) / (2 * h), (extra(f + h) + extra(f - h) - 2 * extra(f)) / h**2
    close(found.gradient - plain.gradient, slope, rtol=0, atol=1e-7)
    close(plain.diagonal - found.diagonal, bend, rtol=0, atol=1e-6)
    for mine, other in zip(found.chains, plain.chains, strict=True):
        np.testing.assert_array_equal(mine, other)


def digits_of(f, J, T, known):
    """As :func:`enumerated` for H = inf in DIGITS digits: log p, gradient, label; d and r without known y; and rho."""
    with localcontext(prec=DIGITS):
        Y = np.array(list(product((0, 1), repeat=len(f))))
        e_f, e_J = (np.array([Decimal(x).exp() for x in row]) for row in (f, J[:-1]))
        w = np.where(Y == 1, e_f, Decimal(1)).prod(axis=1)
        w = w * np.where(Y[:, 1:] == Y[:, :-1], e_J, Decimal(1)).prod(axis=1)
        told = (Y.max(axis=1) == T) & ((known < 0) | (known == Y)).all(axis=1)
        e, label, P0, p = w @ Y / w.sum(), w[told] @ Y[told] / w[told].sum(), w[0] / w.sum(), w[told].sum() / w.sum()
        a, root = (P0 / (1 - P0), P0.sqrt() / (1 - P0)) if T else (Decimal(-1), Decimal(0))
        after_one, after_zero = (w @ (y * Y[:, 1:]) / (w @ y) for y in (Y[:, :-1], 1 - Y[:, :-1]))
        log_p = p.ln(Context(prec=80)) if abs(p - 1) > Decimal("1e-60") else p - 1
        found = ([log_p], label - e, label, -a * e * (1 - e), root * e, [*(after_one - after_zero), 0])
        return [np.array(row, float) for row in found]


@KNOWN
@pytest.mark.parametrize("size", [1, 2, 3])
def test_extremes_equal_arithmetic_with_hundreds_of_digits(size, with_known):
    """Twelve digits of value, gradient, d, r and rho, however small; gradients next to known labels are rounded."""
    rng = np.random.default_rng(size)
    rows = [*product(EXTREMES, repeat=size)] if size < 3 else rng.choice(EXTREMES, (20, 3)).tolist()
    T = np.repeat([0, 1], len(rows))
    known = np.concatenate([np.where(rng.random(size) < 0.3, T_b, -1) for T_b in T])
    labels = linked([size] * len(T), T, known=known if with_known else None, largest=4.0)
    f = np.tile(np.concatenate(rows), 2)[None]
    found = derived(f, labels)
    for _, b, at, known_b in each_bag(labels, 1):
        log_p, gradient, label, *curvature, rho = digits_of(f[0, at], labels.links[at], T[b], known_b)
        close(found.value[0, [b]], log_p, rtol=1e-12, atol=1e-290)
        close(found.gradient[0, at], gradient, rtol=1e-12, atol=1e-15 if with_known else 1e-290)
        close(found.label[0, at], label, rtol=1e-12, atol=1e-15)
        close(found.chains[0][1][0, at], rho, rtol=1e-12, atol=1e-290)
        if not with_known:
            close([found.diagonal[0, at], found.vector[0, at]], curvature, rtol=1e-12, atol=1e-290)


@KNOWN
@EVERY_H
@pytest.mark.parametrize("size", [35, 300])
def test_extremes_of_long_bags_are_numbers_in_both_precisions(size, H, with_known):
    rng = np.random.default_rng(size)
    T = np.repeat([0, 1], 5)
    known = np.where(rng.random(10 * size) < 0.2, np.repeat(T, size), -1)
    labels = linked([size] * 10, T, H, known if with_known else None, largest=6.0)
    f = rng.choice([*EXTREMES, 1000.0], (4, 10 * size))
    f[2:] = np.minimum(f[2:], -30.0)
    for precision in (np.float64, np.float32):
        derived(f.astype(precision), labels)


@KNOWN
@EVERY_H
def test_single_precision_is_close(H, with_known):
    f, labels = random_bags(H, with_known, largest=40)
    f = f.astype(np.float32)
    for single, double in zip(derived(f, labels), derived(f.astype(float), labels), strict=True):
        if double is not None:
            close(single, double, rtol=2e-5, atol=2e-6)


@KNOWN
@EVERY_H
def test_without_links_labels_are_independent(H, with_known):
    """Bit for bit; and to rounding where other bags have links."""
    f, labels = random_bags(H, with_known)
    plain = IndependentLabels(StudentT(4.0)).derivatives(f, labels)
    for links in (None, np.zeros_like(labels.links)):
        found = derived(f, replace(labels, links=links), StudentT(4.0))
        assert all(np.array_equal(mine, other) for mine, other in zip(found[:6], plain[:6], strict=True))
        assert not found.chains[0][1].any()
    rows = labels.spread(bare := np.arange(len(labels.T)) % 3 > 0)
    found = derived(f, replace(labels, links=np.where(rows, 0.0, labels.links)), StudentT(4.0))
    assert found.chains[0][1].any()
    close(found.value[:, bare], plain.value[:, bare], rtol=1e-15, atol=1e-16)
    for mine, other in zip(found[1:6], plain[1:6], strict=True):
        close(mine[:, rows], other[:, rows], rtol=1e-13, atol=3e-16)


@KNOWN
@EVERY_H
def test_bags_in_another_direction_are_the_same(H, with_known):
    """c rho of a link is a covariance: the same from either side."""
    f, labels = random_bags(H, with_known)
    back = np.concatenate([np.arange(a, z)[::-1] for a, z in pairwise(labels.offsets)])
    links = np.append(labels.links[back][1:], 0.0)  # of a bag's last instance: that of the next bag's first, which is 0
    known = None if labels.known is None else labels.known[back]
    found, turned = derived(f, labels), derived(f[:, back], replace(labels, known=known, links=links))
    close(turned.value, found.value, rtol=1e-13, atol=1e-14)
    for mine, other in zip(turned[1:5], found[1:5], strict=True):
        close(mine, other[:, back], rtol=1e-12, atol=1e-15)
    for (c, rho), (other_c, other_rho) in zip(turned.chains, found.chains, strict=True):
        close((c * rho)[:, :-1], (other_c * other_rho)[:, back][:, 1:], rtol=1e-12, atol=1e-15)


def test_every_bag_is_by_itself():
    f, labels = random_bags(3.0, with_known=True)
    found = derived(f, labels)
    for k, b, rows, known in each_bag(labels, len(f)):
        one = Labels(labels.T[[b]], np.array([0, len(known)]), labels.log_H, known, links=labels.links[rows])
        alone = derived(f[k : k + 1, rows], one)
        close(alone.value[0, 0], found.value[k, b], rtol=1e-14)
        if one.links.any():  # else there is no chain to speak of
            for mine, other in zip((*alone[1:6], *alone.chains[0]), (*found[1:6], *found.chains[0]), strict=True):
                close(mine[0], other[k, rows], rtol=1e-13, atol=1e-16)


def test_a_gap_makes_two_negative_bags_of_one():
    f, labels = random_bags()
    negative = replace(labels, T=np.zeros_like(labels.T))
    halves, links = labels.offsets[:-1] + np.diff(labels.offsets) // 2, labels.links.copy()
    links[halves - 1], cuts = 0.0, np.unique([*labels.offsets, *halves])
    parts = Labels(np.zeros(len(cuts) - 1, int), cuts, links=links)
    one, two = derived(f, replace(negative, links=links)), derived(f, parts)
    close(one.value.sum(axis=1), two.value.sum(axis=1), rtol=1e-14)
    for mine, other in zip(one[1:], two[1:], strict=True):
        assert mine is other or np.array_equal(mine, other)


def test_labels_with_strong_links_are_one_label():
    f = np.random.default_rng(0).normal(size=(3, 6))
    labels = Labels(np.array([1]), np.array([0, 6]), links=np.array([60.0] * 5 + [0.0]))
    found = derived(f, labels)
    close(found.value[:, 0], -np.log1p(np.exp(-f.sum(axis=1))), rtol=1e-13)
    close([found.label[:, :-1], found.chains[0][1][:, :-1]], 1.0, rtol=1e-13)


def test_gradient_is_what_the_bag_label_adds_and_alone_sums_to_negative_bags():
    f, labels = random_bags()
    found, none = derived(f, labels), derived(f, replace(labels, T=np.zeros_like(labels.T)))
    close(found.gradient, found.label + none.gradient, rtol=0, atol=5e-16)
    close(labels.sum(found.alone), none.value, rtol=1e-14)


def test_only_negative_bags_without_links_are_separate():
    _, labels = random_bags()
    expected = labels.spread((labels.T == 0) & (labels.sum(labels.links) == 0))
    assert expected.any()
    np.testing.assert_array_equal(ChainLabels().separate(labels), expected)
    np.testing.assert_array_equal(ChainLabels().separate(replace(labels, links=None)), labels.spread(labels.T == 0))
    assert not ChainLabels().separate(replace(labels, log_H=3.0)).any()


@KNOWN
def test_scans_equal_dense_matrices(with_known):
    f, labels = random_bags(with_known=with_known, S=5)
    V = np.random.default_rng(1).normal(size=(f.shape[1], 3))
    for c, rho in (mean_chain(*pair) for pair in derived(f, labels).chains):
        C = np.zeros((len(c), len(c)))
        for a, z in pairwise(labels.offsets):
            C[a:z, a:z] = dense(c[a:z], rho[a:z])
        D, W = innovations(c, rho), scan(V, rho, labels.offsets, axis=0)
        close((W.T * D) @ W, V.T @ C @ V, rtol=1e-12, atol=1e-13)
        close(scan(V.T, rho, labels.offsets), W.T, rtol=1e-14)
        close(times(f, c, rho, labels.offsets), f @ C, rtol=1e-12, atol=1e-13)
        close(quadratic(f, c, rho, labels.offsets), labels.sum(f * (f @ C)), rtol=1e-11, atol=1e-12)
        close(scan(V.astype(np.float32), rho, labels.offsets, axis=0), W, rtol=1e-5, atol=1e-5)


def test_means_over_draws_keep_variances_and_covariances_of_neighbours_and_signs():
    f, labels = random_bags(S=50, scale=4.0)
    found, w = derived(f, labels), np.random.default_rng(2).dirichlet(np.ones(50), f.shape[1]).T
    for weights in (None, w):
        p = np.full_like(w, 1 / 50) if weights is None else weights
        c, rho = mean_chain(*found.chains[0], weights)
        close(c, (p * found.chains[0][0]).sum(axis=0), rtol=1e-12)
        close(c * rho, (p * found.chains[0][0] * found.chains[0][1]).sum(axis=0), rtol=1e-12, atol=1e-15)
    variances = np.where(labels.spread(labels.T) == 1, -1.0, 1.0) * innovations(*mean_chain(*found.chains[0]))
    assert variances.min() > 0
