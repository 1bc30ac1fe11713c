"""log p(T), the gap of the bound below it, and what posteriors say beside the Gibbs oracle."""

from itertools import product

import numpy as np
import pytest

from oracle import (
    LatentModel,
    compare,
    draw_posterior,
    interval_coverage,
    model_of,
    quadrature_evidence,
    sampled_evidence,
    settle,
)
from problems import make
from psimil.foundations.errors import InputError
from small_models import SMALL, quadrature_moments, small_model


@pytest.mark.parametrize(("H", "bias"), SMALL)
@pytest.mark.parametrize("T", [(1, 0, 1), (0, 0, 0)])
def test_evidence_is_that_of_the_enumeration(H, bias, T):
    _, _, model = small_model(H, bias)
    log_p = quadrature_moments(model, np.array(T), H)[3]
    assert quadrature_evidence(model, np.array(T)).log_p == pytest.approx(log_p, abs=1e-9)
    rng = np.random.default_rng(6)
    draws = draw_posterior(model, np.array(T), rng, chains=50, burn_in=50, draws=40)
    sampled = sampled_evidence(model, np.array(T), draws, rng, samples=20_000)
    assert abs(sampled.log_p - log_p) < 4.5 * sampled.error < 0.05
    assert 2000 < sampled.effective_samples <= 20_000


def test_evidences_of_all_bag_labels_sum_to_one():
    for H in (2.0, np.inf):
        _, _, model = small_model(H, 1.5)
        total = sum(np.exp(quadrature_evidence(model, np.array(T)).log_p) for T in product((0, 1), repeat=3))
        assert total == pytest.approx(1.0, abs=1e-9)


def test_quadrature_refuses_large_grids():
    with pytest.raises(InputError, match="too many points"):
        quadrature_evidence(LatentModel(np.ones((1, 6)), np.array([0, 1])), np.array([1]))


@pytest.mark.parametrize(("H", "bias"), SMALL)
@pytest.mark.parametrize("rule", ["exact", "mean_field"])
def test_the_bound_lies_below_the_evidence(H, bias, rule):
    problem, gp = make(3, (2, 1, 3), M=1 if bias else 2, H=H, bias=bias, T=[1, 0, 1], residual="projected", rule=rule)
    log_p = quadrature_moments(model_of(problem, gp), np.array([1, 0, 1]), H)[3]
    bound = settle(problem, gp).bound.total
    assert log_p - 3 < bound < log_p


def test_variational_and_oracle_agree_where_labels_say_little():
    """With a prior variance near 0 both posteriors are nearly the prior, and the bound is nearly log p(T)."""
    problem, gp = make(4, (1, 2, 2), M=3, H=np.inf, T=[1, 0, 1], residual="projected", variance=0.01)
    rng = np.random.default_rng(0)
    table = compare(problem, gp, problem.X, problem.labels.offsets, rng, chains=60, draws=100)
    difference = (table["variational"] - table["oracle"]).abs()
    assert (difference < 4.5 * table["error"] + 2e-3).all()
    model = model_of(problem, gp)
    assert 0 < quadrature_evidence(model, problem.labels.T).log_p - settle(problem, gp).bound.total < 0.01


def test_oracle_columns_are_those_of_the_quadrature():
    problem, gp, model = small_model(np.inf, 1.5)
    T = problem.labels.T
    rng = np.random.default_rng(1)
    table = compare(problem, gp, problem.X, problem.labels.offsets, rng, chains=60, draws=150)
    mean, variance, positive, _ = quadrature_moments(model, T, np.inf)
    expected = {"latent mean": mean, "latent deviation": np.sqrt(variance), "label probability": positive}
    for name, values in expected.items():
        rows = table[table["quantity"] == name]
        assert rows["item"].tolist() == list(range(6))
        assert (np.abs(rows["oracle"] - values) < 4.5 * rows["error"] + 1e-9).all()
        np.testing.assert_allclose(rows["variational"], values, atol=1.0)
    record = settle(problem, gp)
    rows = table[table["quantity"] == "latent mean"]
    np.testing.assert_allclose(rows["variational"], record.local.mu, atol=1e-8)


def test_new_instances_of_the_full_residual_are_predicted_with_their_residual():
    """Far from everything f is the prior: mean 0, standard deviation of the kernel, for both."""
    problem, gp = make(5, (2, 2), M=2, residual="full", variance=2.25)
    table = compare(
        problem, gp, np.full((1, 2), 50.0), np.array([0, 1]), np.random.default_rng(0), chains=80, draws=100
    )
    row = table.set_index("quantity")
    assert row.loc["latent deviation", "variational"] == pytest.approx(1.5, abs=1e-6)
    assert row.loc["latent deviation", "oracle"] == pytest.approx(1.5, abs=0.05)
    assert abs(row.loc["latent mean", "oracle"]) < 4.5 * row.loc["latent mean", "error"]


@pytest.mark.slow
def test_the_oracle_covers_what_it_claims():
    problem, gp = make(1, (1, 3, 2, 2), M=3, H=np.inf, bias=2.0, residual="projected", variance=3.0)
    table = interval_coverage(problem, gp, np.random.default_rng(0), repeats=300, draws=800).set_index("level")
    assert (np.abs(table["oracle"] - table.index) < 4 * table["oracle_error"] + 0.01).all()
    assert (table["variational"] < table["oracle"]).all()


def test_a_fit_that_does_not_settle_is_an_error():
    with pytest.raises(InputError, match="did not settle"):
        settle(*make(0), most=3)
