"""One contract for every density; closed forms to sixty digits; refusals of what is no Gaussian scale mixture."""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy.integrate import quad

from problems import CUSTOM, DENSITIES, name
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.custom_density import density_from_log
from psimil.model.densities import (
    Density,
    GammaMixture,
    HyperbolicSecant,
    SmoothLaplace,
    StudentT,
    runs_away,
    warn_if_runaway,
)
from psimil.paper.published import ClippedGammaMixture

getcontext().prec = 60
C = [0.0, *(10.0**k for k in range(-12, 5)), 2.5, 7e-4, 9.99e-4, 1.001e-3, 1600.0]


def check_density(density):
    """What inference relies on, for any psi: a new density is tested by adding it to the list."""
    assert isinstance(density, Density)
    x = np.concatenate([[0.0], np.logspace(-3, 2, 101)])
    assert density.log_prob(x).shape == density.theta(x).shape == x.shape
    np.testing.assert_allclose(density.log_prob(-x), density.log_prob(x), rtol=1e-14)
    c = np.logspace(-2, 2, 81)
    h = 1e-4 * c
    slope = (density.log_prob(c + h) - density.log_prob(c - h)) / (2 * h)
    np.testing.assert_allclose(density.theta(c), -slope / c, rtol=1e-5)
    t = density.theta(np.concatenate([[0.0], np.logspace(-12, 3, 400)]))
    assert np.isfinite(t).all()
    assert (t > 0).all()
    assert (np.diff(t) <= 1e-9 * t[:-1]).all()
    rng = np.random.default_rng(0)
    f, c = rng.normal(size=(2, 20_000)) * np.exp(rng.uniform(-3, 3, size=20_000))
    c = np.abs(c)
    gap = density.log_prob(f) - density.log_prob(c) + 0.5 * density.theta(c) * (f**2 - c**2)
    assert gap.min() >= -1e-7 * (1 + np.abs(density.log_prob(f)).max())
    assert gap.max() > 1e-3
    assert np.isfinite(density.log_prob(x.astype(np.float32))).all()
    shape = density.log_prob(x[:6].reshape(2, 3)).shape
    assert shape == density.theta(x[:6].reshape(2, 3)).shape == (2, 3)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_contract(density):
    check_density(density)


class RisingTheta:
    """psi = exp(-x^4): even, but lighter than a Gaussian."""

    def log_prob(self, x):
        return -(x**4)

    def theta(self, c):
        return 4 * c**2


@pytest.mark.parametrize("wrong", [RisingTheta(), ClippedGammaMixture(1.0, 1.0)], ids=["rising", "clipped"])
def test_the_contract_refuses_what_is_no_scale_mixture(wrong):
    with pytest.raises(AssertionError):
        check_density(wrong)


def secant(c):
    e = (-c).exp()
    value = 1 / Decimal(4) if c == 0 else (1 - e) / (1 + e) / (2 * c)
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    return value, -pi.ln() - c / 2 - (1 + e).ln()


def gamma(alpha, beta):
    return lambda c: (alpha / (beta + c * c / 2), -alpha * (beta + c * c / 2).ln())


def student(nu, s):
    return lambda c: ((nu + 1) / (nu * s * s + c * c), -(nu + 1) / 2 * (1 + c * c / (nu * s * s)).ln())


def laplace(rate, width):
    return lambda c: (rate / (c * c + width * width).sqrt(), -rate * (c * c + width * width).sqrt())


EXACT = [
    (HyperbolicSecant(), secant),
    (GammaMixture(1.0, 1.0), gamma(Decimal(1), Decimal(1))),
    (GammaMixture(0.5, 2.5), gamma(Decimal("0.5"), Decimal("2.5"))),
    (StudentT(4.0, 2.0), student(Decimal(4), Decimal(2))),
    (SmoothLaplace(0.5, 1.0), laplace(Decimal("0.5"), Decimal(1))),
]


@pytest.mark.parametrize(("density", "exact"), EXACT, ids=[name(d) for d, _ in EXACT])
def test_theta_and_log_psi_to_1e_10_from_zero_to_ten_thousand(density, exact):
    values = [exact(Decimal(c)) for c in C]
    np.testing.assert_allclose(density.theta(np.array(C)), [float(t) for t, _ in values], rtol=1e-10)
    np.testing.assert_allclose(density.log_prob(np.array(C)), [float(p) for _, p in values], rtol=1e-10, atol=1e-15)


def test_values_that_naive_formulas_lose():
    density = HyperbolicSecant()
    assert density.log_prob(np.array([1600.0]))[0] == pytest.approx(-801.1447, abs=5e-5)
    assert density.theta(np.array([0.0, 1e-12]))[1] == pytest.approx(0.25, rel=1e-12)


