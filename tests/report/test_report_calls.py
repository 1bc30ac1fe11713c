"""Thresholds of bags and of instances in words, where their calls look unlike."""

from dataclasses import replace

import pytest

from psimil.report.calls import Words, difference_words, threshold_words
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
