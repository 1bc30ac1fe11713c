"""A model that is gone on from, or saved, under other settings than it was made with."""

import copy
import pickle

import numpy as np
import pytest

from psimil import GVGPMIL, RBF, VGPMIL, Bags, PsiVGPMIL
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.custom_density import density_from_log
from psimil.model.densities import SmoothLaplace
from psimil.model.kernels import Matern52
from tiny import brief, problem

OTHER = {
    "kernel": Matern52(1.0, 1.0),
    "density": SmoothLaplace(rate=1.0),
    "labels": "chain",
    "posterior": "sampled",
    "H": 10.0,
    "n_inducing": 9,
    "inducing": "kmeans",
    "inducing_points": np.zeros((8, 3)),
    "mean": "zero",
    "standardize": False,
    "dtype": "float32",
    "positive": 0,
}


@pytest.mark.parametrize("name", OTHER)
def test_going_on_under_other_settings_is_refused(name):
    bags, y, _ = problem()
    model = brief(kernel=RBF(1.0, 1.0), warm_start=True).fit(bags, y).set_params(**{name: OTHER[name]})
    before = model.predict_proba(bags)
    with pytest.raises(InputError, match=f"warm_start: {name} was"):
        model.fit(bags, y)
    if name != "labels":  # which has a message of its own
        with pytest.raises(InputError, match=f"partial_fit: {name} was .* Set it back, or begin a new model"):
            model.partial_fit(bags, y)
    np.testing.assert_array_equal(model.predict_proba(bags), before)


def test_no_bags_to_learn_from_are_a_training_set():
    bags, y, _ = problem()
    for model in (brief(), brief().fit(bags, y)):
        with pytest.raises(InputError, match=r"^training set is empty: 0 bags\. Give at least 1 bag\.$"):
            model.partial_fit([], [])


def test_what_a_loaded_model_lacks_is_named_with_the_reason(tmp_path):
    bags, y, _ = problem()
    brief().fit(bags, y).save(tmp_path / "model.safetensors")
    model = PsiVGPMIL.load(tmp_path / "model.safetensors")
    for name in ("out_of_bag_", "history_", "label_posterior_", "elbo_", "n_iter_", "converged_"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"^{name} is of training, and a model file holds nothing of that"):
            getattr(model, name)
    for other, name in ((brief(), "out_of_bag_"), (model, "nothing_")):
        with pytest.raises(AttributeError, match=f"object has no attribute '{name}'"):
            getattr(other, name)
    with pytest.raises(AttributeError, match="the training bags had no feature names"):
        model.feature_names_in_  # noqa: B018
    assert copy.deepcopy(model).threshold_ == model.threshold_ == pickle.loads(pickle.dumps(model)).threshold_


def test_settings_of_the_search_may_change():
    bags, y, _ = problem()
    model = brief(warm_start=True).fit(bags, y).set_params(max_iter=2, tol=1e-3, calibrate=False, threshold=0.4)
    assert model.fit(bags, y).threshold_ == 0.4


def test_other_names_and_classes_are_no_warm_start():
    bags, y, _ = problem()
    named = Bags(bags.X, bags.offsets, bags.ids, feature_names=["a", "b", "c"])
    model = brief(warm_start=True).fit(named, y)
    with pytest.raises(InputError, match="other names"):
        model.fit(Bags(bags.X, bags.offsets, bags.ids, feature_names=["a", "c", "b"]), y)
    with pytest.raises(InputError, match=r"classes were \(0, 1\)"):
        model.fit(named, np.where(y, "yes", "no"))


def test_a_file_says_what_the_model_was_fitted_with(tmp_path):
    bags, y, _ = problem()
    model = brief(kernel=RBF(1.0, 1.0)).fit(bags, y)
    model.save(tmp_path / "before")
    model.set_params(H=7.0, n_inducing=99, kernel=None, max_iter=77)
    with pytest.warns(DataWarning, match="changed since the fit; the file says"):
        model.save(tmp_path / "after")
    assert (tmp_path / "after").read_bytes() == (tmp_path / "before").read_bytes()
    loaded = PsiVGPMIL.load(tmp_path / "after")
    assert (loaded.n_inducing, loaded.max_iter, loaded.kernel) == (8, 4, RBF(1.0, 1.0))
    with pytest.raises(InputError, match="partial_fit: H was"):
        loaded.set_params(H=7.0).partial_fit(bags, y)


def test_a_density_of_ones_own_is_missed_after_a_load(tmp_path):
    bags, y, _ = problem()
    mine = density_from_log(lambda x: -np.logaddexp(0.6 * x, -0.6 * x), name="mine")
    model = brief(density=mine).fit(bags, y)
    model.save(tmp_path / "m")
    loaded = PsiVGPMIL.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(bags), model.predict_proba(bags))
    for learn in (loaded.fit, loaded.partial_fit):
        with pytest.raises(InputError, match=r"a density of your own, mine, .* give it back with set_params"):
            learn(bags, y)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    for kind in (VGPMIL, GVGPMIL):
        with pytest.raises(InputError, match=r"Use PsiVGPMIL\.load"):
            kind.load(tmp_path / "m")
    with pytest.raises(InputError, match="density was"):
        loaded.set_params(density=SmoothLaplace(rate=1.0)).partial_fit(bags, y)
    loaded.set_params(density=mine).partial_fit(bags, y)
    model.partial_fit(bags, y)
    np.testing.assert_array_equal(loaded.q_mean_, model.q_mean_)
