"""Gated attention: the network against plain loops, its training, and what it says without torch."""

import sys

import numpy as np
import pytest

from psimil import Bags
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning, InputError
from psimil.paper.baselines import AttentionMIL, BagSVM
from psimil.paper.baselines.attention import hold_out, log_loss, train_network
from psimil.paper.baselines.network import GatedAttention, segment_softmax

pytestmark = pytest.mark.usefixtures("one_torch_thread")

BAGS, Y, WITNESS = make_bags(n_bags=80, separation=5.0, seed=1)


def small(**parameters):
    return AttentionMIL(**{"hidden": 16, "attention": 8, "epochs": 40, "learning_rate": 0.02, **parameters})


def test_without_torch_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # import torch raises ImportError
    with pytest.raises(InputError, match=r"needs torch.*pip install .*\[torch\]"):
        AttentionMIL().fit(BAGS, Y)
    assert BagSVM(random_state=0).fit(BAGS, Y).score(BAGS, Y) > 0.9


def sizes_to_bag(torch, sizes):
    return torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))


def test_segment_softmax_agrees_with_a_loop():
    torch = pytest.importorskip("torch")
    sizes = [1, 4, 2, 7]
    scores = 30 * torch.randn(14, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores[5:7] += 1e4  # exp overflows unless the highest score of the bag is taken off
    scores.requires_grad_()
    found = segment_softmax(scores, sizes_to_bag(torch, sizes), 4)
    expected = torch.cat([torch.softmax(part, 0) for part in scores.split(sizes)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    direction = torch.arange(14.0, dtype=torch.float64)
    gradients = [torch.autograd.grad(weights @ direction, scores)[0] for weights in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


def test_network_agrees_with_a_loop_over_bags():
    torch = pytest.importorskip("torch")
    network = GatedAttention.initial(3, 4, 2, torch.Generator().manual_seed(1))
    assert network.theta.shape == (3 * 4 + 4 + 2 * (4 * 2 + 2) + 2 + 4 + 1,)
    W, w, V, v, U, u, a, c, d = np.split(network.theta.double().numpy(), [12, 16, 24, 26, 34, 36, 38, 42])
    X = np.random.default_rng(0).standard_normal((6, 3))
    logits, weights = network.forward(torch.from_numpy(X).float(), sizes_to_bag(torch, [2, 1, 3]), 3)
    for bag, logit, alpha in zip(np.split(X, [2, 3]), logits, weights.split([2, 1, 3]), strict=True):
        z = np.maximum(bag @ W.reshape(3, 4) + w, 0)
        gate = np.tanh(z @ V.reshape(4, 2) + v) / (1 + np.exp(-(z @ U.reshape(4, 2) + u)))
        weight = np.exp(gate @ a) / np.exp(gate @ a).sum()
        np.testing.assert_allclose(alpha, weight, atol=1e-6)
        np.testing.assert_allclose(logit, weight @ z @ c + d[0], atol=1e-6)


def test_dropout_keeps_the_mean_of_a_linear_read_out():
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    network = GatedAttention.initial(3, 8, 2, generator)
    X, bag = torch.ones(20000, 3), torch.arange(20000)  # bags of one instance: the logit is linear in z
    exact, _ = network.forward(X[:1], bag[:1], 1)
    drawn, _ = network.forward(X, bag, 20000, dropout=0.4, generator=generator)
    assert len(drawn.unique()) > 10
    assert abs(drawn.mean() - exact[0]) < 6 * drawn.std() / np.sqrt(20000)


def test_attention_points_at_the_positive_instances():
    pytest.importorskip("torch")
    clf = small(random_state=0).fit(BAGS, Y)
    weights = clf.attention_weights(BAGS)
    assert [len(part) for part in weights] == BAGS.sizes.tolist()
    np.testing.assert_allclose([part.sum() for part in weights], 1.0, atol=1e-6)
    positive = np.repeat(Y == 1, BAGS.sizes)
    flat = np.concatenate(weights) * np.repeat(BAGS.sizes, BAGS.sizes)  # 1 where attention is even
    assert flat[positive & (WITNESS == 1)].mean() > 1.5 * flat[positive & (WITNESS == 0)].mean()
    flipped = clf.attention_weights(Bags.from_list([bag[::-1] for bag in BAGS]))
    for part, other in zip(weights, flipped, strict=True):
        np.testing.assert_allclose(part, other[::-1], atol=1e-6)


def test_training_leaves_the_state_of_torch_alone():
    torch = pytest.importorskip("torch")
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    small(epochs=2, random_state=0).fit(BAGS, Y).predict(BAGS)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()


def test_stops_early_and_keeps_the_best_weights():
    pytest.importorskip("torch")
    noise = np.random.default_rng(0).permutation(Y)  # nothing to learn, so the held-out loss soon rises
    schedule = AttentionMIL(epochs=200, learning_rate=0.02, patience=5, validation=0.25)
    run = train_network(BAGS, noise, schedule, np.random.default_rng(1))
    best = int(np.argmin(run.losses))
    assert len(run.losses) == best + 1 + 5 < 200
    _, hold = hold_out(noise, 0.25, np.random.default_rng(1))
    assert len(hold) == 20
    assert noise[hold].sum() == 10
    assert log_loss(run.network, BAGS[hold], noise[hold]) == pytest.approx(run.losses[best], abs=1e-6)


def test_restarts_keep_the_lowest_loss():
    pytest.importorskip("torch")
    one, three = (small(epochs=5, restarts=n, random_state=0).fit(BAGS, Y).validation_losses_ for n in (1, 3))
    assert min(three) <= min(one)


@pytest.mark.parametrize("options", [{"validation": 0.0}, {}])
def test_nothing_is_held_out_where_nothing_can_be(options):
    pytest.importorskip("torch")
    keep = slice(None) if options else np.concatenate([np.flatnonzero(Y)[:1], np.flatnonzero(Y == 0)])
    clf = small(random_state=0, **options).fit(BAGS[keep], Y[keep])
    assert clf.validation_losses_ == []
    assert clf.score(BAGS[keep], Y[keep]) > 0.9


def test_one_label_teaches_no_attention():
    pytest.importorskip("torch")
    with pytest.warns(DataWarning, match="all 80 bags are negative"):
        clf = small().fit(BAGS, np.zeros(80))
    with pytest.raises(InputError, match="no attention was learned"):
        clf.attention_weights(BAGS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden": 0}, "hidden must be a whole number >= 1"),
        ({"epochs": 0}, "epochs must be a whole number >= 1"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"learning_rate": 0.0}, "learning_rate must be a number > 0"),
        ({"weight_decay": -1.0}, "weight_decay must be a number >= 0"),
        ({"dropout": 1.0}, "dropout must be a share below 1"),
        ({"validation": 1}, "validation must be a share below 1"),
        ({"validation": np.nan}, "validation must be a number >= 0"),
    ],
)
def test_bad_parameters_are_refused(options, message):
    pytest.importorskip("torch")
    with pytest.raises(InputError, match=message):
        AttentionMIL(**options).fit(BAGS, Y)
