"""What must not change a model or a prediction: order, names, units, chunks, company; and the laws of aggregation."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone

from drawn import densities, fit, near, problems, properties, seeds
from psimil import Bags, PsiVGPMIL
from psimil.foundations.errors import DataWarning
from psimil.inference import draws
from psimil.inference.shards import MANY
from psimil.paper.baselines import AttentionMIL, BagForest, BagSVM, MeanPooling, Smoothing

small = problems(widths=st.integers(1, 6), exponents=st.just(0.0), kinds=("plain", "duplicates"))
BASELINES = {
    "BagSVM": BagSVM(random_state=0),
    "BagForest": BagForest(n_estimators=5, random_state=0),
    "MeanPooling": MeanPooling(),
    "AttentionMIL": AttentionMIL(hidden=4, attention=2, epochs=2, random_state=0),
    "smooth AttentionMIL": AttentionMIL(hidden=4, attention=2, epochs=2, smoothing=Smoothing(), random_state=0),
}
NAMES = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
given_points = {"standardize": False, "aggregate": "noisy_or"}


def prob(model, bags):
    return model.predict_proba(bags)[:, 1]


@contextmanager
def shared_draws():
    """As many draws as of the largest data, which all bags share: otherwise they hang by size and order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "MOST", draws.FEWEST)
        yield


def reordered(bags, order):
    return Bags.from_list([bags[int(b)] for b in order])


@properties
@given(small, seeds)
def test_the_order_of_training_bags_does_not_matter(drawn, seed):
    order = np.random.default_rng(seed).permutation(len(drawn.y))
    with shared_draws():
        straight, moved = (
            fit(drawn, bags=reordered(drawn.bags, o), y=drawn.y[o], inducing_points=drawn.points)
            for o in (np.arange(len(drawn.y)), order)
        )
    np.testing.assert_allclose(prob(moved, drawn.unseen), prob(straight, drawn.unseen), atol=near(drawn, 1e-7))
    assert moved.elbo_ == pytest.approx(straight.elbo_, rel=near(drawn, 1e-8), abs=1e-8)


@properties
@given(small, seeds)
def test_the_order_of_training_instances_does_not_matter(drawn, seed):
    rng = np.random.default_rng(seed)
    moved = Bags.from_list([rng.permutation(bag) for bag in drawn.bags])
    found, expected = (
        prob(fit(drawn, bags=b, inducing_points=drawn.points), drawn.unseen) for b in (moved, drawn.bags)
    )
    np.testing.assert_allclose(found, expected, atol=near(drawn, 1e-7))


@properties
@given(small, densities, seeds)
def test_the_order_of_bags_and_instances_to_predict_does_not_matter(drawn, density, seed):
    model, rng = fit(drawn, density=density), np.random.default_rng(seed)
    order = rng.permutation(len(drawn.bags))
    moved = Bags.from_list([rng.permutation(drawn.bags[int(b)]) for b in order])
    found, expected = model.predict_dist(moved), model.predict_dist(drawn.bags)
    np.testing.assert_allclose(found.prob, expected.prob[order], atol=near(drawn, 1e-8))
    np.testing.assert_allclose(found.std, expected.std[order], atol=near(drawn, 1e-7))


@properties
@given(small, st.integers(1, 9))
def test_bags_may_be_asked_for_in_portions(drawn, portion):
    model = fit(drawn)
    parts = [prob(model, drawn.bags[a : a + portion]) for a in range(0, len(drawn.bags), portion)]
    np.testing.assert_allclose(np.concatenate(parts), prob(model, drawn.bags), atol=1e-9)


@properties
@given(small, st.integers(1, 50))
def test_chunks_of_any_size_give_the_same_model(drawn, chunk_size):
    whole, streamed = (fit(drawn, chunk_size=size) for size in (None, chunk_size))
    np.testing.assert_allclose(prob(streamed, drawn.unseen), prob(whole, drawn.unseen), atol=near(drawn, 1e-8))
    assert streamed.elbo_ == pytest.approx(whole.elbo_, rel=near(drawn, 1e-8), abs=1e-8)


