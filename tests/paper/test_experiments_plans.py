"""Which fits an experiment consists of, and names for them that files can bear."""

import re
from collections import Counter
from dataclasses import asdict
from itertools import product

import pytest

from psimil.foundations.errors import InputError
from psimil.paper.experiments.models import entry
from psimil.paper.experiments.plans import EXPERIMENTS, PROTOCOLS, Job, plan
from psimil.paper.experiments.trial_data import TO_CQ500, TO_RSNA

CASES = list(product(EXPERIMENTS, PROTOCOLS, (False, True)))


@pytest.mark.parametrize(("experiment", "protocol", "quick"), CASES)
def test_keys_are_unique_and_safe_as_file_names(experiment, protocol, quick):
    jobs = plan(experiment, protocol, quick=quick)
    keys = [job.key for job in jobs]
    assert len(set(keys)) == len(keys)
    for key in keys:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", key) and len(key) < 100 and ".." not in key
    assert len({key.lower() for key in keys}) == len(keys)  # file systems that ignore case
    assert {(job.experiment, job.protocol, job.quick) for job in jobs} == {(experiment, protocol, quick)}


def test_no_field_is_forgotten_in_the_key():
    base = Job("ich", "nested", "vgpmil")
    changes = {
        "protocol": "paper", "model": "svm", "task": TO_RSNA, "split": 1, "repeat": 1, "cnn": 0, "n_features": 8,
        "n_inducing": 50, "alpha": 0.5, "beta": 2.5,
    }  # fmt: skip
    keys = [base.key] + [Job(**{**asdict(base), name: value}).key for name, value in changes.items()]
    assert len(set(keys)) == len(keys) == 1 + len(set(asdict(base)) - {"experiment", "quick"})


def test_counts_of_the_papers_grid():
    assert len(plan("musk1", "published", models=["vgpmil-published"])) == 3 * 5
    jobs = plan("mnist-pca", "paper", models=["vgpmil", "gvgpmil"])
    assert len(jobs) == 3 * 7 * 5 == 105
    assert Counter(job.model for job in jobs) == {"vgpmil": 15, "gvgpmil": 90}
    assert {job.n_inducing for job in jobs} == {50, 100, 200}
    shapes = {(job.alpha, job.beta) for job in jobs if job.model == "gvgpmil"}
    assert shapes == {(a, b) for a in (0.5, 1) for b in (1, 2.5, 4)}
    assert len(plan("ich", "paper", models=["vgpmil"])) == 3 * 3 * 5  # sizes, dimensions, splits
    assert {job.n_features for job in plan("ich", "paper")} == {8, 32, 128}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_compares_with_every_baseline(experiment):
    assert {"attention", "smooth", "mean", "svm", "forest"} < {job.model for job in plan(experiment, "nested")}


def test_counts_of_the_nested_protocol():
    musk = Counter(job.model for job in plan("musk1", "nested"))
    assert musk["vgpmil"] == musk["gvgpmil"] == musk["svm"] == 5 * 5  # repeats, splits
    assert musk["smooth"] == musk["mean"] == 5 * 5
    assert musk["vgpmil-paper"] == musk["vgpmil-published"] == 5  # the slow ones once
    ich = plan("ich", "nested", models=["vgpmil"])
    tasks = Counter(job.task for job in ich)
    assert tasks == {"cross-validation": 5 * 2 * 5, TO_RSNA: 5, TO_CQ500: 5}  # CNNs, repeats, splits
    assert {job.cnn for job in ich} == {0, 1, 2, 3, 4}
    large = [job for job in plan("mnist-pca", "nested") if job.n_inducing == 1000]
    assert [job.split for job in large] == [0, 1, 2, 3, 4] and {job.model for job in large} == {"vgpmil"}


@pytest.mark.parametrize(("experiment", "protocol"), list(product(EXPERIMENTS, PROTOCOLS)))
def test_quick_is_small(experiment, protocol):
    quick, full = (plan(experiment, protocol, quick=q) for q in (True, False))
    assert len(quick) <= 40 and len(quick) < len(full)
    for job in quick:
        assert job.quick and job.repeat == 0
        assert job.n_inducing == (50 if entry(job.model).is_gaussian_process else None)
    assert {job.split for job in quick} == {0, 1, 2}


def test_equal_features_follow_each_other():
    order = [(job.repeat, job.cnn, job.split) for job in plan("ich", "nested")]
    assert order == sorted(order)
    assert [job.split for job in plan("mnist-pca", "paper")] == sorted([0, 1, 2, 3, 4] * 21)


def test_a_model_named_twice_is_fitted_once():
    assert plan("musk1", "nested", models=["svm", "svm"]) == plan("musk1", "nested", models=["svm"])


@pytest.mark.parametrize(
    ("experiment", "protocol", "models", "message"),
    [
        ("musk3", "nested", (), "no experiment 'musk3' under 'nested'. Experiments are musk1, musk2"),
        ("musk1", "honest", (), "protocols are nested, paper, published"),
        ("musk1", "nested", ("svm", "bert"), "no model is called 'bert'. The models are vgpmil"),
        ("musk1", "paper", ("svm",), "musk1 has no fits of svm under 'paper'"),
        ("musk1", "nested", ("cnn",), "musk1 has no fits of cnn under 'nested'"),
    ],
)
def test_unknown_names(experiment, protocol, models, message):
    with pytest.raises(InputError, match=re.escape(message)):
        plan(experiment, protocol, models=models)
