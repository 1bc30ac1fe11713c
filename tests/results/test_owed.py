"""What the score of an instance owes to itself and to its bag, in numbers, files, and words."""

import numpy as np
import pytest

from psimil import Bags
from psimil.data.bagtable import BagTable
from psimil.foundations.errors import InputError
from psimil.model.context import context_names, in_context
from psimil.model.kernels import Linear
from psimil.results.feature_effects import feature_effects, owed_to_bag
from psimil.results.model_card import model_card
from psimil.results.result_file import NAME, check_result, read_result
from psimil.results.result_set import ResultSet
from psimil.results.tabular_results import tabular_results
from tiny import problem, quick

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def model():
    bags, y, _ = problem()
    return quick(context="bag").fit(bags, y)


def by_hand(model, bags, n):
    """Shapley's value of two players, one instance at a time: the mean over both orders of coming in."""
    x, mean = in_context(bags).X[n], model.scaling.location
    D = bags.n_features

    def score(own, bag):
        row = np.concatenate([(x if own else mean)[:D], (x if bag else mean)[D:]])
        return float(model.latent(row[None])[0][0])

    first = (score(True, False) - score(False, False), score(True, True) - score(True, False))
    last = (score(True, True) - score(False, True), score(False, True) - score(False, False))
    return (first[0] + last[0]) / 2, (first[1] + last[1]) / 2


def test_the_share_of_each_is_what_it_adds_in_either_order(model):
    bags, _, _ = problem()
    owed = owed_to_bag(model.model_, bags)
    for n in (0, 5, len(bags.X) - 1):
        assert (owed.own[n], owed.bag[n]) == pytest.approx(by_hand(model.model_, bags, n), abs=1e-9)
    neither = model.model_.latent(model.model_.scaling.location[None])[0][0]
    np.testing.assert_allclose(owed.own + owed.bag, model.predict_dist(bags).latent_mean - neither, atol=1e-9)


def test_of_a_linear_function_shares_are_sums_of_effects():
    bags, y, _ = problem()
    model = quick(context="bag", kernel=Linear(1.0)).fit(bags, y).model_
    owed, told = owed_to_bag(model, bags), feature_effects(model, bags, most=12)
    effects = np.empty((len(bags.X), 12))
    np.put_along_axis(effects, told.features, told.effects, axis=1)
    np.testing.assert_allclose(owed.own, effects[:, :3].sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(owed.bag, effects[:, 3:].sum(axis=1), atol=1e-9)


def test_models_without_context_and_too_many_numbers_owe_nothing(model, monkeypatch):
    bags, y, _ = problem()
    assert owed_to_bag(quick().fit(bags, y).model_, bags) is None
    monkeypatch.setattr("psimil.results.feature_effects.LIMIT", 12 * len(bags.X) - 1)
    assert owed_to_bag(model.model_, bags) is None


def test_results_tell_of_bags_and_come_back(model, tmp_path):
    bags, y, _ = problem()
    table = BagTable(Bags(bags.X, bags.offsets, feature_names=NAMES), y, None)
    results = tabular_results(table, model.predict_dist(bags), model)
    owed, told = owed_to_bag(model.model_, bags), feature_effects(model.model_, bags)
    assert results.feature_names == context_names(NAMES) and results.features.max() > 2
    np.testing.assert_array_equal(results.features, told.features)
    np.testing.assert_array_equal(results.values, np.take_along_axis(in_context(bags).X, told.features, axis=1))
    results.write(tmp_path / NAME)
    again = ResultSet.load(tmp_path)
    np.testing.assert_array_equal(again.own_effect, owed.own)
    np.testing.assert_array_equal(again.bag_effect, owed.bag)
    arrays, texts, header = read_result(tmp_path / NAME)
    del arrays["own_effect"]
    with pytest.raises(InputError, match='array "own_effect" is missing, which comes with "bag_effect"'):
        check_result(arrays, texts, header)


def test_the_card_says_how_context_was_chosen(model):
    bags, y, _ = problem()
    card = model_card(model)
    assert (card["context"], card["features"]) == ("bag", "3")
    assert model_card(quick().fit(bags, y))["context"] == "none"
    chosen = quick(context="auto", hyperparameters="bound").fit(bags, y)
    beside, without = chosen.model_.context_evidence
    words = {True: ("bag", beside, without, "without"), False: ("none", without, beside, "in context")}
    word, kept, other, end = words[chosen.model_.context]
    assert model_card(chosen)["context"] == f"{word} (log p(T) {kept:.1f} against {other:.1f} {end})"
