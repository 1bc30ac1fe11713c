"""Figures, the oracle, the contract and the cluster as Python users meet them: wrong calls are told in one line."""

import numpy as np
import pandas as pd
import pytest

import oracle
from oracle import (
    LatentModel,
    draw_polya_gamma,
    draw_posterior,
    model_of,
    quadrature_evidence,
    sampled_evidence,
    simulate,
    simulated_ranks,
)
from psimil import VGPMIL
from psimil.figures import (
    history_table,
    new_figure,
    plot_history,
    plot_referral,
    plot_theta,
    referral_table,
    save_figure,
    theta_table,
)
from psimil.foundations.errors import InputError
from psimil.testing import check_mil_estimator, mil_checks

OTHER = pd.DataFrame({"a": [1.0]})
MODEL = LatentModel(np.ones((2, 1)), np.array([0, 2]))
RNG = np.random.default_rng(0)
HISTORY = [{"stage": "fit", "iteration": 1, "elbo": -9.5}]

FIGURES = {
    "referral of a frame": (lambda: plot_referral(OTHER), "curves must be tables by model, got DataFrame."),
    "referral of other columns": (lambda: plot_referral({"a": OTHER}), "the table has no column fraction_kept, error."),
    "referral of lists": (
        lambda: referral_table({"a": [1]}),
        "the table must be that of psimil.results.referral_curve",
    ),
    "history of nothing": (lambda: plot_history(None), "history must be the history_ of an estimator, one mapping per"),
    "history of an estimator": (lambda: history_table(VGPMIL()), "history must be the history_ of an estimator"),
    "history of numbers": (lambda: history_table([1.0]), "history must be the history_ of an estimator"),
    "history of other keys": (lambda: plot_history([{"a": 1}]), "the table has no column stage, elbo."),
    "theta of a density": (lambda: plot_theta(VGPMIL()), "densities must be densities by name, got VGPMIL."),
    "theta of text": (lambda: theta_table({"a": "b"}), "densities must be densities by name, got dict."),
    "theta of none": (lambda: theta_table({}), "densities must be densities by name, got dict."),
    "theta up to 0": (lambda: theta_table(largest=0), "largest must be a number > 0, got 0."),
    "theta up to text": (lambda: theta_table(largest="a"), "largest must be a number > 0, got 'a'."),
    "a figure of text": (lambda: new_figure("a"), "width must be a number of inches > 0, got 'a'."),
    "a figure of no height": (lambda: new_figure(6, 0), "height must be a number of inches > 0, got 0."),
    "axes by name": (lambda: plot_history(HISTORY, ax="a"), "ax must be matplotlib Axes or None, got str."),
    "saved nowhere": (
        lambda: save_figure(new_figure(), None, OTHER),
        "path must be a path (str or pathlib.Path), got None",
    ),
    "saved without axes": (lambda: save_figure(None, "a.png", OTHER), "ax must be matplotlib Axes, got NoneType."),
}
ORACLE = {
    "a model of nothing": (lambda: LatentModel(None, None), "W must be an array of numbers (N, J), got NoneType."),
    "a flat W": (
        lambda: LatentModel(np.ones(2), np.array([0, 2])),
        "W must be an array of numbers (N, J), got float64 (2,)",
    ),
    "offsets as a list": (
        lambda: LatentModel(np.ones((2, 1)), [0, 2]),
        "offsets must be an array of whole numbers (B + 1,)",
    ),
    "offsets too short": (
        lambda: LatentModel(np.ones((2, 1)), np.array([0, 1])),
        "offsets must rise from 0 to the number of instances, 2, got [0, 1].",
    ),
    "H as text": (
        lambda: LatentModel(np.ones((2, 1)), np.array([0, 2]), "a"),
        "log_H must be a number or inf, got 'a'.",
    ),
    "labels of 2": (lambda: draw_posterior(MODEL, [2], RNG), "T must hold 0 or 1 for each of 1 bags, got 2."),
    "labels too many": (
        lambda: draw_posterior(MODEL, [0, 2], RNG),
        "T must hold 0 or 1 for each of 1 bags, got int64 (2,).",
    ),
    "no labels": (lambda: quadrature_evidence(MODEL, None), "T must hold 0 or 1 for each of 1 bags, got object ()."),
    "no points": (lambda: quadrature_evidence(MODEL, [1], order=0), "order must be a whole number >= 2, got 0."),
    "half a point": (lambda: quadrature_evidence(MODEL, [1], order=2.5), "order must be a whole number >= 2, got 2.5."),
    "seed to draw": (lambda: draw_posterior(MODEL, [1], 0), "rng must be a numpy Generator, got int."),
    "seed to simulate": (lambda: simulate(MODEL, 3, 0), "rng must be a numpy Generator, got int."),
    "seed to rank": (lambda: simulated_ranks(MODEL, 0), "rng must be a numpy Generator, got int."),
    "seed to sample": (
        lambda: sampled_evidence(MODEL, [1], np.zeros((3, 1)), None),
        "rng must be a numpy Generator, got NoneType.",
    ),
    "seed to Polya": (lambda: draw_polya_gamma(np.zeros(2), 0), "rng must be a numpy Generator, got int."),
    "half a chain": (
        lambda: draw_posterior(MODEL, [1], RNG, chains=0.5),
        "chains must be a whole number >= 0, got 0.5.",
    ),
    "draws of none": (lambda: simulate(MODEL, 0, RNG), "count must be a whole number >= 1, got 0."),
    "model of nothing": (
        lambda: model_of(None, None),
        "oracle (problem, gp): they must be a Shard and a SparseGP, got None",
    ),
}
CONTRACT = {
    "nothing": (
        lambda: check_mil_estimator(None),
        "estimator must be an unfitted scikit-learn classifier of bags, got NoneT",
    ),
    "a class": (
        lambda: check_mil_estimator(VGPMIL),
        "estimator is the class VGPMIL; give an instance, e.g. VGPMIL(random_state=0).",
    ),
    "checks of a class": (lambda: mil_checks(VGPMIL), "estimator is the class VGPMIL; give an instance"),
    "text": (
        lambda: mil_checks("VGPMIL"),
        "estimator must be an unfitted scikit-learn classifier of bags, got str; give an",
    ),
}
WRONG = FIGURES | ORACLE | CONTRACT


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told_in_one_line(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    call, start = WRONG[name]
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_figure_opens_no_window():
    """Arguments are checked before pyplot makes a figure that nobody would close."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    for call in (
        lambda: plot_history(None),
        lambda: plot_theta({}),
        lambda: plot_referral({}),
    ):
        with pytest.raises(InputError):
            call()
    assert pyplot.get_fignums() == before


@pytest.mark.parametrize("address", [None, "", "  ", 8786, ["tcp://127.0.0.1:8786"]])
def test_a_cluster_needs_an_address(address):
    """Without one Dask would start a cluster of its own."""
    from psimil.cluster import connect

    with pytest.raises(InputError, match=r"^address must be that of a Dask scheduler, got "):
        connect(address)


def test_no_name_of_the_oracle_hides_a_module():
    modules = {name for name, value in vars(oracle).items() if type(value).__name__ == "module"}
    assert "latent_model" in modules
    assert not modules & set(oracle.__all__)


def test_labels_of_a_right_shape_are_taken_as_they_are():
    assert MODEL.check_labels([True]).tolist() == [True]
    assert MODEL.check_labels(np.ones((3, 1))).shape == (3, 1)
