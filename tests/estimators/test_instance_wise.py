"""instancewise: transformers of rows as steps of pipelines over bags."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from psimil import VGPMIL, Bags, InputError, datasets, instancewise
from psimil.datasets import make_bags
from psimil.estimators.instance_wise import InstanceWise

QUICK = {"n_inducing": 10, "max_iter": 5, "tol": 0.0, "hyperparameters": None, "calibrate": False, "random_state": 0}


@pytest.fixture(scope="module")
def problem():
    bags, y, _ = make_bags(n_bags=24, n_features=4, seed=0)
    return Bags(bags.X * [1.0, 10.0, 0.1, 3.0] + 5.0, bags.offsets, [f"b{b}" for b in range(24)]), y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pipeline_is_scaling_by_hand(problem):
    bags, y = problem
    pipe = make_pipeline(instancewise(StandardScaler()), VGPMIL(standardize=False, **QUICK)).fit(bags, y)
    by_hand = Bags(StandardScaler().fit_transform(bags.X), bags.offsets, bags.ids)
    model = VGPMIL(standardize=False, **QUICK).fit(by_hand, y)
    assert np.array_equal(pipe.predict_proba(bags), model.predict_proba(by_hand))
    of_pipe = pipe[-1].predict_instances(pipe[:-1].transform(bags))
    for ours, theirs in zip(of_pipe, model.predict_instances(by_hand), strict=True):
        assert np.array_equal(ours, theirs)


def test_bags_stay_bags(problem):
    bags, y = problem
    shuffled = Bags.from_arrays(bags.X[::-1], np.repeat(bags.ids, bags.sizes)[::-1])
    found = instancewise(PCA(2)).fit(shuffled).transform(shuffled)
    assert isinstance(found, Bags) and found.n_features == 2
    for name in ("ids", "offsets", "rows"):
        assert np.array_equal(getattr(found, name), getattr(shuffled, name))
    as_list, as_objects = list(bags), np.empty(len(bags), object)
    as_objects[:] = as_list
    fitted = instancewise(StandardScaler()).fit(bags, y)
    for form in (as_list, as_objects):
        assert np.array_equal(fitted.transform(form).X, fitted.transform(bags).X)
    assert instancewise(OneHotEncoder(handle_unknown="ignore")).fit_transform(bags).n_features > 4  # sparse


def test_nothing_leaks_from_held_out_bags(problem):
    bags, y = problem
    scaler = instancewise(StandardScaler()).fit(bags[:12], y[:12])
    assert scaler.transformer_.mean_ == pytest.approx(bags[:12].X.mean(axis=0))
    far = Bags(np.concatenate([bags[:12].X, 1e6 + bags[12:].X]), bags.offsets)
    pipe = make_pipeline(instancewise(StandardScaler()), instancewise(PCA(2)))
    assert np.array_equal(pipe.fit(far[:12]).transform(bags[:12]).X, pipe.fit(bags[:12]).transform(bags[:12]).X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_grid_search_over_components_and_cross_validation():
    bags, y = datasets.load_musk1()
    pipe = make_pipeline(instancewise(StandardScaler()), instancewise(PCA(random_state=0)), VGPMIL(**QUICK))
    name = "instancewise-2__transformer__n_components"
    search = GridSearchCV(pipe, {name: [1, 20]}, scoring="roc_auc", cv=KFold(3, shuffle=True, random_state=0))
    search.fit(bags, y)
    low, high = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {name: 20} and high > max(low, 0.75)
    assert search.best_estimator_[1].transformer_.n_components_ == 20
    prob = cross_val_predict(clone(pipe).set_params(**{name: 20}), bags, y, method="predict_proba", cv=3)
    assert prob.shape == (92, 2)


def test_parameters_clones_and_names(problem):
    bags, y = problem
    step = instancewise(PCA(2))
    assert step.get_params()["transformer__n_components"] == 2
    copy = clone(step).set_params(transformer__n_components=3).fit(bags, y)
    assert copy.transform(bags).n_features == 3 and step.transformer.n_components == 2
    assert not hasattr(step.transformer, "components_")  # the given transformer is left alone
    assert copy.get_feature_names_out().tolist() == ["pca0", "pca1", "pca2"]
    assert isinstance(make_pipeline(step).set_output(transform="pandas").fit_transform(bags), Bags)


def test_names_and_order_go_through_a_pipeline(problem):
    bags, y = problem
    named = Bags(bags.X, bags.offsets, bags.ids, feature_names=["size", "mass", "age", "dose"]).in_order()
    pipe = make_pipeline(instancewise(StandardScaler()), VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0))
    pipe.fit(named, y)
    assert pipe[0].feature_names_in_.tolist() == ["size", "mass", "age", "dose"]
    assert pipe[0].get_feature_names_out().tolist() == ["size", "mass", "age", "dose"]
    assert pipe[-1].feature_names_in_.tolist() == ["size", "mass", "age", "dose"]
    assert pipe.feature_names_in_.tolist() == ["size", "mass", "age", "dose"]
    assert pipe[:-1].get_feature_names_out().tolist() == ["size", "mass", "age", "dose"]
    turned = Bags(named.X[:, ::-1], bags.offsets, bags.ids, feature_names=["dose", "age", "mass", "size"])
    assert np.array_equal(pipe.predict_proba(turned), pipe.predict_proba(named))
    assert np.array_equal(pipe[0].transform(named).links, named.links)
    assert instancewise(PCA(2)).fit(named).transform(named).feature_names == ("pca0", "pca1")
    assert not hasattr(instancewise(PCA(2)).fit(bags), "feature_names_in_")
    assert not hasattr(instancewise(PCA(2)), "feature_names_in_")


def test_a_transformer_that_wants_labels_gets_those_of_the_bags(problem):
    bags, y = problem
    found = instancewise(LinearDiscriminantAnalysis()).fit(bags, y).transform(bags)
    by_hand = LinearDiscriminantAnalysis().fit(bags.X, np.repeat(y, bags.sizes)).transform(bags.X)
    assert np.array_equal(found.X, by_hand)


def test_failures_say_what_to_do(problem):
    bags, y = problem
    with pytest.raises(NotFittedError, match="not fitted"):
        instancewise(StandardScaler()).transform(bags)
    with pytest.raises(InputError, match="passes no bag_ids"):
        make_pipeline(instancewise(StandardScaler()), VGPMIL()).fit(bags.X, np.repeat(y, bags.sizes))
    with pytest.raises(InputError, match="got StandardScaler"):
        instancewise(StandardScaler).fit(bags)
    with pytest.raises(InputError, match="got str"):
        instancewise("scale").fit(bags)
    with pytest.raises(InputError, match="24 bags but 3 labels"):
        instancewise(StandardScaler()).fit(bags, y[:3])
    with pytest.raises(InputError, match="expects 4 features, got 2"):
        instancewise(StandardScaler()).fit(bags).transform([np.zeros((2, 2))])

    class Dropping(StandardScaler):
        def transform(self, X):
            return X[1:]

    with pytest.raises(InputError, match="one row for each"):
        InstanceWise(Dropping()).fit(bags).transform(bags)
