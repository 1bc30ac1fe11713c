"""The parameters of an estimator as fields of one dataclass: their places, and subclasses with fewer of them."""

import numpy as np

from psimil import PsiVGPMIL
from tiny import problem


def test_arguments_by_place_mean_what_they_meant_in_1_0_0():
    given = (None, None, 20, None, "kmeans", np.inf, "exact", "constant", "projected", "bound", "logistic", "auto")
    rest = ("labels", 5, 1e-3, True, None, 3, False, 0.4, 0.1, False, True, 100, "float32", None, "sample")
    found = PsiVGPMIL(*given, *rest).get_params()
    assert (found["calibrate"], found["threshold"], found["false_positive_rate"]) == (False, 0.4, 0.1)
    assert (found["standardize"], found["warm_start"], found["chunk_size"]) == (False, True, 100)
    assert (found["dtype"], found["device"], found["expectation"]) == ("float32", None, "sample")
    assert (found["hyperparameters"], found["log_z"], found["posterior"]) == ("bound", "logistic", None)


def test_a_subclass_with_fewer_arguments_fits():
    class Small(PsiVGPMIL):
        def __init__(self, n_inducing=6):
            super().__init__(n_inducing=n_inducing, max_iter=3, tol=0.0, random_state=0)

    bags, y, _ = problem()
    small = Small().fit(bags, y)
    usual = PsiVGPMIL(n_inducing=6, max_iter=3, tol=0.0, random_state=0).fit(bags, y)
    assert (small.predict_proba(bags) == usual.predict_proba(bags)).all()
