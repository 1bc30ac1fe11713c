"""Rows B12-B15, B17 and B21 of ROBUSTNESS.md: parameters, densities, kernels and kernel steps."""

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
from psimil.estimators.parameters import RENAMED, check_parameters
from psimil.foundations.errors import DataWarning, InputError, NumericalFailure
from psimil.inference import kernel_learning
from psimil.paper.objective import PaperObjective
from psimil.paper.published import ClippedGammaMixture
from tiny import problem, quick

NAN = float("nan")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_inducing": 0}, 'n_inducing must be "auto" or a whole number >= 1, got 0.'),
        ({"n_inducing": -3}, 'n_inducing must be "auto" or a whole number >= 1, got -3.'),
        ({"n_inducing": 2.5}, 'n_inducing must be "auto" or a whole number >= 1, got 2.5.'),
        ({"n_inducing": True}, 'n_inducing must be "auto" or a whole number >= 1, got True.'),
        ({"n_inducing": "many"}, "n_inducing must be \"auto\" or a whole number >= 1, got 'many'."),
        ({"n_inducing": None}, 'n_inducing must be "auto" or a whole number >= 1, got None.'),
        ({"max_iter": -1}, "max_iter must be a whole number >= 0, got -1."),
        ({"patience": 0}, "patience must be a whole number >= 1, got 0."),
        ({"chunk_size": 0}, "chunk_size must be a whole number >= 1, got 0."),
        ({"H": 0}, "H must be a number > 0, got 0."),
        ({"H": -1.0}, "H must be a number > 0, got -1.0."),
        ({"H": NAN}, "H must be a number > 0, got nan."),
        ({"H": "100"}, "H must be a number > 0, got '100'."),
        ({"tol": -1e-3}, "tol must be a number >= 0, got -0.001."),
        ({"tol": NAN}, "tol must be a number >= 0, got nan."),
        ({"threshold": 0.0}, "threshold must be a number between 0 and 1, got 0.0."),
        ({"threshold": 1.5}, "threshold must be a number between 0 and 1, got 1.5."),
        ({"false_positive_rate": 0.0}, "false_positive_rate must be a number between 0 and 1, got 0.0."),
        ({"start": 0.0}, 'start must be "labels" or a number in (0, 1], got 0.0.'),
        ({"start": "random"}, "start must be \"labels\" or a number in (0, 1], got 'random'."),
        ({"kernel": "rbf"}, "kernel must be a psimil kernel, got 'rbf'."),
        ({"density": "gamma"}, "density must have log_prob and theta, got 'gamma'."),
        ({"random_state": "seed"}, "random_state must be an int, a Generator or None, got 'seed'."),
        ({"random_state": -1}, "random_state must be an int, a Generator or None, got -1."),
        ({"label_posterior": "max"}, 'label_posterior "max" needs a finite H, got inf.'),
        (
            {"residual": "unit", "hyperparameters": "bound", "posterior": "augmented"},
            'residual "unit" has no bound; use hyperparameters "published", "paper" or None.',
        ),
        (
            {"density": ClippedGammaMixture(), "hyperparameters": "bound"},
            'the clipped Gamma mixture has no bound; use hyperparameters "published", "paper" or None.',
        ),
        ({"label_posterior": "mean_field"}, "label_posterior='mean_field' needs posterior=\"augmented\"."),
        ({"label_posterior": "max", "H": 9.0}, "label_posterior='max' needs posterior=\"augmented\"."),
        ({"start": 0.5, "posterior": "variational"}, 'start=0.5 needs posterior="augmented".'),
        ({"residual": "unit"}, "residual='unit' needs posterior=\"augmented\"."),
        ({"residual": "full"}, "residual='full' needs posterior=\"augmented\"."),
        ({"residual": "full", "posterior": "sampled"}, "residual='full' needs posterior=\"augmented\"."),
        ({"hyperparameters": "paper"}, "hyperparameters='paper' needs posterior=\"augmented\"."),
        ({"hyperparameters": "published"}, "hyperparameters='published' needs posterior=\"augmented\"."),
        (
            {"density": GammaMixture(), "posterior": "variational"},
            "the likelihood of GammaMixture(alpha=1.0, beta=1.0) grows without bound, so that its posterior runs away. "
            'Use posterior="augmented", or another density.',
        ),
        ({"kernel": RBF(1.0, (1.0, 2.0))}, "kernel has 2 length scales but data has 3 features."),
        ({"inducing_points": np.ones((4, 2))}, "inducing_points have shape (4, 2), expected (points, 3), all finite."),
        ({"inducing_points": np.ones(3)}, "inducing_points have shape (3,), expected (points, 3), all finite."),
        ({"inducing_points": np.ones((0, 3))}, "inducing_points have shape (0, 3), expected (points, 3), all finite."),
        ({"inducing_points": [[0, 1, NAN]]}, "inducing_points have shape (1, 3), expected (points, 3), all finite."),
        ({"inducing_points": [["a", "b", "c"]]}, "inducing_points must be real numbers, got text."),
    ],
    ids=str,
)
def test_b12_parameters(parameters, message):
    bags, y, _ = problem()
    model = quick(**parameters)
    with pytest.raises(InputError) as caught:
        model.fit(bags, y)
    assert str(caught.value) == message
    assert not hasattr(model, "model_")


