"""Who keeps the multiple instance assumption passes, who does not fails, ours and oracles that know the answer."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from psimil import GVGPMIL, VGPMIL
from psimil.foundations.errors import InputError
from psimil.paper.baselines import AttentionMIL, BagForest, BagSVM, MeanPooling, Smoothing
from psimil.testing import TRAPS, check_mil_assumption, trap_scores

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = {"n_bags": 40, "n_features": 16}
QUICK = {"n_inducing": 20, "random_state": 0}
NETWORK = {"hidden": 16, "attention": 8, "epochs": 60, "learning_rate": 0.01, "random_state": 0}


class Rule(ClassifierMixin, BaseEstimator):
    """Learns nothing and ranks bags by a rule."""

    def __init__(self, rule):
        self.rule = rule

    def fit(self, bags, y):
        assert len(bags) == len(y)
        self.fitted_ = True
        return self

    def predict_proba(self, bags):
        p = np.array([self.rule(bag) for bag in bags])
        return np.column_stack([1 - p, p])


def has(bag, centre):
    return (np.abs(bag - centre) < 0.6).all(axis=1).any()


def no_bait(bag):
    return 0.9 - 0.8 * has(bag, -10.0)


def both(bag):
    return 0.1 + 0.8 * (has(bag, 2.0) and has(bag, 3.0))


def strangest(bag):
    """What a model of instances could say: 0 for bait, more the less ordinary an instance is."""
    typical = np.maximum(np.abs(bag.mean(axis=1)) * 4, np.sqrt((bag**2).mean(axis=1)))
    return float(np.max(np.where(bag.mean(axis=1) < -5, 0.0, 1 - np.exp(-typical))))


def larger(bag):
    return len(bag) / 100


@pytest.mark.parametrize(
    ("rule", "name", "alike", "turned"),
    [
        (no_bait, "single_concept", 1.0, 0.0),
        (no_bait, "two_concepts", 1.0, 0.0),
        (no_bait, "false_frequency", 0.5, 0.5),
        (both, "two_concepts", 1.0, 1.0),
        (both, "false_frequency", 1.0, 1.0),
    ],
)
def test_rules_that_know_the_answer(rule, name, alike, turned):
    scores = trap_scores(Rule(rule), TRAPS[name](**SMALL))
    assert (scores.alike, scores.turned) == (alike, turned)
    assert scores.passed == (turned > 0.5)


@pytest.mark.parametrize(("rule", "alike"), [(lambda bag: 1.0 - no_bait(bag), "0.000"), (lambda bag: 0.3, "0.500")])
def test_who_is_wrong_on_bags_like_those_of_training_fails_however_the_trap_is_turned(rule, alike):
    """Who takes bait for a sign of a positive bag is right about all turned bags, and about nothing else."""
    assert not trap_scores(Rule(rule), TRAPS["single_concept"](**SMALL)).passed
    with pytest.raises(
        AssertionError, match=f"single_concept: AUC is {alike} on bags like .* were not learned; nothing"
    ):
        check_mil_assumption(Rule(rule), **SMALL)


def test_rules_of_one_instance_and_of_numbers():
    assert trap_scores(Rule(strangest), TRAPS["single_concept"](**SMALL)).turned > 0.9
    counted = trap_scores(Rule(larger), TRAPS["false_frequency"](**SMALL))
    assert counted.alike > 0.5 and counted.turned == 0.0 and not counted.passed


@pytest.mark.parametrize("model", [VGPMIL(**QUICK), pytest.param(GVGPMIL(**QUICK), marks=pytest.mark.slow)], ids=repr)
def test_our_models_ignore_bait(model):
    scores = check_mil_assumption(model, ["single_concept", "two_concepts"], **SMALL)
    assert list(scores) == ["single_concept", "two_concepts"]
    assert all(score.turned > 0.7 for score in scores.values())


def test_an_or_model_counts_and_says_so():
    with pytest.raises(AssertionError, match="check_mil_assumption: false_frequency: AUC is 0"):
        check_mil_assumption(VGPMIL(**QUICK), ["false_frequency"], **SMALL)


@pytest.mark.parametrize("model", [MeanPooling(), BagSVM(random_state=0), BagForest(50, random_state=0)], ids=repr)
def test_bag_statistics_take_the_bait(model):
    with pytest.raises(AssertionError, match=r"single_concept: AUC is 1.000 on .* but 0.0"):
        check_mil_assumption(model, **SMALL)


@pytest.mark.parametrize("smoothing", [None, pytest.param(Smoothing(), marks=pytest.mark.slow)])
def test_attention_takes_the_bait(smoothing):
    pytest.importorskip("torch")
    scores = trap_scores(AttentionMIL(smoothing=smoothing, **NETWORK), TRAPS["single_concept"](n_bags=100))
    assert scores.alike > 0.9 and scores.turned < 0.2


def test_our_model_in_context_takes_the_bait():
    scores = trap_scores(VGPMIL(context="bag", **QUICK), TRAPS["single_concept"](**SMALL))
    assert scores.alike > 0.9 and not scores.passed


def test_the_estimator_is_left_as_it_was():
    model = MeanPooling()
    trap_scores(model, TRAPS["single_concept"](n_bags=10))
    assert not hasattr(model, "model_")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: check_mil_assumption(MeanPooling), "estimator is the class MeanPooling; give an instance"),
        (lambda: check_mil_assumption(None), "estimator must be an unfitted scikit-learn classifier of bags"),
        (lambda: check_mil_assumption(MeanPooling(), ["bait"]), "traps must be a list of single_concept, two_concepts"),
        (lambda: check_mil_assumption(MeanPooling(), "single_concept"), "traps must be a list of"),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
