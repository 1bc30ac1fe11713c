"""Early stopping by left-out bags watches the number that the fit reports in the end."""

import numpy as np
import pytest

from tiny import problem, quick


@pytest.mark.parametrize("aggregate", ["noisy_or", "max"])
@pytest.mark.parametrize("calibrate", [False, True, "auto"])
@pytest.mark.parametrize("posterior", ["variational", "augmented"])
def test_the_best_score_is_that_of_the_fit(posterior, calibrate, aggregate):
    bags, y, _ = problem()
    how = {"posterior": posterior, "calibrate": calibrate, "aggregate": aggregate, "patience": 3, "max_iter": 8}
    fitted = quick(early_stopping="out_of_bag", **how).fit(bags, y)
    scores = [row["eval_out_of_bag"] for row in fitted.history_ if "eval_out_of_bag" in row]
    assert len(scores) > 1 and max(scores) == pytest.approx(fitted.out_of_bag_.mean_log_predictive, rel=1e-12)


def test_weights_count():
    bags, y, _ = problem()
    weights = np.where(np.arange(len(y)) % 3 == 0, 3.0, 1.0)
    fitted = quick(early_stopping="out_of_bag", max_iter=4).fit(bags, y, sample_weight=weights)
    expected = np.average(fitted.out_of_bag_.log_predictive, weights=weights)
    assert max(row["eval_out_of_bag"] for row in fitted.history_ if "eval_out_of_bag" in row) == pytest.approx(
        expected, rel=1e-12
    )
