"""Joint training: moments, bound and gradient against the NumPy model, and a CNN that the bound teaches."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from psimil import VGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.sparse_gp import KernelState
from psimil.paper.ascent import ascend

torch = pytest.importorskip("torch")

from psimil.ct.network.attcnn import scan_features  # noqa: E402
from psimil.ct.network.cnn_training import train_cnn  # noqa: E402
from psimil.ct.network.joint_training import PASSES, settle, train_jointly  # noqa: E402


def test_other_models_are_refused():
    bags, y, _ = make_bags(n_bags=10, seed=1)
    beside = VGPMIL(n_inducing=5, context="bag", random_state=0).fit(bags, y).model_
    with pytest.raises(InputError, match="joint training needs context=None"):
        train_jointly(None, beside, [], [])
    linked = VGPMIL(n_inducing=5, labels="chain", random_state=0).fit(bags, y).model_
    with pytest.raises(InputError, match=r'joint training needs labels="independent", as its bound does'):
        train_jointly(None, linked, [], [])
    with pytest.raises(InputError, match=r'joint training needs labels="independent", as its bound does'):
        train_jointly(None, replace(linked, coupling=0.0, sharing=0.5), [], [])


def scans_with_blobs(count, seed):
    """Slices of noise; in positive scans some have a bright square in the first window."""
    rng = np.random.default_rng(seed)
    images, y = [], np.arange(count) % 2
    for label in y:
        scan = rng.normal(0.5, 0.1, size=(6, 3, 12, 12)).astype(np.float32)
        if label:
            scan[2:4, 0, 4:8, 4:8] += 0.4
        images.append(scan.clip(0, 1))
    return images, y


@pytest.fixture(scope="module")
def start():
    images, y = scans_with_blobs(80, seed=0)
    model = train_cnn(images, y, n_features=4, channels=(8, 8), epochs=3, validation=0, batch_scans=4, seed=2).model
    return images, y, model


def features_of(model, images):
    return [scan_features(model, scan).double().numpy() for scan in images]


def test_the_bound_rises_and_the_network_learns(start):
    images, y, model = start
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gp = VGPMIL(n_inducing=10, random_state=0).fit(features_of(model, images), y)
    seen = []
    trained = train_jointly(
        model,
        gp.model_,
        images,
        y,
        epochs=3,
        learning_rate=1e-3,
        batch_scans=4,
        augment=False,
        seed=1,
        callback=seen.append,
    )
    bounds = [record.bound for record in trained.history]
    assert bounds[-1] > bounds[0] + 0.1
    assert trained.best_epoch == int(np.argmax(bounds))
    assert seen == list(trained.history)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    fresh, labels = scans_with_blobs(30, seed=5)
    after = VGPMIL(n_inducing=10, random_state=0).fit(features_of(trained.model, images), y)
    scores = [
        roc_auc_score(labels, fit.decision_function(features_of(network, fresh)))
        for fit, network in ((gp, model), (after, trained.model))
    ]
    assert scores[1] > max(0.97, scores[0])


def test_held_out_scans_choose_the_epoch_and_the_result_repeats(start):
    images, y, model = start
    gp = VGPMIL(n_inducing=10, random_state=0).fit(features_of(model, images), y).model_
    one, two = (train_jointly(model, gp, images, y, hold=[0, 1, 2, 3], epochs=2, seed=3) for _ in range(2))
    scores = [record.validation for record in one.history]
    assert one.best_epoch == int(np.argmax(scores))
    assert one.history == two.history
    assert all(
        torch.equal(a, b) for a, b in zip(one.model.state_dict().values(), two.model.state_dict().values(), strict=True)
    )


def test_settle_is_the_fitting_loop(start):
    images, y, model = start
    found = features_of(model, images)
    gp = VGPMIL(n_inducing=10, random_state=0).fit(found, y).model_
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in found])])
    X, labels = gp.scaling.apply(np.concatenate(found)), Labels(y, offsets)
    shard = Shard(X, labels, np.ones(len(y)), HyperbolicSecant(), keep=True)
    record = list(islice(ascend(shard, KernelState(gp.gp, gp.posterior)), PASSES + 1))[-1]
    settled, bound = settle(gp, found, y)
    assert bound == record.bound.total
    np.testing.assert_array_equal(settled.posterior.m, record.posterior.m)
