"""Simulation-based ranks: uniform for the oracle, and not for samplers that are wrong."""

import numpy as np
import pytest

from oracle import (
    LatentModel,
    Ranks,
    draw_polya_gamma,
    mixed_sweep,
    model_of,
    simulated_ranks,
    slice_step,
    sweep,
)
from oracle.gibbs import draw_weights
from problems import make
from psimil.foundations.errors import InputError
from small_models import bags_of, sigmoid, small_model


def wrong_mixing(model, T, w, rng):
    """The mean 1/4 of PG(1, 0) in the place of PG(1, f)."""
    f = w @ model.W.T
    return draw_weights(model.W, np.full(f.shape, 0.25), model.draw_labels(f, T, rng), rng)


def wrong_centre(model, T, w, rng):
    """y in the place of y - 1/2."""
    f = w @ model.W.T
    return draw_weights(model.W, draw_polya_gamma(f, rng), model.draw_labels(f, T, rng) + 0.5, rng)


def no_bag_labels(model, T, w, rng):
    """Labels drawn without looking at T: the sampler returns the prior."""
    f = w @ model.W.T
    y = rng.random(f.shape) < sigmoid(f)
    return draw_weights(model.W, draw_polya_gamma(f, rng), y, rng)


def other_h(model, T, w, rng):
    """Noise-free bags in the place of H = 2."""
    return sweep(LatentModel(model.W, model.offsets, np.inf), T, w, rng)


RANKED = [("projected", 2.0, 5.0), ("projected", 2.0, np.inf), ("full", 0.0, 100.0), ("full", 1.0, np.inf)]


def ranked_model(residual, bias, H):
    return model_of(*make(1, (1, 3, 2), M=3, H=H, bias=bias, residual=residual, variance=3.0))


def check_ranks(case, repeats, draws, thin, seed, step=sweep):
    rng = np.random.default_rng(seed)
    ranks = simulated_ranks(ranked_model(*case), rng, repeats=repeats, draws=draws, thin=thin, step=step)
    assert ranks.repeats == repeats
    assert all(0 <= r.min() and r.max() <= draws for r in ranks.ranks.values())
    assert min(ranks.p_values(10).values()) > 1e-3
    assert max(ranks.ecdf_distances().values()) < ranks.ecdf_band(0.999)


@pytest.mark.parametrize("case", RANKED, ids=str)
def test_ranks_of_the_oracle_are_uniform(case):
    check_ranks(case, repeats=600, draws=19, thin=2, seed=1)


@pytest.mark.parametrize("step", [slice_step, mixed_sweep])
def test_ranks_of_slice_steps_are_uniform(step):
    for case in RANKED[:2]:
        check_ranks(case, repeats=400, draws=9, thin=1, seed=1, step=step)


def test_slice_steps_go_far_where_labels_say_little():
    """Large bags, all positive: the constant mean hardly moves in Gibbs sweeps, and freely in mixed ones."""
    model = model_of(*make(1, (30,) * 5, M=3, H=np.inf, bias=3.0, residual="projected", variance=3.0))
    rng, T, gone = np.random.default_rng(0), np.ones(5, dtype=int), {}
    for step in (sweep, mixed_sweep):
        w = start = np.tile([0.0, 0.0, 0.0, 1.0], (100, 1))
        for _ in range(3):
            w = step(model, T, w, rng)
        gone[step] = np.square(w - start)[:, -1].mean()
    assert gone[mixed_sweep] > 3 * gone[sweep]


@pytest.mark.slow
@pytest.mark.parametrize("case", RANKED, ids=str)
def test_ranks_of_the_oracle_are_uniform_in_many_repeats(case):
    check_ranks(case, repeats=5000, draws=19, thin=5, seed=2)


def test_ranks_are_uniform_without_thinning_too():
    """Three draws beside the truth, strongly dependent: exact all the same."""
    ranks = simulated_ranks(ranked_model("full", 1.0, np.inf), np.random.default_rng(3), repeats=1500, draws=3, thin=1)
    assert min(ranks.p_values(4).values()) > 1e-3


@pytest.mark.parametrize(
    "step",
    [
        wrong_mixing,
        pytest.param(wrong_centre, marks=pytest.mark.slow),
        no_bag_labels,
        pytest.param(other_h, marks=pytest.mark.slow),
    ],
)
def test_ranks_find_a_wrong_sampler(step):
    model = ranked_model("projected", 2.0, 2.0)
    ranks = simulated_ranks(model, np.random.default_rng(1), repeats=1500, draws=19, thin=3, step=step)
    assert min(ranks.p_values(10).values()) < 1e-5
    assert max(ranks.ecdf_distances().values()) > ranks.ecdf_band(0.99)


def test_only_statistics_of_the_data_find_a_sampler_that_ignores_them():
    model = ranked_model("projected", 2.0, 2.0)
    ranks = simulated_ranks(model, np.random.default_rng(1), repeats=1500, draws=19, thin=3, step=no_bag_labels)
    p = ranks.p_values(10)
    assert p["log-likelihood"] < 1e-5
    assert min(p["first latent"], p["squared norm"]) > 1e-3


def test_ranks_refuse_bins_that_do_not_divide():
    with pytest.raises(InputError, match="do not divide evenly"):
        Ranks({"a": np.zeros(4, dtype=int)}, draws=19).p_values(bins=7)
    with pytest.raises(InputError, match="at least one"):
        simulated_ranks(ranked_model(*RANKED[0]), np.random.default_rng(0), repeats=0)


def geweke(step, sweeps, chains, seed):
    """I25: z-scores of ten moments, direct simulation against alternating w | T and T | w, from stationary starts."""
    _, _, model = small_model(2.0, 1.5)
    rng = np.random.default_rng(seed)

    def moments(w, T):
        f = w @ model.W.T
        return np.column_stack([f[:, 0], f[:, 3], f[:, 0] ** 2, f[:, 0] * f[:, 3], np.abs(f).max(1), w[:, 1],
                                T[:, 0], T[:, 1], T[:, 2] * f[:, 4], T.mean(1) * f.mean(1)])  # fmt: skip

    def labels(w):
        y = rng.random((len(w), len(model.W))) < sigmoid(w @ model.W.T)
        largest = np.stack([y[:, a:b].max(axis=1) for a, b in bags_of(model)], axis=1)
        return np.where(rng.random(largest.shape) < 2 / 3, largest, ~largest).astype(int)

    direct = rng.normal(size=(100_000, model.W.shape[1]))
    expected = moments(direct, labels(direct))
    w = rng.normal(size=(chains, model.W.shape[1]))
    total = np.zeros((chains, 10))
    for _ in range(sweeps):
        T = labels(w)
        for _ in range(4):
            w = step(model, T, w, rng)
        total += moments(w, T) / sweeps  # the T that w was drawn given, or a sampler blind to T would pass
    error = np.hypot(total.std(0, ddof=1) / np.sqrt(chains), expected.std(0) / np.sqrt(len(expected)))
    return (total.mean(0) - expected.mean(0)) / error


@pytest.mark.slow
def test_geweke_getting_it_right():
    """I25: ten moments, 1e5 draws, |z| < 4."""
    assert np.abs(geweke(sweep, 100, 1000, 0)).max() < 4
    assert np.abs(geweke(slice_step, 100, 1000, 0)).max() < 4


@pytest.mark.slow
@pytest.mark.parametrize("step", [wrong_mixing, wrong_centre, no_bag_labels, other_h])
def test_geweke_finds_a_wrong_sampler(step):
    assert np.abs(geweke(step, 100, 1000, 0)).max() > 6
