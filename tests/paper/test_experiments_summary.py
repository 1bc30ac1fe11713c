"""From rows to tables: what is selected by which score, what is averaged, and what a paired test compares."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from psimil.foundations.errors import InputError
from psimil.paper.experiments.summary import (
    cnn_table,
    difference_in_words,
    paired_tests,
    score_table,
    selected,
    time_table,
)

SCORES = ("accuracy", "f1", "auc", "log_loss", "brier", "ece")


def row(**columns):
    base = {
        "experiment": "toy", "protocol": "nested", "task": "cross-validation", "measured_on": "held-out bags",
        "model": "VGPMIL", "preset": "default", "split": 0, "repeat": 0, "cnn": None, "n_features": None,
        "n_inducing": 50, "alpha": None, "beta": None, "n_train": 80, "n_test": 20, "seconds": 1.0, "passes": 3,
        "select_accuracy": None,
    }  # fmt: skip
    base |= {f"bag_{name}": 0.5 for name in SCORES} | {f"instance_{name}": None for name in SCORES}
    return base | columns


def grid(protocol):
    """Two settings of G-VGPMIL at two sizes; validation and measured accuracy disagree about the better one."""
    rows = []
    for size, split in product((50, 100), range(3)):
        common = {"protocol": protocol, "model": "G-VGPMIL", "n_inducing": size, "split": split}
        better_at_validation, better_when_measured = (0.5, 1.0), (1.0, 4.0)
        if size == 100:
            better_at_validation, better_when_measured = better_when_measured, better_at_validation
        for (alpha, beta), select, measured in (
            (better_at_validation, 0.9, 0.6),
            (better_when_measured, 0.8, 0.7),
        ):
            scores = {"select_accuracy": select + 0.01 * split, "bag_accuracy": measured - 0.01 * split}
            rows.append(row(**common, alpha=alpha, beta=beta, **scores))
        rows.append(row(**common | {"model": "VGPMIL"}, select_accuracy=0.1, bag_accuracy=0.1))
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("protocol", "chosen"),
    [("paper", {50: (0.5, 1.0), 100: (1.0, 4.0)}), ("published", {50: (1.0, 4.0), 100: (0.5, 1.0)})],
)
def test_the_grid_is_searched_by_validation_in_the_paper_and_by_the_measured_bags_in_its_code(protocol, chosen):
    best = selected(grid(protocol))
    gamma = best[best["model"] == "G-VGPMIL"]
    for size, setting in chosen.items():
        part = gamma[gamma["n_inducing"] == size]
        assert set(zip(part["alpha"], part["beta"], strict=True)) == {setting}
        assert sorted(part["split"]) == [0, 1, 2]
    assert (best["model"] == "VGPMIL").sum() == 6  # without a grid every row stays
    assert best.index.is_monotonic_increasing


def test_rows_of_different_protocols_are_selected_apart():
    both = pd.concat([grid("paper"), grid("published")], ignore_index=True)
    best = selected(both)
    assert best.groupby("protocol").size().to_dict() == {"paper": 12, "published": 12}


def test_score_table_by_hand():
    rows = [row(split=s, bag_auc=v, instance_auc=w) for s, (v, w) in enumerate([(0.8, 0.6), (0.9, 0.7), (0.7, None)])]
    rows += [row(model="SVM", preset="", n_inducing=None, split=s, bag_auc=0.4) for s in range(3)]
    table = score_table(pd.DataFrame(rows))
    assert table["model"].tolist() == ["VGPMIL", "SVM"] and table["n"].tolist() == [3, 3]
    first, second = table.to_dict("records")
    assert first["bag_auc_mean"] == pytest.approx(0.8) and first["bag_auc_sd"] == pytest.approx(0.1)
    assert first["instance_auc_mean"] == pytest.approx(0.65) and first["instance_auc_n"] == 2
    assert (
        second["bag_auc_sd"] == pytest.approx(0, abs=1e-15)
        and second["instance_auc_n"] == 0
        and np.isnan(second["instance_auc_mean"])
    )
    assert "instance_f1_mean" not in table and "alpha" not in table  # nothing is known of them
    assert not any(name.startswith("seconds") for name in table)


def test_score_table_never_pools_what_was_measured_elsewhere():
    rows = [row(measured_on=on, bag_auc=v) for on, v in (("held-out bags", 0.6), ("training bags", 1.0))]
    table = score_table(pd.DataFrame(rows))
    assert dict(zip(table["measured_on"], table["bag_auc_mean"], strict=True)) == {
        "held-out bags": 0.6,
        "training bags": 1.0,
    }


def test_time_table_and_cnn_table():
    rows = pd.DataFrame([row(split=s, seconds=2.0 * s, cnn=c, bag_auc=c) for s, c in product((0, 1), (0, 3))])
    assert time_table(rows)["seconds_mean"].tolist() == [1.0]
    table = cnn_table(rows)
    assert table["cnn"].tolist() == [0, 3] == table["bag_auc_mean"].tolist()
    assert cnn_table(rows.assign(cnn=None)) is None and cnn_table(rows.drop(columns="cnn")) is None


# Paired tests


def paired_rows(scores, **columns):
    """One row per split and CNN; scores (n_splits, n_cnns)."""
    return [
        row(split=split % 5, repeat=split // 5, cnn=cnn, bag_auc=value, **columns)
        for split, line in enumerate(scores)
        for cnn, value in enumerate(line)
    ]


def test_paired_tests_average_cnns_first():
    rng = np.random.default_rng(0)
    a, b = rng.random((10, 4)), rng.random((10, 4))
    rows = paired_rows(a) + paired_rows(b, model="SVM", preset="", n_inducing=None)
    tests = paired_tests(pd.DataFrame(rows).sample(frac=1, random_state=1))
    [line] = tests[tests["score"] == "bag_auc"].to_dict("records")
    d = a.mean(axis=1) - b.mean(axis=1)
    t = d.mean() / np.sqrt((1 / 10 + 20 / 80) * d.var(ddof=1))
    assert line["model"] == "SVM" and line["n_splits"] == 10  # VGPMIL is the reference, whichever comes first
    assert line["difference"] == pytest.approx(d.mean()) and line["t"] == pytest.approx(t)
    assert line["p"] == pytest.approx(2 * stats.t.sf(abs(t), 9))


def test_splits_are_paired_by_number_and_not_by_position():
    values = np.linspace(0.5, 0.9, 5)[:, None]
    shifted = paired_rows(values[::-1], model="SVM", preset="", n_inducing=None)
    for line in shifted:
        line["split"] = 4 - line["split"]
    tests = paired_tests(pd.DataFrame(paired_rows(values) + shifted))
    [line] = tests[tests["score"] == "bag_auc"].to_dict("records")
    assert line["difference"] == 0 and line["p"] == 1


def test_paired_tests_compare_only_what_can_be_compared():
    full, few = paired_rows(np.full((5, 1), 0.5)), paired_rows(np.full((4, 1), 0.6), model="SVM", preset="")
    assert paired_tests(pd.DataFrame(full + few)).empty  # four common splits are too few
    assert paired_tests(pd.DataFrame(paired_rows(np.ones((5, 1)), model="SVM"))).empty  # no reference
    published = pd.DataFrame(full + paired_rows(np.ones((5, 1)), model="SVM")).assign(protocol="published")
    assert paired_tests(published).empty
    larger = paired_rows(np.full((5, 1), 0.4), n_inducing=1000)
    tests = paired_tests(pd.DataFrame(full + larger))
    assert set(tests["n_inducing"]) == {1000} and "instance_auc" not in set(tests["score"])
    assert tests.set_index("score").loc["bag_auc", "difference"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("difference", "p", "smaller", "words"),
    [
        (0.02, 0.01, False, "better"),
        (-0.02, 0.01, False, "worse"),
        (0.02, 0.01, True, "worse"),
        (-0.02, 0.01, True, "better"),
        (0.5, 0.05, False, "no clear difference"),
        (0.0, 0.0, False, "no clear difference"),
    ],
)
def test_difference_in_words(difference, p, smaller, words):
    assert difference_in_words(difference, p, smaller_is_better=smaller) == words


def test_a_verdict_needs_a_p_value():
    with pytest.raises(InputError, match="p value"):
        difference_in_words(0.1, float("nan"))
