"""Scores inside bags against loops over pairs and instances: ties, gaps, bags of one kind, labels that are unknown."""

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from psimil.foundations.errors import InputError
from psimil.results.localisation import (
    NAMES,
    Localisation,
    Places,
    auc_within_bags,
    closeness_to_middle,
    localisation_error,
)
from psimil.results.metrics import instance_metrics


def drawn(seed, bags=30, unknown=0.0, levels=5):
    """Labels, scores with many ties, offsets and uneven positions in no order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    y = rng.integers(0, 2, offsets[-1]) * np.repeat(rng.integers(0, 2, bags), sizes)
    y[rng.random(len(y)) < unknown] = -1
    return y, rng.integers(0, levels, len(y)) / levels, offsets, rng.choice(1000, len(y), replace=False) / 8


def pairs_won(y, score):
    """The share of pairs of a positive and a negative that the score orders rightly, half for ties."""
    won = [
        (a > b) + (a == b) / 2
        for a, i in zip(score, y, strict=True)
        for b, j in zip(score, y, strict=True)
        if i > j >= 0
    ]
    return sum(won) / len(won) if won else None


def within_by_pairs(y, score, offsets):
    areas = [pairs_won(y[a:b], score[a:b]) for a, b in pairwise(offsets)]
    areas = [area for area in areas if area is not None]
    return sum(areas) / len(areas), len(areas)


def errors_by_walking(y, score, offsets, positions):
    """The distance from every largest score to each positive, bag after bag."""
    found = []
    for a, b in pairwise(offsets):
        rows = [n for n in range(a, b) if y[n] >= 0]
        positive = [n for n in rows if y[n] == 1]
        if positive:
            most = max(score[n] for n in rows)
            gaps = [min(abs(positions[n] - positions[k]) for k in positive) for n in rows if score[n] == most]
            found.append(sum(gaps) / len(gaps))
    return sum(found) / len(found), len(found)


@pytest.mark.parametrize("unknown", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_all_three_against_loops(seed, unknown):
    y, score, offsets, positions = drawn(seed, unknown=unknown)
    found = Localisation.of(y, score, offsets, Places(positions, "mm"))
    within, n_both = within_by_pairs(y, score, offsets)
    error, n_positive = errors_by_walking(y, score, offsets, positions)
    assert found.model["auc"] == pytest.approx(pairs_won(y, score), rel=1e-12)
    assert found.model["auc_within_bags"] == pytest.approx(within, rel=1e-12)
    assert found.model["localisation_error"] == pytest.approx(error, rel=1e-12)
    assert (found.unit, found.n_both_kinds, found.n_positive) == ("mm", n_both, n_positive)
    assert auc_within_bags(y, score, offsets) == found.model["auc_within_bags"]
    assert localisation_error(y, score, offsets, positions) == found.model["localisation_error"]


@pytest.mark.parametrize("seed", range(3))
def test_the_middle_is_scored_as_any_score(seed):
    y, score, offsets, positions = drawn(seed, unknown=0.2)
    middle = np.empty(len(y))
    for a, b in pairwise(offsets):
        low, high = min(positions[a:b]), max(positions[a:b])
        middle[a:b] = [round(-abs(x - (low + high) / 2) / max((high - low) / 2, 1e-9), 9) for x in positions[a:b]]
    found = Localisation.of(y, score, offsets, Places(positions, "mm"))
    assert found.middle["auc"] == pytest.approx(pairs_won(y, middle), rel=1e-12)
    assert found.middle["auc_within_bags"] == pytest.approx(within_by_pairs(y, middle, offsets)[0], rel=1e-12)
    expected = errors_by_walking(y, middle, offsets, positions)[0]
    assert found.middle["localisation_error"] == pytest.approx(expected, rel=1e-12)


def test_the_pooled_auc_is_that_of_instance_metrics():
    y, score, offsets, _ = drawn(3, unknown=0.3, levels=50)
    assert Localisation.of(y, score, offsets).model["auc"] == instance_metrics(y, score)["auc"]


def test_telling_bags_apart_gains_nothing_within_them():
    """A score that knows the bag alone has a good AUC over all instances and none within bags."""
    y, _, offsets, _ = drawn(4, bags=200)
    bag = np.repeat(np.arange(200), np.diff(offsets))
    positive = np.array([y[a:b].any() for a, b in pairwise(offsets)])
    assert roc_auc_score(y, positive[bag]) > 0.7
    assert auc_within_bags(y, positive[bag], offsets) == 0.5


def test_every_bag_weighs_the_same():
    y = np.array([1, 0, *[1] * 50, *[0] * 50])
    score = np.array([0.0, 1.0, *[1.0] * 50, *[0.0] * 50])
    assert auc_within_bags(y, score, [0, 2, 102]) == 0.5


def test_the_order_of_rows_and_a_mirror_change_nothing():
    y, score, offsets, _ = drawn(7)
    positions = np.concatenate([0.1 * np.arange(n) - 3.3 for n in np.diff(offsets)])  # which do not mirror exactly
    found = Localisation.of(y, score, offsets, Places(positions, "mm"))
    rng = np.random.default_rng(0)
    order = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(offsets)])
    for other in (Localisation.of(y[order], score[order], offsets, Places(positions[order], "mm")),
                  Localisation.of(y, score, offsets, Places(-positions, "mm"))):  # fmt: skip
        assert other.model == pytest.approx(found.model, rel=1e-9)
        assert other.middle == pytest.approx(found.middle, rel=1e-9)


@pytest.mark.parametrize("n", [2, 5, 8, 31])
def test_both_sides_of_the_middle_tie(n):
    """Also where 0.1 cannot be written exactly, so that distances to the middle differ in their last bits."""
    positions = 0.1 * np.arange(n) - 123.45
    closeness = closeness_to_middle([0, n], positions)
    assert closeness.tolist() == closeness[::-1].tolist() and len(set(closeness)) == (n + 1) // 2


def test_a_gap_moves_the_middle():
    """By rows the middle of five is the third; with a gap after the fourth it is the fourth."""
    offsets, positions = [0, 5], [0.0, 5.0, 10.0, 15.0, 30.0]
    by_rows = closeness_to_middle(offsets, Places.of_rows(offsets).positions)
    by_place = closeness_to_middle(offsets, positions)
    assert (int(by_rows.argmax()), int(by_place.argmax())) == (2, 3)
    assert by_place[[0, 3, 4]].tolist() == [-1, 0, -1]
    y = [0, 0, 0, 0, 1]
    assert localisation_error(y, by_rows, offsets, positions) == 20
    assert localisation_error(y, by_place, offsets, positions) == 15


def test_ties_at_the_top_share_the_error():
    positions = [0.0, 5.0, 10.0, 15.0]
    assert localisation_error([1, 0, 0, 0], [0.9, 0.1, 0.2, 0.9], [0, 4], positions) == 7.5
    assert localisation_error([1, 0, 0, 0], [0.5] * 4, [0, 4], positions) == 7.5


def test_bags_of_one_instance_or_one_kind_count_where_they_can():
    """One negative instance, one positive one, two positive ones: no bag has both kinds, two have a positive."""
    found = Localisation.of([0, 1, 1, 1], [0.9, 0.2, 0.3, 0.4], [0, 1, 2, 4], Places.of_rows([0, 1, 2, 4]))
    assert math.isnan(found.model["auc_within_bags"]) and math.isnan(found.middle["auc_within_bags"])
    assert found.model["localisation_error"] == 0
    assert (found.n_both_kinds, found.n_positive) == (0, 2)
    assert found.rows() == [
        ["instance AUC", "0.0000", "0.1667"],
        ["instance AUC within bags", "n/a", "n/a"],
        ["localisation error, rows", "0.00", "0.00"],
    ]


@pytest.mark.parametrize("y", [[-1, -1, -1], [0, 0, -1], [-1, 0, 0]])
def test_nothing_known_is_nan_without_warnings(y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Localisation.of(y, [0.1, 0.2, 0.3], [0, 2, 3], Places.of_rows([0, 2, 3]))
    assert all(math.isnan(part[name]) for part in (found.model, found.middle) for name in NAMES)
    assert (found.n_both_kinds, found.n_positive) == (0, 0)


def test_without_an_order_nothing_is_said_about_places():
    y, score, offsets, _ = drawn(1)
    found = Localisation.of(y, score, offsets)
    assert found.unit is None and not math.isnan(found.model["auc_within_bags"])
    assert math.isnan(found.model["localisation_error"]) and all(map(math.isnan, found.middle.values()))
    assert [row[2] for row in found.rows("scan", "slice")] == ["n/a"] * 3
    assert [row[0] for row in found.rows("scan", "slice")][1:] == ["slice AUC within scans", "localisation error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 2], [0.1, 0.2], [0, 2]), "label 1 is 2; labels must be 0 or 1"),
        (([0, 1], [0.1], [0, 2]), "2 labels but scores of shape"),
        (([0, 1], [0.1, np.nan], [0, 2]), "scores have 1 missing values"),
        (([0, 1], [0.1, 0.2], [0, 3]), "offsets must run from 0 to the number of instances, 2"),
        (([0, 1], [0.1, 0.2], [0, 2], Places([1.0], "mm")), "2 labels but positions of shape"),
        (([0, 1], [0.1, 0.2], [0, 2], Places([1.0, np.inf], "mm")), "positions have 1 infinite values"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        Localisation.of(*arguments)
