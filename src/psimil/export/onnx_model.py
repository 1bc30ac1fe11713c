"""A fitted model as an ONNX graph: features of one bag in, the numbers of its prediction out.

Input and outputs begin with those of WSInfer-MIL, so that a program made for its models runs ours: ``embedding`` in;
``logits``, whose softmax has the probabilities of the classes, and ``attention``, one number per instance, out. Ours
follow. Numbers are those of :class:`psimil.predictive.prediction.Prediction`, in double precision, with the same nodes
and draws as constants of the graph.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.estimators.stored import facts_of
from psimil.export.latent import Latent, latent_of
from psimil.export.probabilities import (
    Estimate,
    bag_of_draws,
    instances_of,
    instances_of_draws,
    largest_of,
    noisy_or_of,
)
from psimil.export.terms import Graph, Term, softplus
from psimil.files.atomic import atomic_write
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError
from psimil.predictive.novelty import NOVEL
from psimil.predictive.trained import TrainedModel
from psimil.version import VERSION


def to_onnx(estimator: PsiVGPMIL, path: str | os.PathLike[str], *, dtype: str = "float64") -> None:
    """Write a fitted model as an ONNX file, which gives what ``predict_dist`` gives, to 1e-6, for one bag at a time.

    Parameters
    ----------
    estimator : fitted.
    path : file to write; one that is there is replaced.
    dtype : "float64", or "float32" for programs that have their features in single precision; the graph works in
        double precision in either case.

    Raises
    ------
    InputError
        Where the package onnx is not installed, and for models whose numbers the graph could not give: of chains of
        labels, of single precision, of probabilities averaged over random draws, and with kernels of your own.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, seed=1)
    >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    >>> to_onnx(clf, "model.onnx")
    >>> os.path.exists("model.onnx")
    True
    """
    target = as_path(path)
    data = onnx_model(estimator, dtype=dtype).SerializeToString()
    atomic_write(target, lambda stream: stream.write(data))


def onnx_model(estimator: PsiVGPMIL, *, dtype: str = "float64") -> Any:
    """The ``onnx.ModelProto`` of a fitted model, see :func:`to_onnx`."""
    if not isinstance(estimator, PsiVGPMIL):
        kind = type(estimator).__name__
        raise InputError(f"only models of one label can be exported to ONNX, got {kind}. Export each part of it.")
    if dtype not in ("float64", "float32"):
        raise InputError(f'dtype must be "float64" or "float32", got {dtype!r}.')
    estimator._check_fitted()
    model, graph = estimator.model_, Graph()
    check_exportable(model)
    given = graph.input("embedding", dtype, ["instances", model.n_features])
    latent = latent_of(model, given.cast(np.float64), rounded=dtype == "float32")
    if model.chains is not None and latent.draws is not None:
        instances = instances_of_draws(latent.draws, len(model.draws))
        bag = bag_of_draws(latent.draws, len(model.draws), model.aggregate, model.sharing)
    else:
        instances = instances_of(latent.mean, latent.variance)
        noisy_or = model.aggregate == "noisy_or"
        bag = noisy_or_of(instances, latent.draws, model.sharing) if noisy_or else largest_of(instances)
    _write_outputs(graph, estimator, latent, instances, bag)
    words = (
        f"psimil {VERSION}: probabilities with uncertainty for a bag and its instances; {facts_of(estimator)['use']}."
    )
    return graph.model("psimil", words, VERSION, _metadata(estimator))


def check_exportable(model: TrainedModel) -> None:
    """Refuse models whose numbers the graph could not give."""
    if model.coupling > 0:
        raise InputError('models with labels="chain" cannot be exported to ONNX. Fit with labels="shared".')
    if model.dtype != "float64":
        raise InputError(f"models of {model.dtype} cannot be exported to ONNX. Fit with dtype='float64'.")
    if model.expectation != "quadrature":
        raise InputError('models with expectation="sample" cannot be exported to ONNX. Fit with "quadrature".')


def _write_outputs(graph: Graph, estimator: PsiVGPMIL, latent: Latent, instances: Estimate, bag: Estimate) -> None:
    """Name what comes out; NaN, and -1 for labels, where features are not finite or latent values out of any range."""
    model = estimator.model_
    whole = latent.usable.cast(np.int64).over("Min", 0, keep=True) > 0
    log_odds = bag.log_p - bag.log_q
    prob, instance_prob = bag.log_p.apply("Exp"), instances.log_p.apply("Exp")
    of_classes = [-softplus(log_odds), -softplus(-log_odds)]  # of negative and of positive bags
    if not estimator._positive_is_last:
        of_classes.reverse()
    logits = whole.where(graph.node("Concat", *(term.column() for term in of_classes), axis=1), np.nan)
    label = whole.where((prob >= model.threshold).cast(np.int64), np.int64(-1))
    instance_label = (instance_prob >= model.instance_threshold).cast(np.int64)
    instance_label = latent.usable.where(instance_label, np.int64(-1))
    seen = latent.usable.where(instance_prob, np.nan)
    graph.output("logits", logits, np.float64, [1, 2], "log-probabilities of the classes; their softmax is no other")
    graph.output("attention", seen.column(), np.float64, ["instances", 1], "instance_prob as a column")

    def of_bag(name: str, term: Term, words: str) -> None:
        graph.output(name, whole.where(term, np.nan), np.float64, [1], words)

    def of_instances(name: str, term: Term, words: str) -> None:
        graph.output(name, latent.usable.where(term, np.nan), np.float64, ["instances"], words)

    of_bag("prob", prob, "probability that the bag is positive")
    of_bag("std", bag.variance.apply("Sqrt"), "standard deviation of that probability")
    of_bag("log_odds", log_odds, "its log-odds")
    graph.output("label", label, np.int64, [1], "1 where prob reaches the threshold of the metadata, else 0")
    of_instances("instance_prob", instance_prob, "probability that the instance is positive")
    of_instances("instance_std", instances.variance.apply("Sqrt"), "standard deviation of that probability")
    of_instances("instance_log_odds", instances.log_p - instances.log_q, "its log-odds")
    graph.output("instance_label", instance_label, np.int64, ["instances"], "1 from the instance threshold on, else 0")
    of_instances("latent_mean", latent.mean, "mean of the latent log-odds, calibrated")
    of_instances("latent_variance", latent.variance, "variance of the latent log-odds, calibrated")
    novel = whole.apply("Not")
    if latent.novelty is not None:
        of_instances("instance_novelty", latent.novelty, "above 1/2 where unlike the training data")
        novelty = latent.novelty.over("Max", 0, keep=True)
        of_bag("novelty", novelty, "that of its least familiar instance")
        novel = novel | (novelty > NOVEL)
    if model.referral is not None:
        threshold = float(np.log(model.threshold) - np.log1p(-model.threshold))
        near = (log_odds - threshold).apply("Abs") < model.referral.margin
        graph.output("refer", near | novel, np.bool_, [1], "whether the bag is a case for a human reader")


def _metadata(estimator: PsiVGPMIL) -> dict[str, str]:
    """What the file says of itself: text as it is, all else as JSON."""
    facts = facts_of(estimator)
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in facts.items()}