@properties
@given(small, st.integers(-900, 400), st.integers(-4, 4))
def test_the_unit_and_origin_of_standardised_features_do_not_matter(drawn, power, shift):
    assume(np.ptp(drawn.bags.X, axis=0).all())  # the unit of a constant feature is not known
    unit = 2.0**power  # a power of two, so that the numbers themselves stay exact

    def changed(rows):
        return unit * (rows + shift)

    other = fit(drawn, bags=Bags(changed(drawn.bags.X), drawn.bags.offsets), inducing_points=changed(drawn.points))
    plain = fit(drawn, inducing_points=drawn.points)
    unseen = Bags(changed(drawn.unseen.X), drawn.unseen.offsets)
    np.testing.assert_allclose(prob(other, unseen), prob(plain, drawn.unseen), atol=near(drawn, 1e-6))


@properties
@given(small, seeds)
def test_the_order_of_features_does_not_matter(drawn, seed):
    order = np.random.default_rng(seed).permutation(drawn.bags.n_features)
    other = fit(drawn, bags=Bags(drawn.bags.X[:, order], drawn.bags.offsets), inducing_points=drawn.points[:, order])
    found = prob(other, Bags(drawn.unseen.X[:, order], drawn.unseen.offsets))
    expected = prob(fit(drawn, inducing_points=drawn.points), drawn.unseen)
    np.testing.assert_allclose(found, expected, atol=near(drawn, 1e-7))


@properties
@given(small, st.lists(st.text(NAMES, max_size=4), min_size=10, max_size=10, unique=True))
def test_names_of_bags_do_not_matter(drawn, names):
    named = Bags(drawn.bags.X, drawn.bags.offsets, np.array(names[: len(drawn.bags)], dtype=object))
    np.testing.assert_array_equal(prob(fit(drawn, bags=named), drawn.unseen), prob(fit(drawn), drawn.unseen))


@properties
@given(small, seeds)
def test_rows_with_ids_may_come_in_any_order(drawn, seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(drawn.bags.X))
    ids = np.sort(rng.choice(10_000, len(drawn.bags), replace=False))[drawn.bags.bag_index][rows]
    model = fit(drawn, inducing_points=drawn.points)
    found = model.predict_proba(drawn.bags.X[rows], bag_ids=ids)[:, 1]
    appearing = list(dict.fromkeys(drawn.bags.bag_index[rows].tolist()))
    np.testing.assert_allclose(found, prob(model, drawn.bags)[appearing], atol=1e-8)
    frame = model.predict_instances(drawn.bags.X[rows], bag_ids=ids, as_frame=True)
    expected = np.concatenate(model.predict_instances(drawn.bags))[rows]
    np.testing.assert_allclose(frame["prob"], expected, atol=1e-8)


@properties
@given(small)
def test_a_bag_of_weight_two_is_that_bag_twice(drawn):
    twice = np.append(np.arange(len(drawn.y)), 0)
    weights = np.where(np.arange(len(drawn.y)) == 0, 2.0, 1.0)
    assume(drawn.bags.n_instances > MANY or drawn.bags.n_instances + drawn.bags.sizes[0] <= MANY)
    with shared_draws():
        weighted = fit(drawn, weights=weights, inducing_points=drawn.points, **given_points)
        repeated = fit(
            drawn, bags=reordered(drawn.bags, twice), y=drawn.y[twice], inducing_points=drawn.points, **given_points
        )
    assert_same_latents(weighted, repeated, drawn.unseen)
    assert weighted.elbo_ == pytest.approx(repeated.elbo_, rel=near(drawn, 1e-8), abs=1e-8)


def assert_same_latents(one, other, bags):
    """Weights are those of the bound; what is novel and how bags are called counts every bag once."""
    found, expected = (model.model_.latent(bags.X, raw=True) for model in (one, other))
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5, atol=1e-6)


