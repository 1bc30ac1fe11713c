"""Figures of experiments: what is drawn is what the table says, and every text lies inside the figure."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.patches import Rectangle

from psimil import VGPMIL
from psimil.figures import (
    digits_table,
    new_figure,
    plot_digits,
    plot_referral,
    plot_strip,
    referral_table,
    save_figure,
    strip_table,
)
from psimil.figures.canvas import RED
from psimil.foundations.errors import InputError
from psimil.paper.experiments.figures import bars_table, plot_bars, plot_time_auc, time_auc_table
from psimil.results.referral_curve import referral_curve


@pytest.fixture(autouse=True)
def no_screen():
    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def predicted():
    """A prediction of 12 bags with 5 or 8 instances of which one to three are positive in every second bag."""
    rng = np.random.default_rng(0)
    sizes = [5 + 3 * (b % 2) for b in range(12)]
    truth = [np.isin(np.arange(n), range(2, 3 + b % 3)).astype(int) * (b % 2) for b, n in enumerate(sizes)]
    bags = [rng.normal(size=(len(t), 2)) + 3.0 * t[:, None] for t in truth]
    y = np.array([int(t.any()) for t in truth])
    return VGPMIL(n_inducing=10, random_state=0).fit(bags, y).predict_dist(bags), truth


def rows(experiments=("MUSK1",)):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        [
            {"experiment": e, "protocol": "5 splits", "measured_on": "held-out bags", "model": model, "preset": "",
             "split": s, "n_inducing": m, "seconds": m / 50 + rng.random(), "bag_auc": 0.9 + 0.05 * rng.random(),
             "bag_accuracy": 0.8 + 0.05 * rng.random(), "bag_f1": 0.7 + 0.05 * rng.random(), "instance_auc": np.nan}
            for e in experiments for model in ("VGPMIL", "G-VGPMIL") for m in (50, 200) for s in range(3)
        ]
    )  # fmt: skip


def curves():
    rng = np.random.default_rng(2)
    found = {}
    for model in ("VGPMIL", "G-VGPMIL", "SVM"):
        y, prob = rng.integers(0, 2, 30), rng.random(30)
        found[model] = referral_curve(y, prob, prob * (1 - prob))
    return found


def drawings(predicted):
    prediction, truth = predicted
    images = [np.random.default_rng(3).random((len(truth[b]), 7, 7)) for b in (1, 2)]
    small = rows().query("n_inducing == 50")
    return {
        "time_auc": lambda ax: plot_time_auc(rows(), ax=ax),
        "bars": lambda ax: plot_bars(small, ax=ax),
        "digits": lambda ax: plot_digits(images, prediction, [1, 2], truth[1:3], ax=ax),
        "strip": lambda ax: plot_strip(prediction, 1, truth[1], ax=ax),
        "referral": lambda ax: plot_referral(curves(), ax=ax),
    }


def texts_outside(ax):
    """Texts that reach out of the figure as it is drawn."""
    figure = ax.figure
    figure.draw_without_rendering()
    box = figure.bbox.padded(1)
    texts = [*ax.texts, ax.title, *(ax.get_legend().get_texts() if ax.get_legend() else [])]
    extents = [(text.get_text(), text.get_window_extent()) for text in texts]
    if ax.axison:
        extents += [(axis.get_label_text(), axis.get_tightbbox()) for axis in (ax.xaxis, ax.yaxis)]  # with tick labels
    return [text for text, e in extents if e.x0 < box.x0 or e.y0 < box.y0 or e.x1 > box.x1 or e.y1 > box.y1]


@pytest.mark.parametrize("name", ["time_auc", "bars", "digits", "strip", "referral"])
def test_every_figure(predicted, name):
    draw = drawings(predicted)[name]
    ax = new_figure()
    assert draw(ax) is ax
    assert pyplot.get_fignums() == []
    own = draw(None)
    assert own is not ax and len(pyplot.get_fignums()) == 1
    assert ax.get_title()
    assert texts_outside(ax) == [] and texts_outside(own) == []


def test_pictures_are_saved_with_their_table(predicted, tmp_path):
    prediction, truth = predicted
    table = strip_table(prediction, 1, truth[1])
    ax = plot_strip(prediction, 1, truth[1], np.random.default_rng(3).random((8, 7, 7)), ax=new_figure())
    save_figure(ax, tmp_path / "strip.png", table)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["strip.csv", "strip.pdf", "strip.png"]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "strip.csv", keep_default_na=False), table, check_dtype=False)


def test_time_against_auc():
    table = time_auc_table(rows())
    picked = rows().query("model == 'G-VGPMIL' and n_inducing == 200")
    last = table.iloc[-1]
    assert (last["model"], last["n_inducing"], last["n"]) == ("G-VGPMIL", 200, 3)
    assert last["seconds_mean"] == pytest.approx(picked["seconds"].mean())
    assert last["bag_auc_sd"] == pytest.approx(picked["bag_auc"].std())
    ax = plot_time_auc(rows(), ax=new_figure())
    assert ax.get_xscale() == "log"
    assert sorted(text.get_text() for text in ax.texts) == ["$M=200$", "$M=200$", "$M=50$", "$M=50$"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["VGPMIL", "G-VGPMIL"]
    drawn = np.concatenate([container[0].get_xydata() for container in ax.containers])
    np.testing.assert_allclose(drawn, table[["seconds_mean", "bag_auc_mean"]])


def test_models_without_a_training_time_are_refused():
    with pytest.raises(InputError, match="no training time"):
        time_auc_table(rows().assign(seconds=0.0))


def test_bars_have_the_heights_of_the_table():
    some = rows().query("n_inducing == 50")
    table = bars_table(some)
    assert table["metric"].unique().tolist() == ["bag_accuracy", "bag_f1", "bag_auc"]  # no empty instance_auc
    assert table["mean"].iloc[2] == pytest.approx(some.query("model == 'VGPMIL'")["bag_auc"].mean())
    ax = plot_bars(some, ax=new_figure())
    assert [bar.get_y() + bar.get_height() for bar in ax.patches] == pytest.approx(table["mean"].tolist())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["VGPMIL", "G-VGPMIL"]
    assert ax.get_ylim()[0] < (table["mean"] - table["sd"]).min()


def test_bad_bars():
    with pytest.raises(InputError, match="no metric"):
        bars_table(rows()[["model"]])
    with pytest.raises(InputError, match="mixes rows of experiment"):
        bars_table(rows(("MUSK1", "MUSK2")))


def framed(ax):
    frames = [p for p in ax.patches if isinstance(p, Rectangle) and not p.get_fill()]
    assert {mpl.colors.to_hex(p.get_edgecolor()).upper() for p in frames} <= {RED}
    return [(p.get_x() + p.get_width() / 2, p.get_y() + p.get_height() / 2) for p in frames]


def test_digits_say_what_the_model_says(predicted):
    prediction, truth = predicted
    images = [np.arange(len(truth[b]) * 4.0).reshape(-1, 2, 2) for b in (1, 5)]
    ax = plot_digits(images, prediction, [1, 5], [truth[1], truth[5]], ax=new_figure())
    starts = prediction.offsets[[1, 5]]
    at = np.concatenate([np.arange(s, s + 8) for s in starts])
    prob, std = prediction.instance_prob[at], prediction.instance_std[at]
    lines = [text.get_text().split("\n") for text in ax.texts if not text.get_text().startswith("Bag")]
    assert [float(line[0]) for line in lines] == pytest.approx(prob.tolist(), abs=6e-4)
    assert [float(line[1].strip("± ")) for line in lines] == pytest.approx(std.tolist(), abs=6e-4)
    assert [len(line) == 3 for line in lines] == (prob >= prediction.instance_threshold).tolist()
    titles = [text.get_text() for text in ax.texts if text.get_text().startswith("Bag")]
    why = [f"; to refer: {prediction.reason[b]}" if prediction.refer[b] else "" for b in (1, 5)]
    numbers = [f"Bag {b}: probability {prediction.prob[b]:.3f} ± {prediction.std[b]:.3f}" for b in (1, 5)]
    assert titles == [number + reason for number, reason in zip(numbers, why, strict=True)]
    np.testing.assert_array_equal([image.get_array() for image in ax.images], np.concatenate(images))
    extents = [image.get_extent() for image in ax.images]
    centres = [((left + right) / 2, (bottom + top) / 2) for left, right, bottom, top in extents]
    positive = np.flatnonzero(np.concatenate([truth[1], truth[5]]))
    assert framed(ax) == [pytest.approx(centres[n]) for n in positive] and len(positive)


def test_a_bag_may_be_shown_twice_and_bad_images(predicted):
    prediction, truth = predicted
    images = np.zeros((2, 8, 3, 3))
    assert len(plot_digits(images, prediction, [1, 1], ax=new_figure()).images) == 16
    for wrong in (np.zeros((2, 7, 3, 3)), np.zeros((1, 8, 3, 3)), np.zeros((2, 8, 3))):
        with pytest.raises(InputError, match="images have shapes"):
            plot_digits(wrong, prediction, [1, 3], ax=new_figure())
    with pytest.raises(InputError, match="2 bags but truth for 1"):
        digits_table(prediction, [1, 3], truth[:1])
    with pytest.raises(InputError, match="at least one"):
        digits_table(prediction, [])


@pytest.mark.parametrize("images", [None, np.random.default_rng(0).random((8, 6, 6)), np.full((8, 6, 6, 3), 0.5)])
def test_strip(predicted, images):
    prediction, truth = predicted
    ax = plot_strip(prediction, 5, truth[5], images, ax=new_figure(8, 4))
    at = slice(prediction.offsets[5], prediction.offsets[6])
    prob, std = prediction.instance_prob[at], prediction.instance_std[at]
    pairs = list(zip(prob, std, strict=True))
    curve = next(line for line in ax.lines if line.get_label() == "probability")
    np.testing.assert_array_equal(curve.get_ydata(), prob)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [f"{p:.2f} ± {s:.2f}" for p, s in pairs]
    bold = [tick.get_fontweight() == "bold" for tick in ax.get_xticklabels()]
    assert bold == (prob >= prediction.instance_threshold).tolist()
    band = ax.containers[0]
    assert [bar.get_y() for bar in band] == pytest.approx(np.maximum(prob - std, 0).tolist())
    assert [bar.get_y() + bar.get_height() for bar in band] == pytest.approx(np.minimum(prob + std, 1).tolist())
    assert [x for x, _ in framed(ax)] == pytest.approx(np.flatnonzero(truth[5]).tolist())
    assert prediction.instance_threshold in [line.get_ydata()[0] for line in ax.lines]
    assert [text.get_text() for text in ax.texts] == [str(n) for n in range(1, 9)]
    assert texts_outside(ax) == []
    left, right, bottom, top = ax.images[0].get_extent()
    (x0, y0), (x1, y1) = ax.transData.transform([(left, bottom), (right, top)])
    assert (x1 - x0) / (y1 - y0) == pytest.approx(1.0, rel=0.1)  # slices are square
    shown = prob if images is None else images
    np.testing.assert_array_equal([np.squeeze(image.get_array()) for image in ax.images], shown)


def test_strip_refuses_wrong_images(predicted):
    for wrong in (np.zeros((7, 3, 3)), np.zeros((8, 3))):
        with pytest.raises(InputError, match="images have shape"):
            plot_strip(predicted[0], 1, images=wrong, ax=new_figure())


def test_referral_starts_from_the_base_error():
    table = referral_table(curves())
    ax = plot_referral(curves(), ax=new_figure())
    for k, (model, curve) in enumerate(curves().items()):
        base, line = ax.lines[2 * k], ax.lines[2 * k + 1]
        np.testing.assert_array_equal(line.get_xydata(), curve[["fraction_kept", "error"]])
        assert base.get_ydata()[0] == curve["error"].iloc[-1] == table.query("model == @model")["base_error"].iloc[0]
        assert model in line.get_label() and f"{curve['error'].iloc[-1]:.3f}" in line.get_label()
    with pytest.raises(InputError, match="Add the fraction 1"):
        plot_referral({"SVM": referral_curve([0, 1], [0.1, 0.2], [0, 1], fractions=[0.5])}, ax=new_figure())
    with pytest.raises(InputError, match="no curve"):
        referral_table({})


def test_one_fit_has_a_time_axis_without_warnings():
    rows = pd.DataFrame({"model": "VGPMIL", "n_inducing": 50, "seconds": [2.0], "bag_auc": [0.9]})
    ax = plot_time_auc(rows, ax=new_figure())
    ax.get_figure().canvas.draw()
    assert ax.get_xlim() == (1.0, 4.0)
