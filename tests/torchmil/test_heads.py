"""Models of psimil in torchmil's Trainer and wrapper: numbers, bound and gradients are those of psimil."""

from dataclasses import replace

import numpy as np
import pytest

from psimil import GVGPMIL, RBF, VGPMIL, Linear
from psimil.datasets import make_bags
from psimil.foundations.errors import InputError
from psimil.inference.shards import Shard
from psimil.model.bag_likelihoods import Labels
from psimil.model.densities import HyperbolicSecant
from psimil.model.sparse_gp import KernelState
from psimil.paper.ascent import ascend

torch = pytest.importorskip("torch")
pytest.importorskip("torchmil.models")

import torchmetrics  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from torchmil.data import collate_fn  # noqa: E402
from torchmil.models import MILModel, MILModelWrapper  # noqa: E402
from torchmil.utils import Trainer  # noqa: E402

from psimil.torchmil import BagDataset, FittedHead, GPHead  # noqa: E402

BAGS, Y, KNOWN = make_bags(n_bags=24, n_features=2, seed=3)


def batch_of():
    data = BagDataset(BAGS, Y, dtype="float64")
    return next(iter(DataLoader(data, batch_size=len(BAGS), collate_fn=collate_fn)))


def numpy_bound(model):
    shard = Shard(model.scaling.apply(BAGS.X), Labels(Y, BAGS.offsets), np.ones(len(Y)), HyperbolicSecant())
    return next(ascend(shard, KernelState(model.gp, model.posterior))).bound.total


@pytest.mark.parametrize(
    "estimator",
    [
        VGPMIL(n_inducing=8, random_state=0),
        VGPMIL(n_inducing=8, labels="chain", context="bag", random_state=0),
        VGPMIL(n_inducing=8, aggregate="max", calibrate=True, random_state=0),
        GVGPMIL(n_inducing=8, random_state=0),
    ],
    ids=["default", "chain in context", "largest, calibrated", "gamma"],
)
def test_a_fitted_head_gives_the_predictions_of_the_model(estimator):
    estimator.fit(BAGS, Y)
    expected, batch = estimator.predict_dist(BAGS), batch_of()
    head = FittedHead(estimator)
    assert isinstance(head, MILModel)
    logits, instances = MILModelWrapper(head).predict(batch, return_inst_pred=True)
    np.testing.assert_allclose(torch.sigmoid(logits), expected.prob, atol=1e-6)
    where = batch["mask"].bool()
    np.testing.assert_allclose(torch.sigmoid(instances[where]), expected.instance_prob, atol=1e-6)
    assert (torch.sigmoid(instances[~where]) == 0).all()
    np.testing.assert_array_equal(MILModelWrapper(head)(batch), logits)
    _, losses = MILModelWrapper(head).compute_loss(batch)
    assert losses["log_loss"].item() == pytest.approx(-np.log(np.where(Y, expected.prob, 1 - expected.prob)).mean())


@pytest.mark.parametrize("kernel", [None, RBF(), Linear(0.5)])
def test_the_loss_of_all_bags_is_the_bound_of_the_fit(kernel):
    fitted = VGPMIL(n_inducing=8, kernel=kernel, posterior="augmented", random_state=0).fit(BAGS, Y)
    for head in (GPHead.of(fitted), GPHead.start(BAGS, Y, n_inducing=8, kernel=kernel)):
        batch = batch_of()
        loss = head.compute_loss(batch["Y"], batch["X"], batch["mask"])[1]["negative_bound"]
        assert -len(Y) * loss.item() == pytest.approx(numpy_bound(head.model), rel=1e-7)


def test_batches_share_the_divergence_out():
    head, losses = GPHead.of(VGPMIL(n_inducing=8, random_state=0).fit(BAGS, Y)), []
    for batch in DataLoader(BagDataset(BAGS, Y, dtype="float64"), batch_size=6, collate_fn=collate_fn):
        losses.append(MILModelWrapper(head).compute_loss(batch)[1]["negative_bound"].item())
    whole = MILModelWrapper(head).compute_loss(batch_of())[1]["negative_bound"].item()
    assert np.mean(losses) == pytest.approx(whole, rel=1e-10)


def test_gradients_are_differences_of_the_bound():
    head, batch = GPHead.of(VGPMIL(n_inducing=5, random_state=0).fit(BAGS, Y)), batch_of()
    head.compute_loss(batch["Y"], batch["X"], batch["mask"])[1]["negative_bound"].backward()
    for parameter in (head.Z, head.log_kernel, head.q_mean, head.q_spread):
        flat, values = parameter.data.view(-1), []
        for step in (-1e-5, 2e-5):
            flat[0] += step
            values.append(-numpy_bound(head.model) / len(Y))
        flat[0] -= 1e-5
        assert parameter.grad.view(-1)[0].item() == pytest.approx((values[1] - values[0]) / 2e-5, rel=2e-3, abs=1e-6)