@properties
@given(small)
def test_a_bag_of_no_weight_teaches_nothing(drawn):
    more = Bags.from_list([*drawn.bags, drawn.unseen[3]])
    assume((more.n_instances > MANY) == (drawn.bags.n_instances > MANY))
    weights = np.append(np.ones(len(drawn.y)), 0.0)
    with shared_draws():
        silent = fit(
            drawn, bags=more, y=np.append(drawn.y, 1), weights=weights, inducing_points=drawn.points, **given_points
        )
        alone = fit(drawn, inducing_points=drawn.points, **given_points)
    assert_same_latents(silent, alone, drawn.unseen)


@properties
@given(small, densities)
def test_noisy_or_multiplies_the_chances_of_being_negative_at_most(drawn, density):
    """No further than that: instances that hang together are negative together."""
    model = fit(drawn, density=density)
    found = model.predict_dist(drawn.unseen)
    for p, instances in zip(found.prob, found.split(found.instance_prob), strict=True):
        assert instances.max() - 1e-8 <= p <= 1 - np.prod(1 - instances) + 1e-8


@properties
@given(small)
def test_the_maximum_is_that_of_the_instances(drawn):
    model = fit(drawn, aggregate="max")
    highest = [part.max() for part in model.predict_instances(drawn.bags)]
    np.testing.assert_allclose(prob(model, drawn.bags), highest, atol=1e-12)


@properties
@given(small, st.sampled_from(["noisy_or", "max"]))
def test_a_bag_lies_between_its_highest_instance_and_their_sum(drawn, aggregate):
    model = fit(drawn, aggregate=aggregate)
    found = prob(model, drawn.bags)
    for bag, part in zip(found, model.predict_instances(drawn.bags), strict=True):
        assert part.max() - 1e-9 <= bag <= part.sum() + 1e-9


@properties
@given(small, densities)
def test_one_more_instance_never_lowers_a_bag(drawn, density):
    model = fit(drawn, density=density)
    larger = [np.concatenate([bag, drawn.bags.X[:1]]) for bag in drawn.unseen]
    assert (prob(model, larger) >= prob(model, drawn.unseen) - 1e-9).all()


@properties
@given(small, st.floats(0.02, 0.97), st.floats(0.001, 0.02))
def test_wider_intervals_contain_narrower_ones(drawn, level, more):
    model = fit(drawn)
    narrow, wide = (model.predict_dist(drawn.unseen, level=mass) for mass in (level, level + more))
    assert (wide.lower <= narrow.lower + 1e-12).all()
    assert (wide.upper >= narrow.upper - 1e-12).all()


@properties
@given(problems(widths=st.integers(1, 6)), st.integers(0, 2**31))
def test_the_same_seed_gives_the_same_bits(drawn, seed):
    first, second = (fit(drawn, random_state=seed, inducing="kmeans") for _ in range(2))
    np.testing.assert_array_equal(first.q_mean_, second.q_mean_)
    np.testing.assert_array_equal(first.predict_proba(drawn.unseen), second.predict_proba(drawn.unseen))


@properties
@given(drawn=problems(widths=st.integers(1, 6)), density=densities)
def test_a_file_keeps_every_bit(tmp_path_factory, drawn, density):
    model = fit(drawn, density=density)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    model.save(path)
    found, expected = (m.predict_dist(drawn.unseen) for m in (PsiVGPMIL.load(path), model))
    for name in ("prob", "std", "lower", "upper", "log_odds", "instance_prob", "instance_std"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@properties
@given(small, seeds)
def test_known_instance_labels_are_kept(drawn, seed):
    rng = np.random.default_rng(seed)
    inside = np.repeat(drawn.y, drawn.bags.sizes)
    known = np.where(rng.random(len(inside)) < 0.4, inside, -1)  # of negative bags 0, of positive ones 1: never wrong
    pi = fit(drawn, known=known).label_posterior_
    np.testing.assert_allclose(pi[known >= 0], known[known >= 0], atol=1e-12)


@pytest.mark.parametrize("kind", BASELINES)
@properties
@given(drawn=problems(labels="both", widths=st.integers(1, 20)))
def test_baselines_are_finite_whatever_the_bags(kind, drawn):
    if kind.endswith("AttentionMIL"):
        pytest.importorskip("torch")
    model = BASELINES[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        found = clone(model).fit(drawn.bags, drawn.y).predict_proba(drawn.unseen)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
