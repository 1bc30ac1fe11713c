"""Figures of bags say plainly which are to be referred, and why."""

from dataclasses import replace

import numpy as np
import pytest

from psimil.figures import new_figure, plot_bag, plot_strip, strip_table
from report_pages import predicted


@pytest.mark.parametrize("plot", [plot_bag, plot_strip])
def test_the_title_says_why_a_bag_is_referred(plot):
    novelty = np.repeat([0.25, 0.75], 4)
    found = replace(predicted(2), instance_novelty=novelty)
    titles = [plot(found, bag, ax=new_figure(9, 5)).get_title().replace("\n", " ") for bag in (0, 1)]
    assert [
        f"; to refer: {why}" in title for why, title in zip(found.reason, titles, strict=True)
    ] == found.refer.tolist()
    assert "unlike the training data" in titles[1] and "unlike" not in titles[0]
    table = strip_table(found, 1)
    assert table["novelty"].tolist() == [0.75] * 4 and set(table["bag_reason"]) == {found.reason[1]}
    assert "novelty" not in strip_table(predicted(2), 1)
