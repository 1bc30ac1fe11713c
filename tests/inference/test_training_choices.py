"""What a fit begins with: whether V stays in memory, where labels come from, and which way of training is taken."""

import numpy as np
import pytest

from psimil import GammaMixture, HyperbolicSecant, PsiVGPMIL
from psimil.estimators.parameters import check_parameters, options_of
from psimil.foundations.errors import InputError
from psimil.inference import preparation, training
from psimil.inference.options import Execution, Options
from psimil.inference.preparation import Supervision
from psimil.inference.training import Fit, train
from psimil.paper.augmented import Augmented
from psimil.paper.label_posteriors import RULES
from tiny import problem


class Begun(Exception):
    """Ends a fit before its first pass."""


@pytest.fixture
def begin(monkeypatch):
    """The shard, the state and pi that the passes of a fit begin with."""

    def passes(fit, state, stage):
        raise Begun(fit.shards, state, fit.algorithm.pi)

    def begin(previous=None, random_state=0, **choices):
        bags, y, _ = problem()
        rng = np.random.default_rng(random_state)
        fixed = {"posterior": "augmented", "algorithm": Augmented, "hyperparameters": None}
        options = Options(HyperbolicSecant(), n_inducing=4, **{**fixed, **choices})
        with pytest.raises(Begun) as begun:
            train(bags, Supervision(y, np.ones(len(y))), options, rng=rng, previous=previous)
        return begun.value.args

    monkeypatch.setattr(Fit, "_passes", passes)
    return begin


def test_a_chunk_size_streams_even_small_data(begin):
    assert begin()[0].keep and begin()[0].whole
    streamed, _, _ = begin(chunk_size=7)
    assert not streamed.keep and not streamed.whole
    assert streamed.rows == 7


def test_data_that_do_not_fit_are_streamed_without_a_chunk_size(begin, monkeypatch):
    kept, state, _ = begin()
    exactly = kept.X.nbytes // kept.X.shape[1] * state.gp.size
    monkeypatch.setattr(preparation, "KEPT_BYTES", exactly)
    assert begin()[0].keep and begin()[0].whole
    monkeypatch.setattr(preparation, "KEPT_BYTES", exactly - 1)
    assert not begin()[0].keep and not begin()[0].whole


def test_without_a_start_the_labels_speak_first(begin):
    _, state, pi = begin()
    assert pi is None
    assert not state.posterior.m.any()


def test_a_random_start_draws_pi_up_to_its_number(begin):
    _, state, pi = begin(start=0.25)
    assert pi.shape == (len(problem()[0].X),)
    assert 0 <= pi.min() < 0.05
    assert 0.2 < pi.max() <= 0.25
    assert state.posterior.m.any()  # which follows from pi


def test_a_model_to_start_from_is_stronger_than_a_random_start(begin):
    previous = model_of(*begin()[1:2])
    _, state, pi = begin(previous, start=0.25)
    assert pi is None
    assert state.posterior is previous.posterior
    assert state.gp is previous.gp


def test_fits_hardly_ever_share_their_noise(begin, monkeypatch):
    seeds, made = [], Fit.__post_init__
    monkeypatch.setattr(Fit, "__post_init__", lambda fit: seeds.append(fit.seed) or made(fit))
    for random_state in range(4):
        begin(random_state=random_state)
    assert max(seeds) > 2**24


def model_of(state):
    from psimil.model.scaling import Scaling
    from psimil.predictive.trained import TrainedModel

    return TrainedModel(Scaling.identity(3), state.gp, state.posterior)


@pytest.fixture
def way(monkeypatch):
    """Which way of training is taken: "memory" or "streamed"."""

    def prepared(how):
        def prepare(*_):
            raise Begun(how)

        return prepare

    monkeypatch.setattr(training, "prepare_in_memory", prepared("memory"))
    monkeypatch.setattr(training, "prepare_streamed", prepared("streamed"))

    def way(chunk_size=None, known=None, how=None, **given):
        bags, y, _ = problem()
        options, execution = Options(GammaMixture(), chunk_size=chunk_size), Execution(**how or {})
        supervision, rng = Supervision(y, np.ones(len(y)), known), np.random.default_rng(0)
        with pytest.raises(Begun) as begun:
            train(bags, supervision, options, rng=rng, execution=execution, **given)
        return begun.value.args[0]

    return way


def test_small_data_are_trained_in_memory_and_large_ones_streamed_where_a_chunk_size_is_given(way, monkeypatch):
    N = len(problem()[0].X)
    monkeypatch.setattr(training, "LARGE", N)
    assert way() == way(chunk_size=5) == "memory"
    monkeypatch.setattr(training, "LARGE", N - 1)
    assert way() == "memory"
    assert way(chunk_size=5) == "streamed"


@pytest.mark.parametrize("how", [{"batch_bags": 1}, {"spread": lambda shards: shards}, {"keep": lambda progress: None}])
def test_minibatches_other_machines_and_kept_progress_ask_for_streaming(way, how):
    assert way(how=how) == "streamed"
    assert way(how=how, callbacks=[print]) == "streamed"


@pytest.mark.parametrize(
    ("what", "given"), [("y_instances", {"known": 1}), ("warm_start", {"previous": 1}), ("eval_set", {"evaluation": 1})]
)
def test_what_needs_all_instances_at_once_is_taken_in_memory_and_refused_by_streaming(way, what, given):
    assert way(**given) == "memory"
    with pytest.raises(InputError, match=f"do not take {what}"):
        way(how={"batch_bags": 2}, **given)


def test_a_choice_is_known_by_its_letters_and_its_kind():
    spelled = "".join(["mean", "_", "field"])  # equal to the word in the list, and another object
    parameters = PsiVGPMIL(label_posterior=spelled, posterior="augmented").get_params(deep=False) | {
        "density": HyperbolicSecant()
    }
    assert options_of(parameters, 3).rule is RULES["mean_field"]
    with pytest.raises(InputError, match="calibrate"):
        check_parameters({"calibrate": 1})
