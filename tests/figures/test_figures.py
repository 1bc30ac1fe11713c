"""Figures: drawn from the table that is written beside them, on the axes that were given."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from psimil import VGPMIL, HyperbolicSecant, StudentT
from psimil.datasets import make_bags
from psimil.figures import (
    bag_table,
    history_table,
    new_figure,
    plot_bag,
    plot_history,
    plot_reliability,
    plot_theta,
    reliability_table,
    save_figure,
    theta_table,
)
from psimil.figures.canvas import BLACK, RED
from psimil.foundations.errors import InputError, OutputError


@pytest.fixture(autouse=True)
def no_screen():
    mpl.use("Agg")
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    bags, y, y_instances = make_bags(n_bags=20, bag_size=(3, 6), seed=0)
    clf = VGPMIL(n_inducing=10, random_state=0).fit(bags, y)
    return clf, bags, y, y_instances, clf.predict_dist(bags)


def drawings(fitted):
    clf, _, y, _, prediction = fitted
    return {
        "theta": (lambda ax: plot_theta(ax=ax), theta_table()),
        "history": (lambda ax: plot_history(clf.history_, ax=ax), history_table(clf.history_)),
        "bag": (lambda ax: plot_bag(prediction, 0, ax=ax), bag_table(prediction, 0)),
        "reliability": (lambda ax: plot_reliability(y, prediction.prob, ax=ax), reliability_table(y, prediction.prob)),
    }


@pytest.mark.parametrize("name", ["theta", "history", "bag", "reliability"])
def test_every_figure(fitted, tmp_path, name):
    draw, table = drawings(fitted)[name]
    ax = new_figure()
    assert draw(ax) is ax
    assert pyplot.get_fignums() == []
    assert draw(None) is not ax
    assert len(pyplot.get_fignums()) == 1
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_title() and ax.get_legend()
    save_figure(ax, tmp_path / f"{name}.png", table)
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / f"{name}.csv"), table.reset_index(drop=True), check_dtype=False
    )


def test_theta_is_the_papers_figure():
    lines = plot_theta(ax=new_figure()).lines
    greek = [rf"Gamma, $\alpha=1$, $\beta={b}$" for b in (1, 2, 4, 8)]
    assert [line.get_label() for line in lines] == ["PG", *greek]
    assert theta_table().columns.tolist()[2] == "Gamma, alpha=1, beta=1"  # no mathematics in files
    assert [line.get_color() for line in lines].count(BLACK) == 1 and lines[0].get_color() == BLACK
    for line, at_zero in zip(lines, (1 / 4, 1, 1 / 2, 1 / 4, 1 / 8), strict=True):
        assert line.get_ydata()[0] == pytest.approx(at_zero)
    c, theta = lines[2].get_xdata(), lines[2].get_ydata()
    np.testing.assert_allclose(theta, 1 / (2 + c**2 / 2))


def test_theta_of_own_densities():
    ax = plot_theta({"a": StudentT(3.0), "b": HyperbolicSecant()}, ax=new_figure())
    assert ax.lines[0].get_color() != BLACK and ax.lines[1].get_color() == BLACK


def test_history_has_one_curve_per_stage():
    rows = [{"stage": s, "iteration": i, "elbo": float(i)} for s in ("kernel", "fit") for i in (1, 2)]
    ax = plot_history(rows, ax=new_figure())
    assert [line.get_xdata().tolist() for line in ax.lines] == [[1, 2], [3, 4]]
    rows[0]["context"], rows[1]["context"] = "none", "bag"
    ax = plot_history(rows, ax=new_figure())
    assert [line.get_xdata().tolist() for line in ax.lines] == [[1], [2], [3, 4]]
    assert [line.get_label() for line in ax.lines[:2]] == [
        "kernel learned without context",
        "kernel learned in context",
    ]
    with pytest.raises(InputError, match="history is empty"):
        plot_history([], ax=new_figure())


def test_bag_shows_probabilities_and_intervals(fitted):
    _, bags, _, _, prediction = fitted
    table = bag_table(prediction, 4)
    rows = slice(bags.offsets[4], bags.offsets[5])
    np.testing.assert_array_equal(table["prob"], prediction.instance_prob[rows])
    ax = plot_bag(prediction, 4, ax=new_figure())
    assert [bar.get_height() for bar in ax.patches] == table["prob"].tolist()


def test_known_positives_are_framed_red(fitted):
    _, bags, y, y_instances, prediction = fitted
    b = int(np.argmax(y))
    truth = bags.split(y_instances)[b]
    ax = plot_bag(prediction, b, truth, ax=new_figure())
    framed = [p for p in ax.patches if mpl.colors.to_hex(p.get_edgecolor()).upper() == RED]
    centres = [p.get_x() + p.get_width() / 2 for p in framed]
    assert centres == pytest.approx(np.flatnonzero(truth).tolist()) and framed


def test_bag_by_name_and_bad_bags(fitted):
    _, bags, _, _, prediction = fitted
    assert bag_table(prediction, "7").equals(bag_table(prediction, 7))
    assert bag_table(prediction, -1).equals(bag_table(prediction, len(bags) - 1))
    for bag in (20, -21, "nobody"):
        with pytest.raises(InputError, match="bag"):
            bag_table(prediction, bag)
    with pytest.raises(InputError, match="truth has shape"):
        plot_bag(prediction, 0, [1], ax=new_figure())


def test_a_name_with_dollars_is_not_mathematics(fitted, tmp_path):
    _, bags, _, _, _ = fitted
    from dataclasses import replace

    prediction = replace(fitted[4], ids=np.array([f"$\\frac{{{b}$" for b in range(len(bags))]))
    save_figure(plot_bag(prediction, 0, ax=new_figure()), tmp_path / "bag.png", bag_table(prediction, 0))


def test_reliability_bins():
    table = reliability_table([0, 1, 1, 0], [0.05, 0.05, 0.95, 1.0])
    assert table["count"].tolist() == [2, 2]
    assert table["positives"].tolist() == [0.5, 0.5]
    assert table["probability"].tolist() == pytest.approx([0.05, 0.975])
    with pytest.raises(InputError, match="labels must be 0 or 1"):
        plot_reliability([0, 2], [0.1, 0.2], ax=new_figure())


def test_the_same_figure_gives_the_same_bytes(tmp_path, monkeypatch):
    for folder, time in (("a", "1000000000"), ("b", "1500000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", time)  # the time that matplotlib would write down
        (tmp_path / folder).mkdir()
        save_figure(plot_theta(ax=new_figure()), tmp_path / folder / "theta.png", theta_table())
    for kind in ("png", "pdf", "csv"):
        assert (tmp_path / "a" / f"theta.{kind}").read_bytes() == (tmp_path / "b" / f"theta.{kind}").read_bytes()


def test_save_refuses_other_formats_and_missing_folders(tmp_path):
    ax = plot_theta(ax=new_figure())
    with pytest.raises(InputError, match=r"\.png"):
        save_figure(ax, tmp_path / "theta.pdf", theta_table())
    with pytest.raises(OutputError):
        save_figure(ax, tmp_path / "nowhere" / "theta.png", theta_table())
