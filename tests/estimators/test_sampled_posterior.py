"""Draws from the exact posterior in an estimator: near the variational one, equal bits from files, no forgeries."""

from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
from scipy.special import expit

from model_files import put_together, take_apart
from psimil import Bags, PsiVGPMIL
from psimil.files.schema import check_tensors, model_from, model_tensors
from psimil.foundations.errors import ModelFileError, NumericalFailure
from psimil.model.kernels import Linear
from tiny import problem, quick


@cache
def models():
    """The sampled and the variational model of the small problem; never change them."""
    bags, y, _ = problem()
    return tuple(quick(posterior=posterior).fit(bags, y) for posterior in ("sampled", "variational"))


def latent_draws(model, X):
    """(S, N) latent values of the draws, by a solve of one's own; without calibration and novelty."""
    x = (X - model.scaling.location) / model.scaling.scale
    V = np.linalg.solve(model.gp.L, model.gp.kernel.gram(model.gp.Z, x)).T
    V = np.hstack([V, np.full((len(V), 1), model.gp.bias)]) if model.gp.bias else V
    return model.chains.v @ V.T


def test_chains_agree_and_are_near_the_variational_posterior():
    sampled, variational = models()
    bags, _, _ = problem()
    chains, q = sampled.model_.chains, variational.model_.posterior
    assert chains.r_hat <= 1.05
    assert chains.effective_sample_size > 400
    assert chains.divergences == 0
    assert chains.v.shape == (512, len(q.m))
    assert variational.model_.chains is None
    sd = np.sqrt(np.diag(q.S))
    assert (np.abs(chains.v.mean(axis=0) - q.m) < 0.5 * sd).all()
    a, b = sampled.predict_dist(bags), variational.predict_dist(bags)
    assert np.abs(a.prob - b.prob).max() < 0.05
    assert np.abs(a.instance_prob - b.instance_prob).max() < 0.05
    assert np.abs(a.std - b.std).max() < 0.05
    assert (a.instance_novelty == b.instance_novelty).all()


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_moments_and_intervals_are_those_of_the_draws(level):
    bags, _, _ = problem()
    model = replace(models()[0].model_, aggregate="noisy_or", novelty=None)
    found, s = model.predict(bags, raw=True, level=level), expit(latent_draws(model, bags.X))
    prob = np.stack([1 - np.prod(1 - part, axis=1) for part in np.split(s, bags.offsets[1:-1], axis=1)], axis=1)
    ends = [0.5 - level / 2, 0.5 + level / 2]
    for name, values in (("", prob), ("instance_", s)):
        np.testing.assert_allclose(getattr(found, f"{name}prob"), values.mean(axis=0), rtol=1e-8)
        np.testing.assert_allclose(getattr(found, f"{name}std"), values.std(axis=0), rtol=1e-7)
        mean, (below, above) = values.mean(axis=0), np.quantile(values, ends, axis=0)
        np.testing.assert_allclose(getattr(found, f"{name}lower"), np.minimum(below, mean), rtol=3e-3)
        np.testing.assert_allclose(getattr(found, f"{name}upper"), np.maximum(above, mean), rtol=3e-3)


def test_novel_instances_have_mean_and_variance_of_the_prior():
    model, far = models()[0].model_, Bags(problem()[0].X[:3] + 1e4, [0, 1, 3])
    found = model.predict(far)
    prior = model.gp.kernel.diagonal(model.scaling.apply(far.X, "float64")) + model.gp.bias**2
    np.testing.assert_allclose(found.latent_mean, model.prior_mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.latent_variance, prior, rtol=1e-9)
    assert found.refer.all()


