"""ONNX files against our own predictions in a real runtime: random models, ordinary and extreme bags, refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

from psimil import GVGPMIL, RBF, VGPMIL, Constant, InputError, Linear, Matern32, Matern52, MultiLabelMIL
from psimil.datasets import make_bags
from psimil.export import to_onnx
from psimil.export.onnx_model import onnx_model
from psimil.foundations.errors import NotFitted
from psimil.foundations.hamiltonian import Chains
from psimil.model.labels import Classes
from psimil.model.scaling import Scaling
from psimil.model.sparse_gp import Posterior, SparseGP
from psimil.predictive.moments import Calibration
from psimil.predictive.novelty import Novelty
from psimil.predictive.referral import Referral
from psimil.predictive.trained import TrainedModel

onnxruntime = pytest.importorskip("onnxruntime")
TOLERANCE = 1e-6
CONTRACT = ["logits", "attention"]  # of WSInfer-MIL, in its order
OURS = ["prob", "std", "log_odds", "label", "instance_prob", "instance_std", "instance_log_odds", "instance_label"]
LATENT = ["latent_mean", "latent_variance"]


def estimator_of(model, classes=Classes(0, 1)):  # noqa: B008
    clf = VGPMIL()
    clf.model_, clf._classes, clf._feature_names = model, classes, None
    clf.training_counts_ = {"bags": 1, "positive": 1, "instances": 1}
    return clf


def random_kernel(rng, D, kind):
    scale = rng.uniform(0.5, 3.0, D).tolist() if rng.random() < 0.5 else float(rng.uniform(0.5, 3.0))
    variance = float(10 ** rng.uniform(-1, 3.5))
    found = (RBF, Matern52, Matern32)[kind](variance, scale)
    for other in (Linear(float(10 ** rng.uniform(-2, 1))), Constant(0.7)):
        found = found + other if rng.random() < 0.5 else found
    return found


def random_model(seed):
    """A model as a fit could leave it, with latent values from tiny ones to some beyond the reach of all nodes."""
    rng = np.random.default_rng(seed)
    D, M = int(rng.integers(1, 8)), int(rng.integers(1, 20))
    context, sampled, joint = seed % 5 == 4, seed % 5 == 3, seed % 3 > 0
    width = 4 * D if context else D
    bias = float(rng.choice([0.0, 2.0]))
    residual = "full" if not (joint or sampled) and seed % 2 else "projected"
    gp = SparseGP.build(random_kernel(rng, width, seed % 3), rng.normal(size=(M, width)), bias=bias, residual=residual)
    R = np.linalg.cholesky(np.eye(gp.size) + 10 ** rng.uniform(-2, 3) * np.cov(rng.normal(size=(gp.size, 3 * gp.size))))
    posterior = Posterior(rng.normal(size=gp.size) * 10 ** rng.uniform(-2, 1), R)
    draws = posterior.m + rng.normal(size=(64, gp.size)) @ posterior.U.T
    location = rng.normal(size=width) * 10 ** rng.uniform(-1, 3)
    return TrainedModel(
        Scaling(location, 10 ** rng.uniform(-2, 2, width)) if rng.random() < 0.8 else Scaling.identity(width),
        gp,
        posterior,
        aggregate=str(rng.choice(["noisy_or", "noisy_or", "max"])),
        calibration=Calibration(*(10 ** rng.uniform(-1, 1, 3))) if rng.random() < 0.5 else Calibration(),
        threshold=float(rng.uniform(0.05, 0.95)),
        instance_threshold=float(rng.uniform(0.05, 0.95)),
        seed=seed,
        joint=joint,
        novelty=Novelty(float(rng.uniform(1, 30) * width)) if rng.random() < 0.7 else None,
        referral=Referral(0.7, 0.1, 0.0, 0.1) if rng.random() < 0.7 else None,
        chains=Chains(draws, 1.0, 64.0, 0, 0.9) if sampled else None,
        context=context,
        sharing=float(rng.choice([0.0, 0.3, 0.8])),
    )


def bags_for(model, seed):
    """Ordinary bags, and what nobody has seen: one instance, a thousand, huge and constant features, a mixture."""
    rng = np.random.default_rng([seed, 1])
    D = model.n_features
    location, scale = model.scaling.location[:D], model.scaling.scale[:D]

    def rows(n, width=1.0):
        return location + scale * width * rng.normal(size=(n, D))

    some = rows(6)
    return [
        some, rows(2, 0.01), rows(40, 4.0), some[:1], rows(1000), rng.normal(size=(5, D)) * 1e6, np.full((3, D), 1e6),
        np.repeat(some[:1], 50, axis=0), np.zeros((1, D)), np.vstack([some, np.full((1, D), -1e6)]), rows(3, 1e-9),
    ]  # fmt: skip


def session_of(clf, dtype="float64"):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    blob = onnx_model(clf, dtype=dtype).SerializeToString()
    return onnxruntime.InferenceSession(blob, options, providers=["CPUExecutionProvider"])


def answers(session, bag):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"embedding": bag}), strict=True))


distance = {
    "label": lambda found: found.prob - found.threshold,
    "instance_label": lambda found: found.instance_prob - found.instance_threshold,
    "refer": lambda found: found.doubt,
}


def assert_equal(clf, bags, dtype="float64"):
    session = session_of(clf, dtype)
    for bag in (np.asarray(bag, dtype=dtype) for bag in bags):
        found, wanted = answers(session, bag), clf.predict_dist([bag])
        expected = {name: getattr(wanted, name) for name in found if name not in CONTRACT}
        expected |= {"logits": clf.predict_log_proba([bag]), "attention": wanted.instance_prob[:, None]}
        for name, values in found.items():
            assert values.shape == expected[name].shape
            scale = np.maximum(1.0, np.abs(expected[name]))
            if name == "latent_mean":  # what a wide latent value is centred on is known to its width at best
                scale = np.maximum(scale, np.sqrt(wanted.latent_variance))
            if name in distance:  # a rounding apart, a number may be on the other side of its threshold
                assert ((values == expected[name]) | (np.abs(distance[name](wanted)) < TOLERANCE)).all(), name
            else:
                with np.errstate(invalid="ignore"):
                    near = np.abs(values - expected[name]) <= np.minimum(TOLERANCE * scale, 1e300)
                near |= values == expected[name]  # infinite, too
                if name in ("logits", "log_odds"):  # 1 - prod(1 - p) loses digits where p is of the size of rounding
                    near |= np.abs(np.exp(-np.abs(values)) - np.exp(-np.abs(expected[name]))) < 1e-13
                assert near.all(), name


@pytest.mark.parametrize("seed", range(12))
def test_random_models_say_the_same_in_the_runtime(seed):
    model = random_model(seed)
    assert_equal(estimator_of(model), bags_for(model, seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 200))
def test_two_hundred_random_models_do(seed):
    model = random_model(seed)
    assert_equal(estimator_of(model), bags_for(model, seed))


def test_random_models_reach_every_rule():
    """Latent values of every width and far beyond the nodes, every kernel, posterior and rule are among them."""
    models = [random_model(seed) for seed in range(12)]
    assert {model.aggregate for model in models} == {"noisy_or", "max"}
    for told in ("context", "joint"):
        assert {bool(getattr(model, told)) for model in models} == {True, False}
    for told in ("chains", "novelty", "referral"):
        assert {getattr(model, told) is None for model in models} == {True, False}
    assert {model.gp.residual for model in models} == {"projected", "full"}
    words = " ".join(str(model.gp.kernel) for model in models)
    assert all(kind in words for kind in ("RBF", "Matern32", "Matern52", "Linear", "Constant"))
    found = [model.predict(estimator_of(model)._bags(bags_for(model, seed))) for seed, model in enumerate(models)]
    variance = np.concatenate([one.latent_variance for one in found])
    log_odds = np.concatenate([one.instance_log_odds for one in found])
    assert (variance < 0.5).any()
    assert ((variance > 0.5) & (variance < 6)).any()
    assert (variance > 6).any()
    assert log_odds.min() < -700
    assert log_odds.max() > 700


@pytest.fixture(scope="module")
def data():
    bags, y, _ = make_bags(n_bags=24, seed=1)
    return bags, y


@pytest.mark.parametrize(
    "clf",
    [
        VGPMIL(n_inducing=8, max_iter=5, tol=0.0, random_state=0),
        VGPMIL(n_inducing=8, max_iter=5, tol=0.0, random_state=0, context="bag", calibrate=True),
        VGPMIL(n_inducing=8, max_iter=5, tol=0.0, random_state=2, posterior="sampled"),
        GVGPMIL(n_inducing=8, max_iter=5, tol=0.0, random_state=0),
        VGPMIL(n_inducing=8, max_iter=5, tol=0.0, random_state=0, standardize=False, mean="zero", aggregate="max"),
    ],
    ids=["default", "context", "sampled", "gamma", "plain"],
)
def test_fitted_models_do(clf, data):
    clf.fit(*data)
    assert_equal(clf, [*data[0]][:6])
    assert_equal(clf, bags_for(clf.model_, 0))


def test_wide_features_go_along_their_directions(data, monkeypatch):
    monkeypatch.setattr("psimil.inference.options.WIDE", 1)
    clf = VGPMIL(n_inducing=8, random_state=0).fit(*data)
    assert clf.model_.scaling.directions is not None
    assert_equal(clf, [*data[0]][:6])


def test_features_in_single_precision_are_told_apart_from_nothing(data):
    clf = VGPMIL(n_inducing=8, max_iter=3, tol=0.0, random_state=0, context="bag").fit(*data)
    assert_equal(clf, [*data[0]][:4], dtype="float32")


def test_names_are_those_of_wsinfer_with_ours_after_them(data):
    session = session_of(VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0).fit(*data))
    assert [(x.name, x.shape, x.type) for x in session.get_inputs()] == [
        ("embedding", ["instances", 5], "tensor(double)")
    ]
    names = [output.name for output in session.get_outputs()]
    assert names == [*CONTRACT, *OURS, *LATENT, "instance_novelty", "novelty", "refer"]
    found = answers(session, np.asarray(data[0][0]))
    softmax = np.exp(found["logits"]) / np.exp(found["logits"]).sum(axis=1)
    assert softmax[:, 1] == pytest.approx(found["prob"], abs=1e-12)
    assert (found["attention"][:, 0] == found["instance_prob"]).all()


def test_logits_follow_the_order_of_the_class_names(data):
    bags, y = data
    clf = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0, positive="bleeding")
    clf.fit(bags, np.where(y, "bleeding", "none"))
    assert clf.classes_.tolist() == ["bleeding", "none"]
    assert_equal(clf, [*bags][:4])
    metadata = session_of(clf).get_modelmeta().custom_metadata_map
    assert json.loads(metadata["class_names"]) == ["bleeding", "none"]
    assert metadata["positive_class"] == "bleeding"


def test_the_file_says_what_it_is(data, tmp_path):
    bags, y = data
    named = type(bags)(bags.X, bags.offsets, feature_names=["size", "mass", "a", "b", "c"])
    clf = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0).fit(named, y)
    to_onnx(clf, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta()
    known = meta.custom_metadata_map
    assert meta.producer_name == "psimil"
    assert "research use only" in meta.description
    assert known["use"] == "research use only, not a medical device"
    assert json.loads(known["feature_names"]) == ["size", "mass", "a", "b", "c"]
    assert json.loads(known["threshold"]) == clf.threshold_
    assert json.loads(known["instance_threshold"]) == clf.instance_threshold_
    assert known["psimil_version"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_we_refuse_is_no_number_there(bad, data):
    clf = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0).fit(*data)
    bag = np.array(data[0][0])
    bag[1, 2] = bad
    found = answers(session_of(clf), bag)
    assert np.isnan(found["prob"]).all()
    assert np.isnan(found["logits"]).all()
    assert found["label"] == -1
    assert found["refer"].all()
    assert np.isnan(found["instance_prob"]).tolist() == [row == 1 for row in range(len(bag))]
    assert found["instance_label"][1] == -1


def test_latent_values_out_of_any_range_are_no_number(data):
    model = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0, kernel=Linear()).fit(*data).model_
    found = answers(session_of(estimator_of(replace(model, novelty=None))), np.full((1, 5), 1e300))
    assert np.isnan(found["prob"]).all()


def test_what_cannot_be_exported_is_refused(data, tmp_path):
    clf = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0).fit(*data)
    for change, words in (
        ({"coupling": 0.5}, 'labels="chain"'),
        ({"dtype": "float32"}, "float32"),
        ({"expectation": "sample"}, 'expectation="sample"'),
    ):
        with pytest.raises(InputError, match=words):
            to_onnx(estimator_of(replace(clf.model_, **change)), tmp_path / "model.onnx")

    class Own(RBF):
        pass

    gp = clf.model_.gp
    own = replace(clf.model_, gp=replace(gp, kernel=Own(1.0, 1.0) + Linear()))
    with pytest.raises(InputError, match="kernel of your own \\(Own\\)"):
        to_onnx(estimator_of(own), tmp_path / "model.onnx")
    with pytest.raises(InputError, match="Export each part"):
        to_onnx(MultiLabelMIL(clf), tmp_path / "model.onnx")
    with pytest.raises(NotFitted):
        to_onnx(VGPMIL(), tmp_path / "model.onnx")
    with pytest.raises(InputError, match="dtype must be"):
        to_onnx(clf, tmp_path / "model.onnx", dtype="float16")
    assert not list(tmp_path.iterdir())


def test_without_the_package_the_message_says_how_to_get_it(data, monkeypatch, tmp_path):
    clf = VGPMIL(n_inducing=5, max_iter=2, tol=0.0, random_state=0).fit(*data)
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(InputError, match="pip install"):
        to_onnx(clf, tmp_path / "model.onnx")
