"""What a referral costs: the curve, the rule of the model and the words of the report agree."""

from dataclasses import replace

import numpy as np
import pytest

from psimil.figures import new_figure, plot_referral
from psimil.foundations.errors import InputError
from psimil.predictive.referral import Cost
from psimil.predictive.thresholds import choose_referral
from psimil.results.referral_curve import referral_cost, referral_curve
from report_pages import predicted

N = 40


def referred(margin):
    """A prediction of 40 bags, every tenth of them novel, and labels that are sometimes not as called."""
    found = replace(predicted(N), margin=margin, instance_novelty=np.repeat(np.arange(N) % 10 == 3, 4) * 0.75)
    y = np.where(np.random.default_rng(4).random(N) < 0.3, 1 - found.label, found.label)
    return found, y


@pytest.mark.parametrize("margin", [None, 0.0, 1.0, 2.5])
def test_the_curve_goes_by_what_the_model_refers(margin):
    found, y = referred(margin)
    kept = ~found.refer
    wrong = found.label != y
    curve = referral_curve(y, found.prob, found.referral_score, found.threshold)
    place = curve[curve["n_kept"] == kept.sum()]
    assert float(place["error"].iloc[0]) == pytest.approx(wrong[kept].mean(), abs=1e-12)
    cost = referral_cost(y, found.prob, found.refer, found.threshold)
    assert cost == pytest.approx((found.refer.mean(), wrong[kept].mean(), wrong.mean()))
    assert cost.caught == pytest.approx(wrong[found.refer].sum() / wrong.sum())
    ax = plot_referral({"a": curve}, kept={"a": int(kept.sum())}, ax=new_figure())
    (ring,) = [line for line in ax.get_lines() if line.get_marker() == "o"]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (kept.mean(), float(place["error"].iloc[0]))


def test_where_all_are_referred_there_is_no_place_on_the_curve():
    found, y = referred(1e9)
    assert referral_cost(y, found.prob, found.refer) == (1.0, 0.0, (found.label != y).mean())
    curve = referral_curve(y, found.prob, found.referral_score)
    ax = plot_referral({"a": curve}, kept={"a": 0}, ax=new_figure())
    assert not [line for line in ax.get_lines() if line.get_marker() == "o"]


def test_the_cost_of_a_rule_says_what_it_catches():
    found, y = referred(None)
    rule = choose_referral("workload=0.25", found.log_odds, y, 0.5, np.ones(N))
    near = np.abs(found.log_odds) < rule.margin
    assert rule.cost.caught == pytest.approx((near & (found.label != y)).sum() / (found.label != y).sum())
    assert Cost(0.0, 0.0, 0.0).caught == 1.0 and Cost(0.1, 0.0, 0.0).words == "10.0 % referred; no wrong calls"


def test_referrals_of_another_length_are_refused():
    with pytest.raises(InputError, match="2 labels but referrals of shape"):
        referral_cost([0, 1], [0.1, 0.2], [True])
