"""Thresholds of bags and of instances in words, where their calls look unlike."""

from dataclasses import replace

import numpy as np
import pytest

from psimil.report.calls import Words, difference_words, reason_words, referral_words, threshold_words
from report_pages import predicted

WORDS = Words.of("features")


@pytest.mark.parametrize(("bag", "instance"), [(1e-9, 1 - 1e-12), (1 - 1e-12, 1e-9), (1e-9, 1e-9), (1 - 1e-12,) * 2])
def test_calls_that_differ_are_explained_and_others_not(bag, instance):
    found = replace(predicted(), threshold=bag, instance_threshold=instance)
    said = difference_words(found, 0, WORDS)
    if bag == instance:
        assert said == ""
    else:
        assert ("none of its instances alone" in said) == (bag < instance)
        assert ("but the bag stays below" in said) == (bag > instance)
        sums = ", and what its instances say adds up" if bag < instance else ""
        assert said.endswith(f"This is no contradiction: each has a threshold of its own{sums}.")
        assert "adds up" not in difference_words(replace(found, aggregate="max"), 0, WORDS)


def test_one_instance_is_spoken_of_as_one():
    found = predicted()
    limit = float(sorted(found.instance_prob[:4])[-1])
    said = difference_words(replace(found, threshold=1 - 1e-12, instance_threshold=limit), 0, WORDS)
    assert said.startswith("1 instance reaches the instance threshold ")


def test_both_thresholds_are_named_with_their_reasons():
    said = threshold_words(0.34, 0.12, Words.of("ct"))
    assert "Scans are called positive from probability 0.340 on, slices from 0.120 on" in said
    assert "few slices of negative scans reach it" in said


def referred():
    """Bags that are kept, near the threshold, unlike the training data, and both."""
    found = replace(predicted(4), margin=1.0, instance_novelty=np.repeat([0.25, 0.25, 0.75, 0.75], 4))
    return replace(found, bags=replace(found.bags, log_odds=np.array([2.0, 0.5, -2.0, -0.5])))


def test_a_referral_has_its_reason():
    found = referred()
    near, unlike = "near the threshold", "unlike the training data"
    assert found.reason.tolist() == ["", near, unlike, f"{near} and {unlike}"]
    assert found.refer.tolist() == [False, True, True, True]
    assert found.referral_score.tolist() == [-1.0, 0.5, np.inf, np.inf]
    assert found.to_frame()["reason"].tolist() == found.reason.tolist()
    assert found.instance_novel.tolist() == [False] * 8 + [True] * 8
    unknown = replace(found, instance_novelty=None)
    assert unknown.reason.tolist() == ["", near, "", near] and not unknown.instance_novel.any()


def test_the_reason_of_a_referral_in_words():
    said = [reason_words(referred(), bag, Words.of("ct")) for bag in range(4)]
    assert said[0] == "Not referred: this scan is clear of the threshold and like the training data (novelty 0.250)."
    assert said[1] == "Refer this scan to a reader: it is near the threshold."
    unlike = "it is unlike the training data (novelty 0.750, more than 0.5), so that its probability says little."
    assert said[2] == f"Refer this scan to a reader: {unlike}"
    assert said[3] == f"Refer this scan to a reader: it is near the threshold and {unlike}"
    unknown = replace(referred(), instance_novelty=None)
    assert reason_words(unknown, 0, WORDS) == "Not referred: this bag is clear of the threshold."
    counted = "3 to refer to a reader (1 near the threshold, 1 unlike the training data, 1 both)"
    assert referral_words(referred()) == counted
    assert referral_words(replace(unknown, margin=0.0)) == "0 to refer to a reader"
