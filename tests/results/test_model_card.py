"""What the card of a model says of its posterior, referral and novelty."""

import numpy as np
import pytest

from psimil.results.model_card import model_card
from tiny import problem, quick


@pytest.mark.parametrize("posterior", ["variational", "sampled", "augmented"])
def test_the_card_has_posterior_referral_and_novelty(posterior):
    bags, y, _ = problem()
    fitted = quick(posterior=posterior, referral="error=0.05").fit(bags, y)
    card, model = model_card(fitted), fitted.model_
    said = {"variational": "variational Gaussian", "sampled": "draws from the exact", "augmented": "mean field"}
    assert said[posterior] in card["posterior"]
    if posterior == "sampled":
        assert f"R-hat {model.chains.r_hat:.3f}" in card["posterior"] and "divergences" in card["posterior"]
        assert f"effective sample size {model.chains.effective_sample_size:.0f}" in card["posterior"]
    novel = "" if posterior == "augmented" else ", or novel"
    margin = f"error=0.05: log-odds within {model.referral.margin:.3g} of the threshold{novel}"
    assert card["referral"] == f"{margin}; out-of-bag {model.referral.cost.words}"
    assert ("novelty" in card) == (posterior != "augmented")
    if posterior != "augmented":
        assert f"{np.sqrt(model.novelty.square):.4g}" in card["novelty"]


def test_the_rule_of_the_interval_is_said():
    bags, y, _ = problem()
    card = model_card(quick(referral="interval").fit(bags, y))
    assert card["referral"] == "where the interval crosses the threshold, or novel"