def test_bags_together_are_bags_apart(monkeypatch):
    bags, model = problem()[0], models()[0]
    whole, parts = model.predict_dist(bags), [model.predict_dist(bags[:7]), model.predict_dist(bags[7:])]
    for rows in (512 * 5, 100):  # about five instances at a time, or one bag
        monkeypatch.setattr("psimil.predictive.trained.ROWS", rows)
        chunked = model.predict_dist(bags)
        np.testing.assert_allclose(chunked.upper, whole.upper, rtol=1e-12)
    for name in ("prob", "std", "lower", "upper", "instance_prob", "instance_lower", "latent_variance", "novelty"):
        together = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_allclose(together, getattr(whole, name), rtol=1e-12, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(getattr(chunked, name), getattr(whole, name), rtol=1e-12, atol=1e-12, err_msg=name)
    assert np.allclose(model.predict_dist(bags, joint=True).joint_std, whole.std, rtol=1e-12)


def test_partial_fit_drops_the_chains():
    bags, y, _ = problem()
    model = quick(posterior="sampled").partial_fit(bags[:16], y[:16])
    assert model.model_.chains is not None
    model.partial_fit(bags[16:], y[16:])
    assert model.model_.chains is None
    assert model.predict_dist(bags).bounds is None


def test_a_saved_model_predicts_the_same_bits(tmp_path):
    bags, _, _ = problem()
    for model in models():
        model.save(tmp_path / "model.safetensors")
        again = PsiVGPMIL.load(tmp_path / "model.safetensors")
        assert again.model_.novelty == model.model_.novelty is not None
        assert again.model_.referral == model.model_.referral is not None
        a, b = model.predict_dist(bags), again.predict_dist(bags)
        for name in ("prob", "std", "lower", "upper", "instance_prob", "instance_lower", "instance_upper", "novelty"):
            assert (getattr(a, name) == getattr(b, name)).all(), name
        assert a.margin == b.margin
    chains, stored = models()[0].model_.chains, PsiVGPMIL.load(_saved(tmp_path)).model_.chains
    assert (chains.v == stored.v).all()
    assert {**asdict(chains), "v": 0} == {**asdict(stored), "v": 0}


def _saved(folder):
    models()[0].save(folder / "sampled.safetensors")
    return folder / "sampled.safetensors"


REFERRAL = {"margin": 1.0, "share": 0.1, "kept_error": 0.0, "error": 0.1}
CHAINS = {"r_hat": 1.0, "effective_sample_size": 500.0, "divergences": 0, "acceptance": 0.8}
FORGED = [("novelty", value) for value in (0, -1.0, True, "1", [1.0], 1e999, float("nan"))]
FORGED += [("referral", REFERRAL | {name: value}) for name in REFERRAL for value in (-0.1, True, "0", None, 1e999)]
FORGED += [("referral", REFERRAL | {"share": 1.1}), ("referral", REFERRAL | {"more": 1}), ("referral", {"margin": 1.0})]
FORGED += [("chains", CHAINS | {name: value}) for name in CHAINS for value in (True, "1", None, 1e999)]
FORGED += [("chains", CHAINS | {name: value}) for name in CHAINS for value in (-1.0, -0.5)]
FORGED += [("chains", CHAINS | {"acceptance": 7.0})]
FORGED += [("chains", {"r_hat": 1.0}), ("chains", CHAINS | {"v": 1}), ("chains", 3), ("referral", 3), ("chains", {})]


@pytest.mark.parametrize(("name", "value"), FORGED)
def test_forged_facts_are_refused(name, value):
    tensors, facts = model_tensors(models()[0].model_)
    model_from(tensors, facts | {"referral": REFERRAL, "chains": CHAINS, "novelty": 1})
    with pytest.raises(ModelFileError):
        model_from(tensors, facts | {name: value})


def test_forged_draws_are_refused(tmp_path):
    tensors, facts = model_tensors(models()[0].model_)
    draws = tensors["draws"]
    hole = np.where(np.arange(len(draws))[:, None] == 3, np.nan, draws)
    for forged in (draws[:, 1:], draws[0], draws.astype(np.float32), hole, draws[None], draws[0, 0]):
        with pytest.raises(ModelFileError, match='tensor "draws"'):
            check_tensors(tensors | {"draws": forged}, facts)
    with pytest.raises(ModelFileError, match='tensor "draws" is missing'):
        check_tensors({name: tensor for name, tensor in tensors.items() if name != "draws"}, facts)
    with pytest.raises(ModelFileError, match='tensor "draws" is unknown'):
        check_tensors(tensors, facts | {"chains": None})
    parts, text = take_apart(_saved(tmp_path).read_bytes())
    (tmp_path / "one.safetensors").write_bytes(put_together(parts | {"draws": draws[:1]}, text))
    with pytest.raises(ModelFileError, match="draws of the posterior are incomplete"):
        PsiVGPMIL.load(tmp_path / "one.safetensors")


def test_features_out_of_any_range_are_refused_as_with_the_variational_posterior():
    bags, y, _ = problem()
    for posterior in ("sampled", "variational"):
        model = quick(posterior=posterior, kernel=Linear(1.0)).fit(bags, y)
        with pytest.raises(NumericalFailure, match="latent values overflow"):
            model.predict_dist([np.full((2, model.n_features_in_), 1e200)])
