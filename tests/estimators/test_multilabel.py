"""Several labels at once: shared kernel, own posteriors, the same scores as separate fits for less work."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from psimil import VGPMIL, Bags
from psimil.estimators.multilabel import MultiLabelMIL, _teaching
from psimil.foundations.errors import InputError, MissingFile, ModelFileError, NotFitted


def three_kinds(seed, n_bags=240):
    """Bags of six instances in three features; label k means an instance far out in feature k."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_bags, 3)) < 0.35).astype(int)
    X = rng.normal(size=(n_bags, 6, 3))
    for k in range(3):
        X[Y[:, k] == 1, k, k] += 5.0
    return Bags(X.reshape(-1, 3), np.arange(0, 6 * n_bags + 1, 6)), Y


@pytest.fixture(scope="module")
def fitted():
    bags, Y = three_kinds(0)
    base = VGPMIL(n_inducing=25, random_state=0)
    return MultiLabelMIL(base).fit(bags, Y, label_names=["a", "b", "c"]), base


def test_every_label_is_learned_over_one_kernel(fitted):
    model, base = fitted
    test, Y = three_kinds(1)
    found = model.predict_proba(test)
    scores = [roc_auc_score(Y[:, k], found[:, k]) for k in range(3)]
    assert min(scores) > 0.93
    first = model.estimators_[0].model_.gp
    for one in model.estimators_[1:]:
        assert one.model_.gp is first
        assert not np.array_equal(one.q_mean_, model.estimators_[0].q_mean_)
    bags, labels = three_kinds(0)
    alone = base.fit(bags, labels[:, 1]).predict_proba(test)[:, 1]
    assert scores[1] > roc_auc_score(Y[:, 1], alone) - 0.03


def test_labels_cost_no_kernel_steps(fitted):
    model, _ = fitted
    for one in model.estimators_:
        assert {row["stage"] for row in one.history_} == {"fit"}
        assert one.n_iter_ < 60


def test_distributions_and_labels_are_by_name(fitted):
    model, _ = fitted
    test, _ = three_kinds(2, n_bags=10)
    found = model.predict_dist(test, level=0.8)
    assert list(found) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(test)[:, 2], found["c"].label)
    assert found["a"].level == 0.8
    assert found["a"].instance_prob.shape == (60,)


def test_save_and_load(tmp_path, fitted):
    model, _ = fitted
    test, _ = three_kinds(2, n_bags=10)
    model.save(tmp_path / "model")
    again = MultiLabelMIL.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(test), model.predict_proba(test))
    assert again.label_names_ == ("a", "b", "c")
    with pytest.raises(MissingFile):
        MultiLabelMIL.load(tmp_path)
    for text in ("", "[]", '{"format": "other", "labels": ["a"]}', '{"format": "psimil labels 1", "labels": [1]}'):
        (tmp_path / "model" / "labels.json").write_text(text)
        with pytest.raises(ModelFileError, match="not the index"):
            MultiLabelMIL.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("Y", "names", "message"),
    [
        (np.zeros(4), None, r"labels have shape \(4,\), expected \(4, labels\)"),
        (np.zeros((3, 2)), None, "4 bags but 3 labels"),
        (np.full((4, 2), 2), None, "labels must be 0 or 1"),
        (np.full((4, 2), "a"), None, "labels must be 0 or 1"),
        (np.zeros((4, 2)), ["a"], "2 labels need as many different names, got 1"),
        (np.zeros((4, 2)), ["a", "a"], "different names"),
    ],
)
def test_labels_that_do_not_fit(Y, names, message):
    bags, _ = three_kinds(0, n_bags=4)
    with pytest.raises(InputError, match=message):
        MultiLabelMIL().fit(bags, Y, label_names=names)


def test_a_model_that_is_not_fitted():
    with pytest.raises(NotFitted):
        MultiLabelMIL().predict_proba(three_kinds(0, n_bags=4)[0])


def test_when_every_bag_has_a_label_the_most_balanced_teaches():
    T = np.array([[1, 0], [1, 1], [1, 0]])
    np.testing.assert_array_equal(_teaching(T), [0, 1, 0])
    np.testing.assert_array_equal(_teaching(np.array([[1, 0], [0, 0], [0, 1]])), [1, 0, 1])


@pytest.mark.parametrize("context", ["bag", "auto"])
def test_labels_share_the_context_that_the_kernel_was_learned_with(context):
    bags, Y = three_kinds(3, n_bags=40)
    model = MultiLabelMIL(VGPMIL(n_inducing=10, max_iter=4, tol=0.0, context=context, random_state=0)).fit(bags, Y)
    shared = VGPMIL(n_inducing=10, max_iter=4, tol=0.0, context=context, random_state=0).fit(bags, Y.max(axis=1))
    assert {one.model_.context for one in model.estimators_} == {shared.model_.context}
    assert model.predict_proba(bags).shape == (40, 3)


def test_labels_share_the_noise_that_was_learned_with_the_kernel():
    """Copies of an instance, of which some bags have more: as if each of two equal labels were learned alone."""
    rng, y = np.random.default_rng(0), np.arange(80) % 2
    sizes, means = rng.integers(1, 40, 80), rng.normal(size=(80, 2)) + np.outer(2.0 * y - 1.0, [1.0, 0.0])
    bags = Bags.from_list([m + 0.05 * rng.normal(size=(n, 2)) for m, n in zip(means, sizes, strict=True)])
    alone = VGPMIL(n_inducing=20, random_state=0).fit(bags, y)
    model = MultiLabelMIL(VGPMIL(n_inducing=20, random_state=0)).fit(bags, np.column_stack([y, y]))
    assert alone.model_.sharing > 0.3
    for one in model.estimators_:
        assert one.model_.sharing == alone.model_.sharing
        np.testing.assert_allclose(one.predict_proba(bags), alone.predict_proba(bags), atol=0.02)
