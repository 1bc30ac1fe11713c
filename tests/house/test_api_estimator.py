"""The estimators as callers misuse them, and what their signatures promise."""

import inspect

import numpy as np
import pandas as pd
import pytest

from psimil import GVGPMIL, RBF, VGPMIL, GammaMixture, HyperbolicSecant, MultiLabelMIL, PsiVGPMIL, StudentT
from psimil.foundations.errors import InputError
from tiny import brief, fitted, problem, quick, shuffled

BAG_IDS = "bag_ids belong to (N, D) rows; these are bags already. Leave bag_ids out."


def refused(call):
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "leading"),
    [
        ("fit", ["bags", "y"]),
        ("partial_fit", ["bags", "y"]),
        *((name, ["bags"]) for name in ("predict", "predict_proba", "decision_function")),
        *((name, ["bags"]) for name in ("predict_dist", "predict_instances")),
    ],
)
@pytest.mark.parametrize("kind", [PsiVGPMIL, VGPMIL, GVGPMIL])
def test_only_bags_and_labels_go_without_a_name(kind, name, leading):
    parameters = inspect.signature(getattr(kind(), name)).parameters
    assert [p.name for p in parameters.values() if p.kind is not p.KEYWORD_ONLY] == leading
    assert "bag_ids" in parameters


def test_a_third_argument_is_not_taken_for_something_else():
    bags, y, known = problem()
    for call in (brief().fit, brief().partial_fit):
        with pytest.raises(TypeError, match="positional"):
            call(bags, y, known)
    with pytest.raises(TypeError, match="positional"):
        fitted().predict(bags, bags.bag_index)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "decision_function", "predict_dist", "predict_instances"])
def test_bag_ids_with_bags_are_refused_when_predicting(name):
    bags = problem()[0]
    assert refused(lambda: getattr(fitted(), name)(bags, bag_ids=bags.bag_index)) == BAG_IDS


def test_bag_ids_with_bags_are_refused_when_fitting():
    bags, y, _ = problem()
    assert refused(lambda: brief().fit(bags, y, bag_ids=bags.bag_index)) == BAG_IDS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"callbacks": print}, "callbacks must be a list of functions, got builtin_function_or_method."),
        ({"callbacks": 3}, "callbacks must be a list of functions, got int."),
        ({"callbacks": [print, "log"]}, "callback 1 cannot be called, got 'log'. Give functions of one dict."),
        ({"batch_bags": True}, "batch_bags must be a whole number >= 1, got True."),
        ({"batch_bags": 2.0}, "batch_bags must be a whole number >= 1, got 2.0."),
        ({"batch_bags": "4"}, "batch_bags must be a whole number >= 1, got '4'."),
    ],
)
def test_arguments_of_fit(arguments, message):
    bags, y, _ = problem()
    assert refused(lambda: brief().fit(bags, y, **arguments)) == message


def test_no_callbacks_may_be_said_with_none():
    bags, y, _ = problem()
    np.testing.assert_array_equal(brief().fit(bags, y, callbacks=None).q_mean_, brief().fit(bags, y).q_mean_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"standardize": "no"}, "standardize must be True or False, got 'no'."),
        ({"standardize": 1}, "standardize must be True or False, got 1."),
        ({"accelerate": None}, "accelerate must be True or False, got None."),
        ({"warm_start": "yes"}, "warm_start must be True or False, got 'yes'."),
        ({"verbose": "loud"}, "verbose must be a whole number >= 0, got 'loud'."),
        ({"verbose": -1}, "verbose must be a whole number >= 0, got -1."),
        ({"feature_fingerprint": 7}, "feature_fingerprint must be text, got 7."),
        ({"n_inducing": "8"}, "n_inducing must be \"auto\" or a whole number >= 1, got '8'."),
        ({"H": "100"}, "H must be a number > 0, got '100'."),
        ({"threshold": "0.5"}, "threshold must be a number between 0 and 1, got '0.5'."),
        ({"density": GammaMixture}, "density is the class GammaMixture. Give an instance: GammaMixture(...)."),
        ({"kernel": RBF}, "kernel is the class RBF. Give an instance: RBF(...)."),
    ],
)
def test_parameters_are_checked_before_a_fit(parameters, message):
    bags, y, _ = problem()
    model = quick(**parameters)
    assert refused(lambda: model.fit(bags, y)) == message
    assert not hasattr(model, "model_")


@pytest.mark.parametrize("verbose", [True, 1, np.int64(2)])
def test_verbose_may_be_a_flag_or_a_number(verbose, caplog):
    bags, y, _ = problem()
    with caplog.at_level("INFO", logger="psimil"):
        brief(verbose=verbose).fit(bags, y)
    assert any("bound" in record.message for record in caplog.records)


