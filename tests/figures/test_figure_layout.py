"""Figures pass in a paper: bars end where scores end, nothing is cut, covered or too small, on awkward inputs, too."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from artists import check, error_ends, overlaps, texts
from psimil import VGPMIL
from psimil.figures import (
    heat_table,
    new_figure,
    plot_bag,
    plot_digits,
    plot_heat,
    plot_history,
    plot_referral,
    plot_reliability,
    plot_strip,
    plot_theta,
    reliability_table,
)
from psimil.figures.canvas import COLOURS, LINES
from psimil.figures.lettering import noted, typeset
from psimil.paper.experiments.figures import bars_table, plot_bars, plot_time_auc, time_auc_table
from psimil.results.referral_curve import referral_curve

LONG = "2.25." + "3349358869668932" * 4
SIZES = (1, 8, 60, 300, 5, 5, 5)
WORDS = "a model whose name says at length what it does and on which statistics of the bags it was trained"


@pytest.fixture(autouse=True)
def no_screen():
    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def predicted():
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(n, 2)) + 2.0 * (b % 2) for b, n in enumerate(SIZES)]
    prediction = VGPMIL(n_inducing=8, random_state=0).fit(bags, np.arange(len(SIZES)) % 2).predict_dist(bags)
    return replace(prediction, ids=np.array([f"{LONG}.{b}" for b in range(len(SIZES))]))


def runs(scores, models=("VGPMIL", "G-VGPMIL"), sizes=(50, 200)):
    seconds = np.random.default_rng(1).uniform(0.5, 30.0, (len(models), len(sizes), len(scores)))
    return pd.DataFrame(
        [
            {"model": model, "n_inducing": m, "seconds": seconds[i, j, k], "bag_auc": s, "bag_f1": s}
            for i, model in enumerate(models) for j, m in enumerate(sizes) for k, s in enumerate(scores)
        ]
    )  # fmt: skip


NEARLY = [1.0, 1.0, 1.0, 0.8, 0.99]
SCORES = {"perfect": [1.0] * 5, "nearly": NEARLY, "worst": [0.0, 0.0, 0.3], "one": [0.9]}
MANY = [f"{WORDS} {k}" for k in range(9)]


@pytest.mark.parametrize(
    ("scores", "models"),
    [
        *(
            pytest.param(SCORES[n], ["VGPMIL", "G-VGPMIL"], id=f"{n}-two", marks=[pytest.mark.slow] * (n == "perfect"))
            for n in SCORES
        ),
        pytest.param(SCORES["one"], MANY, id="one-many"),
        *(
            pytest.param(SCORES[n], MANY, id=f"{n}-many", marks=pytest.mark.slow)
            for n in ("nearly", "perfect", "worst")
        ),
    ],
)
def test_no_error_bar_is_an_impossible_score(scores, models):
    rows = runs(scores, models)
    for ax in (
        plot_bars(rows.query("n_inducing == 50"), ax=new_figure(9.0, 4.5 if len(models) < 9 else 7.0)),
        plot_time_auc(rows, ax=new_figure(7.0, 4.5 if len(models) < 9 else 7.0)),
    ):
        ends = error_ends(ax)
        assert ends[:, 1].min() >= 0.0 and ends[:, 1].max() <= 1.0 and ends[:, 0].min() > -1.0
        check(ax)


def test_the_tables_say_where_the_bars_end():
    rows = runs(NEARLY)
    bars, timed = bars_table(rows.query("n_inducing == 50")), time_auc_table(rows)
    score = bars[bars["metric"] == "bag_auc"].iloc[0]
    assert score["mean"] + score["sd"] > 1.0 and score["upper"] == 1.0
    assert score["lower"] == pytest.approx(score["mean"] - score["sd"])
    assert timed["bag_auc_upper"].tolist() == [1.0] * 4
    first = rows.query("model == 'VGPMIL' and n_inducing == 50")["seconds"]
    assert timed[["seconds_fastest", "seconds_slowest"]].iloc[0].tolist() == [first.min(), first.max()]
    drawn = error_ends(plot_bars(rows.query("n_inducing == 50"), ax=new_figure()))[:, 1]
    written = bars.loc[bars["metric"] == "bag_auc", ["lower", "upper"]].to_numpy()
    assert np.unique(drawn) == pytest.approx(np.unique(written))


def test_bars_start_at_nothing():
    ax = plot_bars(runs([0.9, 0.95]).query("n_inducing == 50"), ax=new_figure())
    assert ax.get_ylim()[0] == 0.0 and {bar.get_y() for bar in ax.patches} == {0.0}


KINDS = ("bag", "strip", "own strip", "digits", "own digits")
SHOWN = [(b, kind) for b in (0, 1, 2) for kind in KINDS] + [(3, "bag"), (3, "strip")]
BETWEEN = [(1, kind) for kind in KINDS] + [(2, "strip"), (2, "own digits"), (3, "bag")]  # smaller and larger ones stay


@pytest.mark.parametrize(
    ("bag", "kind"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case in BETWEEN)) for case in SHOWN],
    ids=lambda v: v if isinstance(v, str) else f"{SIZES[v]} instances",
)
def test_bags_of_any_size_and_with_long_names(predicted, bag, kind):
    n = SIZES[bag]
    truth, images = np.arange(n) % 4 == 0, np.random.default_rng(2).random((n, 4, 4))
    ax = {
        "bag": lambda: plot_bag(predicted, bag, truth.astype(int), ax=new_figure()),
        "strip": lambda: plot_strip(predicted, bag, truth.astype(int), ax=new_figure(10.0, 4.5)),
        "own strip": lambda: plot_strip(predicted, bag, truth.astype(int), images),
        "digits": lambda: plot_digits([images], predicted, [bag], [truth.astype(int)], ax=new_figure()),
        "own digits": lambda: plot_digits([images, images], predicted, [bag, bag]),
    }[kind]()
    check(ax)
    assert (error_ends(ax)[:, 1] >= 0.0).all() and (error_ends(ax)[:, 1] <= 1.0).all()


@pytest.mark.parametrize("bag", [0, 1, 3])
def test_sheets_of_heat_maps_show_called_slices_alone(predicted, bag):
    rows = predicted.instances_of(bag)
    called = np.flatnonzero(predicted.instance_label[rows])
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (rows.stop - rows.start, 6, 6)).astype(np.uint8)
    heat = rng.integers(1, 256, images.shape).astype(np.uint8)
    ax = plot_heat(predicted, bag, images, heat, edges="left edge R, right edge L")
    check(ax)
    shown = heat_table(predicted, bag)["instance"].to_numpy()
    assert set(shown) <= set(called) and len(shown) == min(len(called), 12)
    if len(called):
        prob = predicted.instance_prob[rows]
        assert prob[shown].min() >= np.sort(prob[called])[-len(shown)] and (np.diff(shown) > 0).all()
    pictures = [image.get_array() for image in ax.images]
    for place, number in enumerate(shown):
        np.testing.assert_array_equal(pictures[2 * place], images[number])
        np.testing.assert_allclose(pictures[2 * place + 1][..., 3], heat[number] / 255 * 0.65)
    some = f"{len(shown)} most probable of {len(called)} slices" in ax.get_title().replace("\n", " ")
    assert some == (len(called) > len(shown))
    assert len(pictures) == 2 * len(shown) and "outlines no lesion" in ax.get_xlabel().replace("\n", " ")


def test_the_disclaimer_has_a_line_of_its_own(predicted):
    ax = plot_strip(predicted, 1, None, np.zeros((8, 4, 4)))
    noted(ax, "Research use only, not a medical device.")
    check(ax)
    boxes = {name[1]: box for name, (_, box) in texts(ax).items()}
    lowest = min(box.y0 for name, box in boxes.items() if not name.startswith("Research"))
    assert boxes["Research use only, not a medical device."].y1 <= lowest + 1.5


def test_overlaps_are_seen():
    ax = new_figure()
    ax.text(0.5, 0.5, "one text")
    ax.text(0.51, 0.5, "another")
    assert overlaps(ax) == [("one text", "another")]


def referrals():
    rng = np.random.default_rng(3)
    perfect = referral_curve([0, 1, 1, 0], [0.1, 0.9, 0.8, 0.3], [0.0, 0.1, 0.4, 0.3])
    worst = referral_curve([1, 1, 0], [0.1, 0.2, 0.9], [0.0, 0.1, 0.4])
    y, prob = rng.integers(0, 2, 40), rng.random(40)
    return {
        "perfect": {"a": perfect},
        "worst": {"b": worst},
        "many": {name: referral_curve(y, prob, prob) for name in MANY},
    }


@pytest.mark.parametrize("name", ["perfect", "worst", "many"])
def test_referral(name):
    check(plot_referral(referrals()[name], ax=new_figure(6.0, 4.0 if name != "many" else 7.0)))


def test_curves():
    check(plot_theta(ax=new_figure()))
    rows = [{"stage": s, "iteration": i, "elbo": -1e6 / i} for s in ("kernel", "fit", "loo") for i in range(1, 40)]
    check(plot_history(rows, ax=new_figure()))
    check(plot_history(rows[:1], ax=new_figure()))


def test_curves_differ_in_more_than_colour():
    styles = {(c, LINES[k % len(LINES)]) for k, c in enumerate(COLOURS * 4)}
    assert len(styles) == 28
    assert len({line.get_linestyle() for line in plot_theta(ax=new_figure()).lines[1:]}) == 4


def test_letters_are_typeset():
    assert typeset("Student, nu=4") == r"Student, $\nu=4$"
    assert typeset("costs 5$") == r"costs 5\$"
    assert typeset("alphabet") == "alphabet"
    assert plot_theta(ax=new_figure()).get_ylabel() == r"$\theta(c)$"


@pytest.mark.parametrize(("bins", "n"), [(1, 1), (10, 1), (10, 2000), (30, 7), (200, 2000)])
def test_reliability_has_confidence_bars(bins, n):
    rng = np.random.default_rng(4)
    prob = np.append(rng.beta(0.4, 0.4, n - 1), 1.0)
    y = (rng.random(n) < prob).astype(int)
    table = reliability_table(y, prob, bins)
    assert (table["lower"] <= table["positives"]).all() and (table["positives"] <= table["upper"]).all()
    assert table["lower"].min() >= 0.0 and table["upper"].max() <= 1.0 and (table["upper"] > table["lower"]).all()
    ax = plot_reliability(y, prob, bins, ax=new_figure())
    check(ax)
    ends = np.unique(error_ends(ax)[:, 1])
    assert np.allclose(np.unique(table[["lower", "upper"]]), ends)


def test_intervals_are_wilsons():
    table = reliability_table([0] * 7 + [1] * 3, [0.35] * 10)
    assert table[["lower", "upper"]].iloc[0].tolist() == pytest.approx([0.1077913, 0.6032219], abs=1e-6)
    none = reliability_table([0] * 10, [0.35] * 10).iloc[0]
    assert none["lower"] == 0.0 and none["upper"] == pytest.approx(0.2775328, abs=1e-6)


def test_a_bag_that_was_predicted_twice_counts_once():
    once = reliability_table([0, 1, 1], [0.4, 0.45, 0.41])
    twice = reliability_table([0, 1, 1] * 2, [0.4, 0.45, 0.41] * 2, repeats=2)
    assert twice["count"].tolist() == [6]
    assert twice[["lower", "upper"]].to_numpy() == pytest.approx(once[["lower", "upper"]].to_numpy())