CHOICES = {
    "inducing": "'kmeans_by_label', 'kmeans', 'greedy_variance'",
    "label_posterior": "'exact', 'mean_field', 'max'",
    "mean": "'constant', 'zero'",
    "residual": "'projected', 'full', 'unit'",
    "posterior": "None, 'variational', 'sampled', 'augmented'",
    "hyperparameters": "'bound', 'paper', 'published', None",
    "log_z": "'logistic', 'jensen', 'rff', 'none'",
    "aggregate": "'noisy_or', 'max'",
    "early_stopping": "None, 'auc', 'log_loss', 'out_of_bag'",
    "dtype": "'float64', 'float32'",
    "calibrate": "None, 'auto', True, False",
    "expectation": "'quadrature', 'sample'",
}


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", ["exakt", 1, ["full"], np.ones(2)], ids=str)
def test_b12_unknown_choices_list_the_known_ones(name, value):
    bags, y, _ = problem()
    with pytest.raises(InputError) as caught:
        quick(**{name: value}).fit(bags, y)
    assert str(caught.value) == f"{name} must be one of {CHOICES[name]}, got {value!r}."


@pytest.mark.parametrize(("name", "value"), RENAMED)
def test_b12_choices_of_earlier_versions_name_their_successors(name, value):
    bags, y, _ = problem()
    with pytest.raises(InputError) as caught:
        quick(**{name: value}).fit(bags, y)
    successor = RENAMED[name, value]
    expected = f"{name} must be one of {CHOICES[name]}, got {value!r}. {successor!r} is its successor."
    assert str(caught.value) == expected
    check_parameters({name: successor})


def test_b12_the_choices_that_1_0_0_had_and_this_version_has_not():
    kernels = {("hyperparameters", "collapsed"): "bound", ("hyperparameters", "loo"): "bound"}
    assert RENAMED == {**kernels, ("aggregate", "auto"): "noisy_or", ("early_stopping", "loo"): "out_of_bag"}


@pytest.mark.parametrize("kind", [RBF, Matern32, Matern52, Linear, Constant])
@pytest.mark.parametrize("value", [0.0, -1.0, NAN, float("inf")])
def test_b12_variance(kind, value):
    with pytest.raises(InputError) as caught:
        kind(variance=value)
    assert str(caught.value) == f"variance must be > 0, got {value}."


