"""What fit accepts and what it leaves behind."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from psimil import GVGPMIL, RBF, VGPMIL, Bags, GammaMixture, HyperbolicSecant, PsiVGPMIL, SmoothLaplace
from psimil.foundations.errors import DataWarning, InputError
from tiny import QUICK, as_list, brief, fitted, problem, quick, shuffled

POINTS = np.random.default_rng(5).normal(size=(8, 3))


def proba(estimator, *args, **kwargs):
    return estimator.predict_proba(*args, **kwargs)[:, 1]


def test_the_small_problem_is_learned():
    bags, y, y_instances = problem()
    model = fitted()
    assert np.mean(model.predict(bags) == y) >= 0.9
    instance = np.concatenate(model.predict_instances(bags))
    assert instance[y_instances == 1].mean() > instance[y_instances == 0].mean() + 0.3


@pytest.mark.parametrize("form", ["list", "tuple", "nested lists", "object array", "frames", "3-D array"])
def test_every_form_of_bags_gives_the_same_model(form):
    bags, y, _ = problem()
    if form == "3-D array":  # bags of equal size
        bags = Bags.from_list([bag[:2] for bag in bags])
    held = {
        "list": as_list,
        "tuple": lambda b: tuple(as_list(b)),
        "nested lists": lambda b: [bag.tolist() for bag in b],
        "object array": lambda b: np.array([*as_list(b), None], dtype=object)[:-1],
        "frames": lambda b: [pd.DataFrame(bag) for bag in b],
        "3-D array": lambda b: np.stack(as_list(b)),
    }[form](bags)
    expected = proba(brief().fit(bags, y), bags)
    np.testing.assert_array_equal(proba(brief().fit(held, y), held), expected)


def test_shuffled_rows_give_the_predictions_of_ordered_rows():
    bags, y, _ = problem()
    X, ids, order = shuffled(bags)
    ordered = quick(inducing_points=POINTS).fit(bags, y)
    other = quick(inducing_points=POINTS).fit(X, dict(enumerate(y)), bag_ids=ids)
    appearing = list(dict.fromkeys(ids.tolist()))
    np.testing.assert_allclose(proba(other, X, bag_ids=ids), proba(ordered, bags)[appearing], atol=1e-9)
    np.testing.assert_allclose(other.label_posterior_, ordered.label_posterior_[order], atol=1e-9)
    frame = other.predict_instances(X, bag_ids=ids, as_frame=True)
    expected = np.concatenate(ordered.predict_instances(bags))[order]
    np.testing.assert_allclose(frame["prob"], expected, atol=1e-9)
    np.testing.assert_array_equal(frame["bag"], ids)


def test_bags_come_out_as_their_text_ids_first_appear():
    bags, y, _ = problem()
    names = np.array([f"scan-{(7 * b) % 24:02d}" for b in range(24)])
    assert len(set(names)) == 24
    X, ids, _ = shuffled(bags)
    model = quick(inducing_points=POINTS).fit(X, dict(zip(names, y, strict=True)), bag_ids=names[ids])
    by_id = dict(zip(pd.unique(names[ids]), proba(model, X, bag_ids=names[ids]), strict=True))
    expected = proba(quick(inducing_points=POINTS).fit(bags, y), bags)
    np.testing.assert_allclose([by_id[name] for name in names], expected, atol=1e-9)
    assert model.predict_dist(X, bag_ids=names[ids]).ids.tolist() == pd.unique(names[ids]).tolist()


@pytest.mark.parametrize("kind", [np.int64, np.float64, bool, list, pd.Series], ids=lambda k: k.__name__)
def test_labels_per_row_equal_labels_per_bag(kind):
    bags, y, _ = problem()
    X, ids, _ = shuffled(bags)
    convert = (lambda v: v.tolist()) if kind is list else pd.Series if kind is pd.Series else (lambda v: v.astype(kind))
    expected = proba(brief().fit(X, dict(enumerate(y)), bag_ids=ids), bags)
    np.testing.assert_array_equal(proba(brief().fit(X, convert(y[ids]), bag_ids=ids), bags), expected)
    appearing = convert(y[pd.unique(ids)])
    appearing = appearing.to_numpy() if kind is pd.Series else appearing
    with pytest.warns(DataWarning, match="in which bags first appear"):
        np.testing.assert_array_equal(proba(brief().fit(X, appearing, bag_ids=ids), bags), expected)


def test_a_column_of_labels_is_accepted():
    bags, y, _ = problem()
    np.testing.assert_array_equal(proba(brief().fit(bags, y[:, None]), bags), proba(brief().fit(bags, y), bags))


def test_labels_per_row_that_differ_within_a_bag_are_refused():
    bags, y, _ = problem()
    labels = np.repeat(y, bags.sizes)
    labels[bags.offsets[5]] = 1 - labels[bags.offsets[5]]
    with pytest.raises(InputError, match=r"^bag 5 has rows with different labels\.$"):
        quick().fit(bags.X, labels, bag_ids=bags.bag_index)


def test_known_instance_labels_in_every_form():
    bags, y, y_instances = problem()
    known = np.where(np.arange(len(y_instances)) % 3 == 0, y_instances, -1)
    flat = quick(inducing_points=POINTS).fit(bags, y, y_instances=known)
    # a mean over draws whose weights sum to one but for rounding
    np.testing.assert_allclose(flat.label_posterior_[known >= 0], known[known >= 0], rtol=1e-14)
    unknown = flat.label_posterior_[(known < 0) & (np.repeat(y, bags.sizes) == 1)]
    assert ((unknown > 0) & (unknown <= 1)).all()
    per_bag = quick(inducing_points=POINTS).fit(bags, y, y_instances=bags.split(known))
    series = quick(inducing_points=POINTS).fit(bags, y, y_instances=pd.Series(known))
    np.testing.assert_array_equal(proba(per_bag, bags), proba(flat, bags))
    np.testing.assert_array_equal(proba(series, bags), proba(flat, bags))
    X, ids, order = shuffled(bags)
    rows = quick(inducing_points=POINTS).fit(X, dict(enumerate(y)), bag_ids=ids, y_instances=known[order])
    np.testing.assert_allclose(proba(rows, bags), proba(flat, bags), atol=1e-9)
    found = rows.label_posterior_[known[order] >= 0]
    np.testing.assert_allclose(found, known[order][known[order] >= 0], rtol=1e-14)
    assert found.max() <= 1
    assert np.abs(proba(flat, bags) - proba(quick(inducing_points=POINTS).fit(bags, y), bags)).max() > 1e-3


def test_all_unknown_equals_nothing_known():
    bags, y, _ = problem()
    unknown = np.full(len(bags.X), -1)
    np.testing.assert_array_equal(
        proba(brief().fit(bags, y, y_instances=unknown), bags), proba(brief().fit(bags, y), bags)
    )


def test_a_positive_bag_may_hold_known_negatives_beside_unknowns():
    bags = Bags.from_list([[[0.0], [1.0]], [[0.2], [0.1]]])
    model = quick(n_inducing=2, calibrate=False).fit(bags, [1, 0], y_instances=[0, -1, -1, -1])
    assert model.label_posterior_ == pytest.approx([0.0, 1.0, 0.0, 0.0], abs=1e-14)


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 1], [1, 0, 0, 0]], ids=str)
def test_a_class_may_have_a_single_bag(labels):
    bags = Bags.from_list([np.full((2, 1), float(k)) for k in range(len(labels))])
    model = quick(n_inducing=2).fit(bags, labels)
    assert np.isfinite(model.predict_proba(bags)).all()


def test_weights_of_one_change_nothing_and_others_do():
    bags, y, _ = problem()
    plain = proba(quick().fit(bags, y), bags)
    np.testing.assert_array_equal(proba(quick().fit(bags, y, sample_weight=np.ones(len(y))), bags), plain)
    heavy = proba(quick(calibrate=False).fit(bags, y, sample_weight=np.where(y == 1, 5.0, 1.0)), bags)
    assert heavy.mean() > proba(quick(calibrate=False).fit(bags, y), bags).mean() + 0.01


def test_weight_two_equals_the_bag_twice():
    bags, y, _ = problem()
    settings = {"inducing_points": POINTS, "standardize": False, "calibrate": False, "tol": 0.0}
    twice = np.concatenate([np.arange(24), np.arange(0, 24, 3)])
    weights = np.where(np.arange(24) % 3 == 0, 2.0, 1.0)
    weighted = quick(**settings).fit(bags, y, sample_weight=weights)
    repeated = quick(**settings).fit(bags[twice], y[twice])
    np.testing.assert_allclose(weighted.q_mean_, repeated.q_mean_, atol=1e-9)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, abs=1e-8)


def test_attributes():
    bags, y, _ = problem()
    model = fitted()
    assert model.classes_.tolist() == [0, 1]
    assert model.n_features_in_ == 3
    assert len(model.history_) == model.n_iter_ <= 60
    assert model.elbo_ == model.history_[-1]["elbo"]
    assert model.converged_ is True
    assert isinstance(model.kernel_, RBF)
    assert model.inducing_points_.shape == (8, 3)
    assert model.q_mean_.shape == (9,)  # eight inducing points and the constant mean
    assert model.q_cov_.shape == (9, 9)
    np.testing.assert_allclose(model.q_cov_, model.q_cov_.T)
    assert np.linalg.eigvalsh(model.q_cov_).min() > 0
    assert model.mean_ == pytest.approx(3.0 * model.q_mean_[-1])
    assert model.label_posterior_.shape == (len(bags.X),)
    assert 0 < model.threshold_ < 1
    assert 0 < model.instance_threshold_ < 1
    assert model.training_counts_ == {"bags": 24, "positive": int(y.sum()), "instances": len(bags.X)}
    loo = model.out_of_bag_
    assert loo.prediction.prob.shape == loo.log_predictive.shape == loo.influence.shape == (24,)
    expected = np.log(np.where(y == 1, loo.prediction.prob, 1 - loo.prediction.prob))
    np.testing.assert_allclose(loo.log_predictive, expected, atol=1e-8)
    assert loo.mean_log_predictive == pytest.approx(expected.mean())


def test_zero_mean_has_no_extra_weight():
    bags, y, _ = problem()
    model = quick(mean="zero").fit(bags, y)
    assert model.q_mean_.shape == (8,)
    assert model.mean_ == 0.0


TERMS = {"variational": ("likelihood",), "augmented": ("potential", "scale_mixture", "bags", "entropy")}


@pytest.mark.parametrize(
    ("density", "posterior"),
    [
        (HyperbolicSecant(), "variational"),
        (SmoothLaplace(1.0, 0.5), "variational"),
        (HyperbolicSecant(), "augmented"),
        (GammaMixture(1.0, 0.5), "augmented"),
    ],
    ids=str,
)
def test_history_terms_sum_to_the_bound_and_it_hardly_falls(density, posterior):
    bags, y, _ = problem()
    residual = "full" if posterior == "augmented" else "projected"
    model = quick(density=density, posterior=posterior, residual=residual, kernel=RBF(1.0)).fit(bags, y)
    bounds = [row["elbo"] for row in model.history_]
    for k, row in enumerate(model.history_, start=1):
        parts = sum(row[term] for term in TERMS[posterior]) - row["kl"] - row["log_z"]
        assert row["elbo"] == pytest.approx(parts, rel=1e-12)
        assert (row["stage"], row["iteration"]) == ("fit", k)
    allowed = [0.25 * row.get("error", 0.0) + 1e-9 for row in model.history_[:-1]]
    assert (np.diff(bounds) >= np.negative(allowed)).all()
    seconds = [row["seconds"] for row in model.history_]
    assert seconds == sorted(seconds)
    assert len(seconds) > 3


@pytest.mark.parametrize("how", [{}, {"posterior": "augmented", "start": 0.5}], ids=str)
def test_same_seed_same_bits_and_the_global_state_is_untouched(how):
    bags, y, _ = problem()
    np.random.seed(12)
    before = np.random.get_state()[1].copy()
    settings = {"hyperparameters": "bound", "calibrate": True, "max_iter": 60, **how}
    one, two = (quick(**settings).fit(bags, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(bags), two.predict_proba(bags))
    np.testing.assert_array_equal(one.q_cov_, two.q_cov_)
    sampled = [m.predict_dist(bags, expectation="sample").prob for m in (one, one, two)]
    np.testing.assert_array_equal(sampled[0], sampled[1])
    np.testing.assert_array_equal(sampled[0], sampled[2])
    other = quick(**settings, inducing="kmeans").set_params(random_state=1).fit(bags, y)
    assert (other.predict_proba(bags) != one.predict_proba(bags)).any()
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_a_generator_and_a_random_state_are_accepted():
    bags, y, _ = problem()
    for make in (np.random.default_rng, np.random.RandomState):
        results = [quick(random_state=make(4)).fit(bags, y).predict_proba(bags) for _ in range(2)]
        np.testing.assert_array_equal(*results)


def test_fit_leaves_its_input_and_parameters_alone():
    bags, y, _ = problem()
    held, labels = as_list(bags), y.copy()
    estimator = quick(kernel=RBF(), inducing_points=POINTS.copy())
    before = estimator.get_params()
    estimator.fit(held, labels).predict_dist(held)
    assert all((a == b).all() for a, b in zip(held, bags, strict=True))
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(estimator.inducing_points, POINTS)
    assert all(estimator.get_params()[name] is value for name, value in before.items())


def test_refit_forgets_the_first_fit():
    bags, y, _ = problem()
    once = quick().fit(bags, y)
    twice = quick().fit(bags[:10], 1 - y[:10]).fit(bags, y)
    np.testing.assert_array_equal(once.predict_proba(bags), twice.predict_proba(bags))
    assert twice.n_iter_ == once.n_iter_


def test_explicit_inducing_points_are_in_input_units():
    bags, y, _ = problem()
    far = Bags(bags.X * [1.0, 100.0, 0.01] + 7.0, bags.offsets)
    points = POINTS * [1.0, 100.0, 0.01] + 7.0
    model = quick(inducing_points=points, n_inducing=999).fit(far, y)
    np.testing.assert_allclose(model.inducing_points_, points, rtol=1e-12)
    expected = quick(inducing_points=POINTS).fit(bags, y).predict_proba(bags)
    np.testing.assert_allclose(model.predict_proba(far), expected, atol=1e-8)


def test_named_models_differ_only_in_their_density():
    bags, y, _ = problem()
    secant = PsiVGPMIL(density=HyperbolicSecant(), **QUICK).fit(bags, y).predict_proba(bags)
    np.testing.assert_array_equal(VGPMIL(**QUICK).fit(bags, y).predict_proba(bags), secant)
    gamma = PsiVGPMIL(density=GammaMixture(1.0, 1.0), **QUICK).fit(bags, y).predict_proba(bags)
    np.testing.assert_array_equal(GVGPMIL(**QUICK).fit(bags, y).predict_proba(bags), gamma)
    assert np.abs(gamma - secant).max() > 1e-3


def test_an_unsettled_bound_is_a_warning():
    bags, y, _ = problem()
    with pytest.warns(ConvergenceWarning) as caught:
        model = quick(max_iter=2, tol=1e-12).fit(bags, y)
    assert str(caught[0].message) == "the posterior had not settled after 2 passes; raise max_iter or tol."
    assert len(caught) == 1
    assert model.converged_ is False
    assert model.n_iter_ == 2