def test_forward_is_what_predict_says_and_has_a_gradient():
    fitted = VGPMIL(n_inducing=8, random_state=0).fit(BAGS, Y)
    head, batch = GPHead.of(fitted), batch_of()
    X = batch["X"].clone().requires_grad_()
    logits = head(X, batch["mask"])
    np.testing.assert_allclose(logits.detach(), head.predict(batch["X"], batch["mask"])[0], atol=1e-6)
    logits.sum().backward()
    assert X.grad[batch["mask"].bool()].abs().sum() > 0 and (X.grad[~batch["mask"].bool()] == 0).all()
    bare = replace(head.model, gp=fitted.model_.gp, posterior=fitted.model_.posterior)
    np.testing.assert_allclose(torch.sigmoid(logits).detach(), bare.predict(BAGS).prob, atol=1e-6)


def trainer_of(head, learning_rate):
    metrics = {"accuracy": torchmetrics.Accuracy(task="binary")}
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate)
    return Trainer(head, optimizer, metrics, device="cpu", disable_pbar=True, verbose=False)


def test_the_trainer_raises_the_bound_and_keeps_its_best_model():
    torch.manual_seed(0)
    head = GPHead.start(BAGS, Y, n_inducing=8)
    before, chance = numpy_bound(head.model), np.mean(Y == (head.predict(batch_of()["X"], None)[0] > 0).numpy())
    loader = DataLoader(BagDataset(BAGS, Y), batch_size=8, shuffle=True, collate_fn=collate_fn)
    trainer = trainer_of(head, 0.1)
    trainer.train(12, loader)
    assert numpy_bound(head.model) > before + 1.0
    assert trainer.best_obj_metric >= max(chance, 0.8)
    other = GPHead.start(BAGS, Y, n_inducing=8)
    other.load_state_dict(head.state_dict())
    np.testing.assert_array_equal(other.predict(batch_of()["X"])[0], head.predict(batch_of()["X"])[0])
    prediction = head.model.predict(BAGS)
    assert (prediction.std > 0).all() and (prediction.lower < prediction.upper).all()


def test_a_network_before_it_learns_too():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    head = GPHead.start(BAGS, Y, n_inducing=8, feat_ext=network)
    first = network[0].weight.detach().clone()
    loader = DataLoader(BagDataset(BAGS, Y), batch_size=24, collate_fn=collate_fn)
    batch = next(iter(loader))
    before = MILModelWrapper(head).compute_loss(batch)[1]["negative_bound"].item()
    trainer_of(head, 0.02).train(10, loader)
    assert MILModelWrapper(head).compute_loss(batch)[1]["negative_bound"].item() < before
    assert not torch.equal(network[0].weight, first)
    np.testing.assert_allclose(
        head(batch["X"], batch["mask"]).detach(), head.predict(batch["X"], batch["mask"], False), atol=1e-5
    )


def test_what_cannot_be_trained_is_refused():
    for settings, message in (
        ({"labels": "chain"}, "FittedHead takes any model"),
        ({"context": "bag"}, "FittedHead takes any model"),
        ({"residual": "full", "posterior": "augmented"}, 'needs residual="projected"'),
    ):
        with pytest.raises(InputError, match=message):
            GPHead.of(VGPMIL(n_inducing=5, hyperparameters=None, random_state=0, **settings).fit(BAGS, Y))
    sharing = VGPMIL(n_inducing=5, hyperparameters=None, random_state=0).fit(BAGS, Y)
    sharing.model_ = replace(sharing.model_, sharing=0.5)
    with pytest.raises(InputError, match="FittedHead takes any model"):
        GPHead.of(sharing)
    head, batch = GPHead.start(BAGS, Y, n_inducing=5), batch_of()
    with pytest.raises(InputError, match="labels of bags must be 0 or 1"):
        head.compute_loss(batch["Y"] + 1, batch["X"], batch["mask"])
    with pytest.raises(InputError, match=r"X has shape \(.*\), expected \(bags, instances, features\)"):
        head(batch["X"][0])
    with pytest.raises(InputError, match="mask must have shape"):
        head(batch["X"], batch["mask"][:, :1])
    with pytest.raises(InputError, match="an instance in every bag"):
        head(batch["X"], torch.zeros_like(batch["mask"]))
    with pytest.raises(InputError, match="label of bag"):
        GPHead.start(BAGS, Y + 1)