@pytest.mark.parametrize("kind", [RBF, Matern32, Matern52])
@pytest.mark.parametrize("value", [0.0, -1.0, NAN, float("inf"), (1.0, 0.0), (1.0, NAN)])
def test_b12_lengthscale(kind, value):
    with pytest.raises(InputError) as caught:
        kind(lengthscale=value)
    assert str(caught.value) == f"lengthscale must be > 0, got {value}."


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GammaMixture(0.0, 1.0), "gamma density needs alpha > 0 and beta > 0, got alpha=0.0."),
        (lambda: GammaMixture(1.0, -2.5), "gamma density needs alpha > 0 and beta > 0, got beta=-2.5."),
        (lambda: GammaMixture(NAN, 1.0), "gamma density needs alpha > 0 and beta > 0, got alpha=nan."),
        (lambda: GammaMixture(1.0, np.inf), "gamma density needs alpha > 0 and beta > 0, got beta=inf."),
        (lambda: StudentT(0.0), "Student density needs nu > 0 and scale > 0, got nu=0.0."),
        (lambda: SmoothLaplace(1.0, 0.0), "smooth Laplace density needs rate > 0 and width > 0, got width=0.0."),
    ],
)
def test_b13_densities(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == message


def test_b14_a_density_that_runs_away_warns():
    bags, y, _ = problem()
    with pytest.warns(DataWarning) as caught:
        quick(density=GammaMixture(1.0, 4.0), max_iter=3, tol=0.0).fit(bags, y)
    assert str(caught[0].message) == (
        "latent values grow with data size for alpha=1, beta=4; probabilities saturate, use log-odds."
    )


@pytest.mark.parametrize("density", [HyperbolicSecant(), GammaMixture(1.0, 1.0), GammaMixture(1.0, 1.99)], ids=repr)
def test_b14_stable_densities_do_not_warn(density):
    bags, y, _ = problem()
    quick(density=density, max_iter=3, tol=0.0).fit(bags, y)  # warnings are errors


@pytest.mark.parametrize(
    ("log_psi", "message"),
    [
        (lambda x: x**2 / 2, r"^psi is not a Gaussian scale mixture: theta\(0\) = -1 < 0\.$"),
        (lambda x: np.cos(x), r"^psi is not a Gaussian scale mixture: theta\(\d+(\.\d+)?\) = -\d.* < 0\.$"),
        (lambda x: -(x**4), r"^psi is not a Gaussian scale mixture: theta rises from .* at .* to .* at .*\.$"),
        (lambda x: -((x - 1) ** 2), r"^psi is not even: log psi\(.*\) differs from log psi\(-.*\)\.$"),
        (lambda x: -0.5 * x - 0.1 * x**2, r"^psi is not even"),
        (lambda x: np.full_like(x, np.nan), r"^log psi must return one finite number per element\.$"),
        (lambda x: 0.0, r"^log psi must return one finite number per element\.$"),
        (lambda x: np.zeros(3), r"^log psi must return one finite number per element\.$"),
    ],
)
def test_b15_a_density_of_ones_own(log_psi, message):
    with pytest.raises(InputError, match=message):
        density_from_log(log_psi)


def test_b15_what_is_a_scale_mixture_is_accepted():
    density = density_from_log(lambda x: -np.log(np.cosh(x / 2)))
    c = np.array([0.5, 1.0, 4.0])
    np.testing.assert_allclose(density.theta(c), np.tanh(c / 2) / (2 * c), rtol=1e-6)


class Indefinite(RBF):
    """Not a kernel: its gram matrix has negative eigenvalues."""

    def gram(self, X, Z):
        return 1.0 - super().gram(X, Z) * 0.9


def test_b17_a_kernel_matrix_that_is_not_positive_definite():
    bags, y, _ = problem()
    with pytest.raises(NumericalFailure) as caught:
        quick(kernel=Indefinite(1.0, 1.0)).fit(bags, y)
    text = str(caught.value)
    assert text.startswith("kernel matrix not positive definite with jitter up to 1.0e-04 (8 x 8, cond ")
    assert text.endswith("). Use fewer or more distinct inducing points.")


def test_b17_repeated_inducing_points_are_repaired_by_jitter():
    bags, y, _ = problem()
    model = quick(inducing_points=np.repeat(bags.X[:3], 2, axis=0)).fit(bags, y)
    assert model.model_.gp.jitter > 0
    assert np.isfinite(model.predict_proba(bags)).all()


@pytest.mark.parametrize("failure", [np.nan, np.inf, NumericalFailure])
def test_b21_a_step_that_is_not_finite_is_refused(monkeypatch, failure):
    bags, y, _ = problem()
    original, kernel, tried = kernel_learning.evidence_gradient, RBF(0.7, 1.25), []

    def broken(shard, found):
        tried.append(found.gp.kernel)
        if found.gp.kernel == kernel:
            return original(shard, found)
        if failure is NumericalFailure:
            raise NumericalFailure("not positive definite")
        return failure * original(shard, found)

    monkeypatch.setattr(kernel_learning, "evidence_gradient", broken)
    model = quick(hyperparameters="bound", kernel=kernel).fit(bags, y)
    assert len(set(tried)) > 2  # shorter steps were tried
    assert model.kernel_ == kernel
    expected = quick(kernel=kernel).fit(bags, y).predict_proba(bags)
    np.testing.assert_allclose(model.predict_proba(bags), expected, atol=1e-3)


def test_b21_a_step_of_the_papers_objective_that_is_not_finite_is_refused(monkeypatch):
    bags, y, _ = problem()
    monkeypatch.setattr(PaperObjective, "__call__", lambda self, gp: (np.nan, np.zeros(2), 1e9))
    with pytest.warns(DataWarning, match=r"^kernel step refused at iteration 1: .* kept parameters 1, 1\.732\.$"):
        settings = {"posterior": "augmented", "hyperparameters": "paper", "kernel": RBF(1.0)}
        model = quick(max_iter=2, tol=0.0, **settings).fit(bags, y)
    assert model.kernel_ == RBF(1.0, float(np.sqrt(3)))
