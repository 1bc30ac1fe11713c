"""Smooth attention: Sm against dense matrices, the network around it against loops, and what order means to it."""

import numpy as np
import pytest

from psimil import Bags
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.paper.baselines import AttentionMIL, Smoothing
from psimil.paper.baselines.network import GatedAttention

pytestmark = pytest.mark.usefixtures("one_torch_thread")

LINKS = np.array([1, 1, 0, 0, 1, 0, 1, 1, 1, 0], dtype=float)  # chains of three, one, two and four instances
BAGS, Y, _ = make_bags(n_bags=80, separation=5.0, seed=1)


def normalised(links):
    """I - L of the chains as a dense matrix; L has a row of zeros where an instance is alone."""
    A = np.diag(links[:-1], 1)
    A = A + A.T
    degree = A.sum(axis=0)
    root = 1 / np.sqrt(np.where(degree > 0, degree, 1))
    return root[:, None] * A * root + np.diag(degree == 0)


@pytest.mark.parametrize("links", [LINKS, LINKS * np.linspace(0.5, 2.0, 10)], ids=["links", "weights"])
@pytest.mark.parametrize("shape", [(10,), (10, 3)])
def test_many_steps_reach_the_minimum(links, shape):
    torch = pytest.importorskip("torch")
    U = np.random.default_rng(0).standard_normal(shape)
    found = Smoothing(alpha=0.7, steps=200)(torch.from_numpy(U), torch.from_numpy(links)).numpy()
    L = np.eye(10) - normalised(links)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(10) + 0.7 / 0.3 * L, U), atol=1e-12)
    assert np.sum(found * (L @ found)) < np.sum(U * (L @ U))
    np.testing.assert_allclose(found[3], U[3], rtol=1e-12)  # alone in its chain


def test_each_step_goes_one_neighbour_further():
    torch = pytest.importorskip("torch")
    U = np.eye(10)[6]
    for steps in (1, 2, 3):
        g = U
        for _ in range(steps):
            g = 0.5 * normalised(LINKS) @ g + 0.5 * U
        found = Smoothing(steps=steps)(torch.from_numpy(U), torch.from_numpy(LINKS)).numpy()
        np.testing.assert_allclose(found, g, rtol=1e-12)
        assert np.flatnonzero(found).tolist() == list(range(6, 7 + steps))


@pytest.mark.parametrize("of", ["features", "scores"])
def test_network_agrees_with_dense_matrices(of):
    torch = pytest.importorskip("torch")
    smoothing = Smoothing(of, alpha=0.6, steps=4)
    network = GatedAttention.initial(3, 4, 2, torch.Generator().manual_seed(1), smoothing)
    W, w, V, v, U, u, a, c, d = np.split(network.theta.double().numpy(), [12, 16, 24, 26, 34, 36, 38, 42])
    W, V, U = W.reshape(3, 4), V.reshape(4, 2), U.reshape(4, 2)
    X, bag = np.random.default_rng(0).standard_normal((10, 3)), np.repeat([0, 1, 2, 3], [3, 1, 2, 4])
    found = network.forward(*map(torch.from_numpy, (X.astype(np.float32), bag)), 4, torch.from_numpy(LINKS).float())

    def smooth(values):
        g = values
        for _ in range(4):
            g = 0.6 * normalised(LINKS) @ g + 0.4 * values
        return g

    z = np.maximum(X @ W + w, 0)
    if of == "features":
        z, V, U, a = smooth(z), V / np.linalg.norm(V, 2), U / np.linalg.norm(U, 2), a / np.linalg.norm(a)
    scores = (np.tanh(z @ V + v) / (1 + np.exp(-(z @ U + u)))) @ a
    raised = np.exp(smooth(scores) if of == "scores" else scores)
    weights = raised / np.bincount(bag, raised)[bag]
    np.testing.assert_allclose(found[1], weights, atol=1e-6)
    pooled = np.stack([weights[bag == b] @ z[bag == b] for b in range(4)])
    np.testing.assert_allclose(found[0], pooled @ c + d, atol=1e-6)


@pytest.mark.parametrize("of", ["features", "scores"])
def test_order_and_gaps_matter_and_direction_does_not(of):
    pytest.importorskip("torch")
    model = AttentionMIL(hidden=16, attention=8, epochs=10, learning_rate=0.02, smoothing=Smoothing(of), random_state=0)
    model.fit(BAGS, Y)
    expected = model.decision_function(BAGS)
    np.testing.assert_array_equal(model.decision_function(BAGS.in_order()), expected)
    backwards = Bags.from_list([bag[::-1] for bag in BAGS])
    np.testing.assert_allclose(model.decision_function(backwards), expected, atol=1e-5)
    rng = np.random.default_rng(0)
    assert np.abs(model.decision_function([rng.permutation(bag) for bag in BAGS]) - expected).max() > 1e-3
    apart = Bags(BAGS.X, BAGS.offsets, links=np.zeros(len(BAGS.X)))
    assert np.abs(model.decision_function(apart) - expected).max() > 1e-3


def test_the_links_of_training_bags_are_used():
    pytest.importorskip("torch")
    model = AttentionMIL(hidden=8, attention=4, epochs=3, learning_rate=0.05, smoothing=Smoothing(), random_state=0)
    apart = Bags(BAGS.X, BAGS.offsets, links=np.zeros(len(BAGS.X)))
    ordered, alone = (model.fit(bags, Y).decision_function(apart) for bags in (BAGS, apart))
    assert np.abs(ordered - alone).max() > 1e-3


def test_alpha_0_on_scores_is_attention_mil():
    pytest.importorskip("torch")
    plain = AttentionMIL(hidden=8, attention=4, epochs=5, random_state=0)
    smooth = AttentionMIL(hidden=8, attention=4, epochs=5, smoothing=Smoothing("scores", alpha=0.0), random_state=0)
    np.testing.assert_allclose(*(model.fit(BAGS, Y).decision_function(BAGS) for model in (plain, smooth)), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": "weights"}, 'of must be "features" or "scores"'),
        ({"alpha": 1.0}, "alpha must be a share below 1"),
        ({"alpha": -0.1}, "alpha must be a number >= 0"),
        ({"steps": 0}, "steps must be a whole number >= 1"),
    ],
)
def test_bad_smoothing_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Smoothing(**options)


def test_smoothing_of_another_kind_is_refused():
    pytest.importorskip("torch")
    with pytest.raises(InputError, match="smoothing must be a Smoothing such as"):
        AttentionMIL(smoothing=0.5).fit(BAGS, Y)