def test_labels_in_text_are_told_apart_from_numbers():
    bags, y, _ = problem()
    assert brief().fit(bags, y.astype(str)).classes_.tolist() == ["0", "1"]
    message = refused(lambda: brief().fit(bags, [0, *y[1:].astype(str)]))
    assert message == f"label of bag 1 is '{y[1]}'; labels must be the numbers 0 or 1."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": "0.9"}, "level must be a number between 0 and 1, got '0.9'."),
        ({"level": None}, "level must be a number between 0 and 1, got None."),
        ({"level": True}, "level must be a number between 0 and 1, got True."),
        ({"n_samples": True}, "n_samples must be a whole number >= 2, got True."),
        ({"n_samples": 10.0}, "n_samples must be a whole number >= 2, got 10.0."),
        ({"expectation": "mean"}, "expectation must be one of 'quadrature', 'sample', got 'mean'."),
    ],
)
def test_arguments_of_predict_dist(arguments, message):
    assert refused(lambda: fitted().predict_dist(problem()[0], **arguments)) == message


def test_no_expectation_is_the_models_own():
    bags, y, _ = problem()
    model = brief(expectation="sample").fit(bags, y)
    np.testing.assert_array_equal(
        model.predict_dist(bags, expectation=None).prob, model.predict_dist(bags, expectation="sample").prob
    )


def test_forms_of_instance_predictions():
    bags = problem()[0]
    model = fitted()
    alone = model.predict_instances(bags)
    prob, std = model.predict_instances(bags, return_std=True)
    assert len(alone) == len(prob) == len(std) == len(bags)
    for with_std in (False, True):
        frame = model.predict_instances(bags, return_std=with_std, as_frame=True)
        assert isinstance(frame, pd.DataFrame)
        np.testing.assert_array_equal(frame["std"], np.concatenate(std))


def test_the_bound_is_a_plain_number():
    assert type(fitted().elbo_) is float


def test_every_parameter_and_fitted_attribute_is_documented():
    bags, y, _ = problem()
    doc = inspect.getdoc(PsiVGPMIL)
    parameters, attributes = doc.split("Attributes\n---")[0], doc.split("Attributes\n---")[1]
    for name, parameter in inspect.signature(PsiVGPMIL).parameters.items():
        line = next(line for line in parameters.splitlines() if line.startswith(f"{name} :"))
        told = line.split("default ")[1]
        assert told.strip('"') in (str(parameter.default), "5e-4" if name == "tol" else "")
    model = brief().partial_fit(bags, y).partial_fit(bags, y)
    for name in vars(model):
        assert not name.endswith("_") or f"\n{name} :" in attributes, name


@pytest.mark.parametrize(
    ("density", "loader", "right"),
    [
        (GammaMixture(1.0, 1.0), VGPMIL, "GVGPMIL"),
        (HyperbolicSecant(), GVGPMIL, "VGPMIL"),
        (StudentT(), VGPMIL, "PsiVGPMIL"),
        (StudentT(), GVGPMIL, "PsiVGPMIL"),
    ],
)
def test_a_model_is_loaded_by_the_class_of_its_density(tmp_path, density, loader, right):
    bags, y, _ = problem()
    model = brief(density=density).fit(bags, y)
    model.save(tmp_path / "m")
    message = refused(lambda: loader.load(tmp_path / "m"))
    assert message == f"the model has the density {density!r}; {loader.__name__} does not. Use {right}.load."
    takers = {PsiVGPMIL, {"VGPMIL": VGPMIL, "GVGPMIL": GVGPMIL, "PsiVGPMIL": PsiVGPMIL}[right]}
    for taker in takers:
        loaded = taker.load(tmp_path / "m")
        assert type(loaded) is taker and loaded.density == density and loaded.n_inducing == model.n_inducing
        np.testing.assert_array_equal(loaded.predict_proba(bags), model.predict_proba(bags))
        for name in ("out_of_bag_", "history_", "label_posterior_", "elbo_", "n_iter_", "converged_", "online_"):
            assert not hasattr(loaded, name)


@pytest.mark.parametrize(
    ("estimator", "arguments", "message"),
    [
        ("svm", {}, "estimator must be a PsiVGPMIL such as VGPMIL(), got 'svm'."),
        (None, {"label_names": "ab"}, "label_names must be a list of names, got 'ab'."),
        (None, {"label_names": 2}, "label_names must be a list of names, got 2."),
        (None, {"bag_ids": [0]}, BAG_IDS),
    ],
)
def test_several_labels_refuse(estimator, arguments, message):
    bags, y, _ = problem()
    Y = np.column_stack([y, 1 - y])
    assert refused(lambda: MultiLabelMIL(estimator).fit(bags, Y, **arguments)) == message


def test_several_labels_need_labels_of_the_same_length():
    bags = problem()[0]
    assert refused(lambda: MultiLabelMIL().fit(bags)).startswith("fit needs labels: fit(bags, y)")
    assert refused(lambda: MultiLabelMIL().fit(bags, [[0], [1, 0]])) == "labels are ragged, expected one per bag."


def test_several_labels_take_rows_with_bag_ids():
    bags, y, _ = problem()
    X, ids, _ = shuffled(bags)
    Y = np.column_stack([y, 1 - y])
    model = MultiLabelMIL(brief()).fit(X, dict(enumerate(Y)), bag_ids=ids, label_names=["a", "b"])
    order = list(dict.fromkeys(ids.tolist()))
    np.testing.assert_allclose(model.predict_proba(X, bag_ids=ids), model.predict_proba(bags)[order], rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X, bag_ids=ids), model.predict(bags)[order])
    assert list(model.predict_dist(X, bag_ids=ids)) == ["a", "b"]
