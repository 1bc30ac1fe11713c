"""Models that see instances in the context of their bag: what they learn from and predict, and who decides."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from psimil import RBF, VGPMIL, Bags, Linear, PsiVGPMIL
from psimil.cli.progress import Course
from psimil.foundations.errors import DataWarning, InputError
from psimil.foundations.phases import JUDGING, LEARNING, following
from psimil.inference import context_choice, training
from psimil.inference.context_choice import context_evidence, preferred_context
from psimil.model.context import in_context
from psimil.model.kernels import Columns
from psimil.store import StoreWriter, open_store
from tiny import brief, problem, quick, shuffled


def levelled(seed=0, n_bags=60):
    """Positive bags have a larger mean of the first feature, of which single instances tell hardly anything."""
    rng, y = np.random.default_rng(seed), np.arange(n_bags) % 2
    bags = [rng.normal(0.0, 3.0, (6, 2)) for _ in y]
    return Bags.from_list([X - X.mean(axis=0) + [2.0 * t - 1.0, 0.0] for X, t in zip(bags, y, strict=True)]), y


def ringed(seed=0, n_bags=60):
    """Positive bags have an instance in the middle of a ring; mean, minimum and maximum tell hardly anything."""
    rng, y = np.random.default_rng(seed), np.arange(n_bags) % 2
    X = rng.uniform(2.0, 4.0, (n_bags, 6, 2)) * rng.choice([-1.0, 1.0], (n_bags, 6, 2))
    X[y == 1, 0] = rng.normal(0.0, 0.5, (n_bags // 2, 2))
    return Bags.from_list(list(X)), y


def beside(own):
    """The kernel of a fit in context, of three features and nine of their bag: the two add up."""
    return Columns(own, 0, 3) + Columns(RBF(), 3, 12)


def same(one, two, names=("prob", "std", "lower", "upper", "instance_prob", "instance_novelty")):
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def judged(bags, y, **parameters):
    return VGPMIL(**{"n_inducing": 20, "context": "auto", "random_state": 0, **parameters}).fit(bags, y)


@pytest.mark.parametrize("posterior", ["variational", "sampled", "augmented"])
def test_a_fit_in_context_is_a_fit_to_bags_in_context(posterior):
    """The same as to put the features of bags beside those of instances by hand, before fit and before predict."""
    bags, y, _ = problem()
    found = brief(context="bag", posterior=posterior).fit(bags, y)
    by_hand = brief(posterior=posterior, kernel=beside(RBF())).fit(in_context(bags), y)
    same(found.predict_dist(bags, joint=True), by_hand.predict_dist(in_context(bags), joint=True))
    same(found.out_of_bag_.prediction, by_hand.out_of_bag_.prediction, ("prob", "instance_prob"))
    assert found.model_.context and not by_hand.model_.context
    assert (found.n_features_in_, by_hand.n_features_in_) == (3, 12)
    assert found.inducing_points_.shape[1] == 12


def test_nothing_changes_without_context():
    bags, y, _ = problem()
    assert VGPMIL().context is None
    assert not brief().fit(bags, y).model_.context


def test_rows_in_any_order_come_back_in_theirs():
    bags, y, _ = problem()
    rows, ids, order = shuffled(bags)
    model = brief(context="bag").fit(bags, y)
    expected = np.concatenate(model.predict_instances(bags))[order]
    found = model.predict_instances(rows, bag_ids=ids, as_frame=True)["prob"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_an_instance_has_another_probability_in_another_bag():
    bags, y = levelled()
    model = VGPMIL(n_inducing=20, context="bag", random_state=0).fit(bags, y)
    instance = np.zeros((1, 2))
    low, high = (np.full((5, 2), [level, 0.0]) for level in (-1.0, 1.0))
    found = model.predict_instances([np.vstack([instance, low]), np.vstack([instance, high]), instance])
    assert found[0][0] < found[1][0]
    assert found[2].shape == (1,) and 0 < found[2][0] < 1  # a bag of one is its own context


def test_features_are_those_of_the_caller():
    bags, y, _ = problem()
    named = Bags(bags.X, bags.offsets, feature_names=["a", "b", "c"])
    model = brief(context="bag").fit(named, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    turned = Bags(bags.X[:, ::-1], bags.offsets, feature_names=["c", "b", "a"])
    same(model.predict_dist(turned), model.predict_dist(named))
    for wrong in (bags.X[:, :2], in_context(bags).X):
        with pytest.raises(InputError, match="model expects 3 features, got"):
            model.predict(Bags(wrong, bags.offsets))


def test_instances_without_a_bag_are_refused():
    bags, y, _ = problem()
    model = brief(context="bag").fit(bags, y).model_
    with pytest.raises(InputError, match="Give bags, not instances alone"):
        model.latent(bags.X)
    assert model.latent(in_context(bags).X)[0].shape == (len(bags.X),)


def test_warnings_name_features_of_the_caller_only():
    rng, y = np.random.default_rng(0), np.arange(20) % 2
    X = rng.normal(size=(20, 4, 2))
    X[:, 0, 0], X[:, 1:, 0] = 0.0, np.abs(X[:, 1:, 0])  # its minimum is 0 in every bag
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        brief(context="bag").fit(list(X), y)
    X[:, :, 1] = 1.0
    with pytest.warns(DataWarning, match=r"1 features are constant .*columns 1\)"):
        brief(context="bag").fit(list(X), y)


def test_a_streamed_fit_sees_what_a_fit_in_memory_sees(tmp_path, monkeypatch):
    bags, y, _ = problem()
    for number, some in enumerate((range(10), range(10, 24))):
        with StoreWriter(tmp_path / "store", 3, append=number > 0, dtype="float64") as writer:
            for b in some:
                writer.add(bags[b], int(y[b]), str(b))
    store, settings = open_store(tmp_path / "store"), {"context": "bag", "n_inducing": 20, "hyperparameters": "bound"}
    kernel = beside(Linear(1.0 / 3.0) + RBF())
    within = brief(**settings).fit(bags, y)
    same(brief(**settings).fit(store, y).predict_dist(store), within.predict_dist(bags))  # read at once
    same(within.predict_dist(store, joint=True), within.predict_dist(bags, joint=True))
    monkeypatch.setattr(training, "LARGE", 0)
    streamed = [brief(chunk_size=30, **settings).fit(some, y) for some in (bags, store)]
    same(*(model.predict_dist(store) for model in streamed))
    by_hand = brief(chunk_size=30, kernel=kernel, **{**settings, "context": None}).fit(in_context(bags), y)
    same(streamed[1].predict_dist(store), by_hand.predict_dist(in_context(bags)))


def test_minibatches_and_an_evaluation_set_are_seen_in_context():
    bags, y, _ = problem()
    found = brief(context="bag").fit(bags, y, batch_bags=8)
    by_hand = brief(kernel=beside(RBF())).fit(in_context(bags), y, batch_bags=8)
    same(found.predict_dist(bags), by_hand.predict_dist(in_context(bags)))
    watched = brief(context="bag", early_stopping="log_loss").fit(bags, y, eval_set=(bags, y))
    by_hand = brief(early_stopping="log_loss", kernel=beside(RBF()))
    by_hand.fit(in_context(bags), y, eval_set=(in_context(bags), y))
    scores = [[row["eval_log_loss"] for row in model.history_] for model in (watched, by_hand)]
    assert scores[0] == scores[1]


def test_more_bags_are_learned_in_context():
    bags, y, _ = problem()
    found = brief(context="bag").partial_fit(bags[:16], y[:16]).partial_fit(bags[16:], y[16:])
    by_hand = brief(kernel=beside(RBF())).partial_fit(in_context(bags[:16]), y[:16])
    by_hand.partial_fit(in_context(bags[16:]), y[16:])
    same(found.predict_dist(bags), by_hand.predict_dist(in_context(bags)))
    with pytest.raises(InputError, match="in the context of their bag, but context=None"):
        found.set_params(context=None).partial_fit(bags, y)


def test_points_of_the_callers_own_are_points_in_context():
    bags, y, _ = problem()
    Z = in_context(bags).X[:5]
    model = brief(context="bag", inducing_points=Z).fit(bags, y)
    np.testing.assert_allclose(model.inducing_points_, Z)
    with pytest.raises(InputError, match=r"inducing_points have shape \(5, 3\), expected \(points, 12\)"):
        brief(context="bag", inducing_points=bags.X[:5]).fit(bags, y)


@pytest.mark.parametrize(("draw", "expected"), [(levelled, True), (ringed, False)])
def test_evidence_decides_for_context_where_bags_differ_as_bags(draw, expected):
    bags, y = draw()
    model = judged(bags, y)
    beside, without = model.model_.context_evidence
    assert model.model_.context == expected
    assert (beside - without > 5.0) == expected  # kernels add up: context that is no use costs little
    chosen = VGPMIL(n_inducing=20, context="bag" if expected else None, random_state=0).fit(bags, y)
    same(model.predict_dist(bags), chosen.predict_dist(bags))  # as if it had been asked for
    assert chosen.model_.context_evidence is None


def test_both_evidences_stand_in_the_history():
    bags, y = levelled()
    model = judged(bags, y, kernel=RBF())
    rows = [row for row in model.history_ if row["stage"] == "context"]
    assert [row["context"] for row in rows] == sorted((row["context"] for row in rows), reverse=True)  # none, then bag
    assert {row["context"] for row in rows} == {"none", "bag"}
    best = {word: max(row["log_evidence"] for row in rows if row["context"] == word) for word in ("bag", "none")}
    np.testing.assert_allclose(model.model_.context_evidence, list(best.values()), rtol=1e-12)
    assert context_evidence(model.history_) == model.model_.context_evidence
    assert all("context" not in row for row in model.history_ if row["stage"] != "context")
    assert any(row["stage"] == "kernel" for row in model.history_)  # the chosen one is learned for the fit's own points
    seconds = [row["seconds"] for row in model.history_]
    assert seconds == sorted(seconds)
    asked = VGPMIL(n_inducing=20, kernel=RBF(), context="bag", random_state=0).fit(bags, y)
    assert all("context" not in row for row in asked.history_)


def test_both_kernels_are_learned_on_the_same_bags(monkeypatch):
    """Of many bags some are chosen by the seed, whatever the choice of inducing points drew before it."""
    bags, y = ringed()
    monkeypatch.setattr("psimil.inference.preparation.ENOUGH_BAGS", 20)
    monkeypatch.setattr("psimil.inference.preparation.ENOUGH_ROWS", 10)
    seen, learn = [], context_choice.learn_kernel

    def spied(shard, gp, *given, **how):
        seen.append((shard, gp))
        return learn(shard, gp, *given, **how)

    monkeypatch.setattr(context_choice, "learn_kernel", spied)
    judged(bags, y, n_inducing="auto")
    (without, plain), (within, rich) = seen
    assert without.X.shape == (120, 2) and within.X.shape == (120, 8)
    np.testing.assert_array_equal(without.labels.T, within.labels.T)
    np.testing.assert_allclose(without.X, within.X[:, :2], rtol=1e-12)
    assert plain.size == rich.size


def test_the_judge_places_points_without_a_look_at_labels(monkeypatch):
    """Points of positive and of negative bags apart have seen what log p(T) asks for, and flatter it."""
    bags, y = ringed()
    placed = []

    def spied(shard, gp, *given, **how):
        placed.append(gp.Z)
        return learn(shard, gp, *given, **how)

    learn = context_choice.learn_kernel
    monkeypatch.setattr(context_choice, "learn_kernel", spied)
    for labels in (y, 1 - y):
        judged(bags, labels)
    np.testing.assert_array_equal(placed[0], placed[2])
    np.testing.assert_array_equal(placed[1], placed[3])


def test_known_instances_and_weights_of_the_bags_that_judge_are_theirs(monkeypatch):
    bags, y, of_instances = problem()
    monkeypatch.setattr("psimil.inference.preparation.ENOUGH_BAGS", 8)
    monkeypatch.setattr("psimil.inference.preparation.ENOUGH_ROWS", 1)
    seen, learn = [], context_choice.learn_kernel

    def spied(shard, *given, **how):
        seen.append(shard)
        return learn(shard, *given, **how)

    monkeypatch.setattr(context_choice, "learn_kernel", spied)
    weights, model = 1.0 + np.arange(len(y)) / len(y), VGPMIL(n_inducing=5, context="auto", random_state=0)
    model.fit(bags, y, y_instances=of_instances, sample_weight=weights)
    shard = seen[0]
    assert len(shard.weights) == 8
    whole = {
        tuple(row): (label, weights[b]) for row, label, b in zip(bags.X, of_instances, bags.bag_index, strict=True)
    }
    judging = bags[np.flatnonzero(np.isin(weights, shard.weights))].X
    X = shard.X * judging.std(axis=0) + judging.mean(axis=0)
    for row, label, weight in zip(X, shard.labels.known, shard.instance_weights, strict=True):
        near = min(whole, key=lambda one: np.abs(np.array(one) - row).sum())
        assert whole[near] == (label, weight)


def test_a_generator_goes_on_as_after_the_fit_that_was_chosen():
    bags, y = ringed()
    one, two = np.random.default_rng(5), np.random.default_rng(5)
    judged(bags, y, random_state=one)
    VGPMIL(n_inducing=20, random_state=two).fit(bags, y)
    assert one.bit_generator.state == two.bit_generator.state


def test_evidence_for_context_must_be_positive():
    rows = [{"stage": "context", "context": word, "learned_log_evidence": -3.0} for word in ("none", "bag")]
    assert preferred_context(rows) is None
    assert preferred_context([rows[0], {**rows[1], "learned_log_evidence": -1.9}]) == "bag"
    assert preferred_context([rows[0], {**rows[1], "learned_log_evidence": -2.1}]) is None
    assert context_evidence(rows[:1]) is None


def test_progress_goes_one_way_through_both_searches():
    bags, y = ringed()
    course, shares, phases = Course(), [0.0], []

    def hear(told):
        course.hear(told)
        phases.append(getattr(told, "phase", None))
        if course._plan:
            shares.append(course.share)

    with following(hear):
        judged(bags, y)
    first = [phases.index(phase) for phase in (JUDGING["none"], JUDGING["bag"], LEARNING)]
    assert first == sorted(first)
    assert min(np.diff(shares)) > -0.2 and max(shares) <= 1.0  # a phase may turn out longer than it seemed


@pytest.mark.parametrize(
    ("parameters", "culprit"),
    [
        ({"hyperparameters": None}, "hyperparameters=None"),
        ({"hyperparameters": "paper", "posterior": "augmented"}, "hyperparameters='paper'"),
        ({"hyperparameters": "bound", "posterior": "augmented"}, "posterior='augmented'"),
        ({"hyperparameters": "bound", "inducing_points": np.zeros((2, 3))}, "inducing_points"),
    ],
)
def test_what_cannot_be_judged_is_refused(parameters, culprit):
    bags, y, _ = problem()
    with pytest.raises(InputError, match=f'which {culprit} does not allow. Give context="bag" or None'):
        quick(context="auto", **parameters).fit(bags, y)


def test_other_words_are_refused():
    bags, y, _ = problem()
    with pytest.raises(InputError, match="context must be one of None, 'bag', 'auto', got 'scan'"):
        brief(context="scan").fit(bags, y)


def test_a_warm_start_keeps_the_context_that_it_has():
    bags, y, _ = problem()
    model = brief(context="bag", warm_start=True).fit(bags, y)
    assert model.fit(bags, y).model_.context
    with pytest.raises(InputError, match="in the context of their bag, but context=None is asked for"):
        model.set_params(context=None).fit(bags, y)
    plain = brief(warm_start=True).fit(bags, y)
    with pytest.raises(InputError, match="without context, but context='bag' is asked for"):
        plain.set_params(context="bag").fit(bags, y)
    again = PsiVGPMIL(n_inducing=8, max_iter=4, tol=0.0, context="auto", warm_start=True, random_state=0).fit(bags, y)
    with pytest.raises(InputError, match="cannot be judged on a warm start"):
        again.fit(bags, y)
    assert again.partial_fit(bags, y).training_counts_["bags"] == 48  # the first call has decided


def test_a_fit_with_chains_goes_on_with_the_coupling_of_the_context_that_it_chose(tmp_path):
    """Kernels are judged with links of strength one; that of the chosen context then has a coupling of its own."""
    bags, y = levelled(n_bags=40)

    def interrupt(row):
        if row["stage"] == "fit":
            raise KeyboardInterrupt

    model = VGPMIL(context="auto", random_state=0, labels="chain", n_inducing=10)
    whole = clone(model).fit(bags, y, checkpoint=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        clone(model).fit(bags, y, checkpoint=tmp_path / "part", callbacks=[interrupt])
    again = clone(model).fit(bags, y, checkpoint=tmp_path / "part")
    assert [row["coupling"] for row in whole.history_ if "coupling" in row] == [whole.model_.coupling]
    assert again.model_.context and again.model_.coupling == whole.model_.coupling
    same(again.predict_dist(bags), whole.predict_dist(bags))