def test_theta_of_the_secant_is_twice_jaakkolas_lambda_and_the_polya_gamma_mean():
    c = np.logspace(-3, 2, 60)
    jaakkola = (1 / (1 + np.exp(-c)) - 0.5) / (2 * c)
    np.testing.assert_allclose(HyperbolicSecant().theta(c), 2 * jaakkola, rtol=1e-11)
    # E PG(1, c) as the sum of its exponential components: sum_k 1 / (2 pi^2 (k - 1/2)^2 + c^2 / 2)
    k = np.arange(1, 200_001) - 0.5
    for x in (0.0, 1.0, 6.0):
        series = np.sum(1.0 / (2 * np.pi**2 * k**2 + x**2 / 2))
        assert HyperbolicSecant().theta(np.array([x]))[0] == pytest.approx(series, abs=1e-6)


def test_gamma_density_is_its_scale_mixture():
    """psi = int N(x | 0, 1/w) psi^(w) dw with psi^ = w^(alpha - 3/2) e^(-beta w): integrate and compare ratios."""
    alpha, beta = 1.3, 0.7
    density = GammaMixture(alpha, beta)

    def mixture(x):
        return quad(lambda w: w ** (alpha - 1) * np.exp(-w * (beta + x * x / 2)), 0, np.inf)[0]

    for x in (0.5, 2.0, 5.0):
        ratio = np.diff(density.log_prob(np.array([0.0, x])))[0]
        assert ratio == pytest.approx(np.log(mixture(x) / mixture(0.0)), rel=1e-8)


def test_custom_density_equals_the_closed_form_it_was_made_from():
    closed, c = GammaMixture(2.0, 3.0), np.concatenate([[0.0], np.logspace(-12, 3, 200)])
    np.testing.assert_allclose(CUSTOM.theta(c), closed.theta(c), rtol=2e-5)
    np.testing.assert_allclose(CUSTOM.theta(c[c > 0.1]), closed.theta(c[c > 0.1]), rtol=1e-8)
    np.testing.assert_allclose(CUSTOM.log_prob(c), closed.log_prob(c), rtol=1e-14)
    secant_again = density_from_log(lambda x: -np.abs(x) / 2 - np.log1p(np.exp(-np.abs(x))))
    np.testing.assert_allclose(secant_again.theta(c), HyperbolicSecant().theta(c), rtol=1e-5)


@pytest.mark.parametrize(
    ("log_psi", "message"),
    [
        (lambda x: -np.abs(x - 1.0), "not even"),
        (lambda x: -np.log1p(np.exp(-x)), "not even"),
        (lambda x: 0.1 * x**2, "theta"),  # grows: theta < 0
        (lambda x: -np.sqrt(1 + x**2) + 3 * np.exp(-((np.abs(x) - 4) ** 2)), "theta"),
        (lambda x: -(x**4), "theta rises"),
        (lambda x: -0.5 * x**2 - 0.01 * x**4, "theta rises"),
        (lambda x: np.where(np.abs(x) > 50, np.nan, -np.abs(x)), "finite"),
        (lambda x: np.float64(1.0), "one finite number per element"),
    ],
)
def test_refusals(log_psi, message):
    with pytest.raises(InputError, match=message):
        density_from_log(log_psi)


@pytest.mark.parametrize(
    "build",
    [
        lambda: GammaMixture(0.0, 1.0),
        lambda: GammaMixture(1.0, -1.0),
        lambda: GammaMixture(np.nan, 1.0),
        lambda: GammaMixture(1.0, np.inf),
        lambda: StudentT(0.0),
        lambda: StudentT(1.0, -1.0),
        lambda: SmoothLaplace(-1.0),
        lambda: SmoothLaplace(1.0, 0.0),
    ],
)
def test_parameters_that_give_no_density_are_refused(build):
    with pytest.raises(InputError, match="density needs"):
        build()


def test_runaway_rule():
    """sup c theta(c) < 1/2: beta > 2 alpha^2 for Gamma, rate < 1/2 for Laplace, s^2 > (nu + 1)^2 / nu for Student."""
    for alpha in (0.5, 1.0, 2.0):
        for beta in (0.3, 0.49, 0.51, 1.0, 1.9, 2.1, 4.0, 7.9, 8.1):
            assert runs_away(GammaMixture(alpha, beta)) == (beta > 2 * alpha**2)
    assert not runs_away(HyperbolicSecant())
    assert not runs_away(SmoothLaplace(0.5))
    assert runs_away(SmoothLaplace(0.4))
    assert not runs_away(StudentT(4.0, 2.4))
    assert runs_away(StudentT(4.0, 2.6))
    with pytest.warns(DataWarning, match="alpha=1, beta=4"):
        warn_if_runaway(GammaMixture(1.0, 4.0))
    with pytest.warns(DataWarning, match="SmoothLaplace"):
        warn_if_runaway(SmoothLaplace(0.4))


def test_clipped_gamma_is_the_published_code():
    c = np.array([0.5, 2.9, 3.0, 10.0])
    clipped = np.clip(c, -3, 3)
    published = clipped / (c * (4.0 + 0.5 * clipped**2))
    np.testing.assert_allclose(ClippedGammaMixture(1.0, 4.0).theta(c), published, rtol=1e-13)
    np.testing.assert_allclose(ClippedGammaMixture(1.0, 4.0).log_prob(c), -np.log(4 + clipped**2 / 2), rtol=1e-13)
