"""Learning from bags that arrive over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from psimil.estimators.inputs import read_instance_labels, read_labels, read_weights
from psimil.estimators.parameters import options_of, resolved
from psimil.estimators.voice import say
from psimil.foundations.errors import InputError
from psimil.inference.online import Online
from psimil.inference.preparation import Supervision
from psimil.model.bags import Bags
from psimil.model.custom_density import LostDensity
from psimil.model.labels import Classes
from psimil.predictive.trained import TrainedModel

# What a model that is gone on from keeps, so that another value would be forgotten or mixed with it
KEPT = (
    "density", "kernel", "labels", "posterior", "label_posterior", "H", "n_inducing", "inducing", "inducing_points",
    "mean", "residual", "standardize", "dtype", "positive",
)  # fmt: skip


def changed_since(estimator: Any) -> dict[str, Any]:
    """Parameters that were set to something else after the fit, with their values in the fit.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> clf = VGPMIL(n_inducing=5)
    >>> clf._fitted_with = resolved(clf)
    >>> changed_since(clf.set_params(n_inducing=9))
    {'n_inducing': 5}
    """
    before, now = getattr(estimator, "_fitted_with", {}), resolved(estimator)
    return {name: value for name, value in before.items() if not _same(value, now[name])}


def check_same(estimator: Any, what: str) -> None:
    """Refuse to go on from a model under other settings than it was made with."""
    for name, value in changed_since(estimator).items():
        if name in KEPT:
            now = resolved(estimator)[name]
            raise InputError(
                f"{what}: {name} was {value!r} in the fit and is {now!r}. Set it back, or begin a new model."
            )


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, LostDensity):
        return before.name == getattr(now, "name", None)
    if isinstance(before, np.ndarray) or isinstance(now, np.ndarray):
        return np.array_equal(before, now)
    return before is now or bool(before == now)


class OnlineLearning:
    """What an estimator needs beside ``fit`` to go on learning from a model."""

    def partial_fit(
        self: Any, bags: Any, y: Any = None, *, bag_ids: Any = None, y_instances: Any = None, sample_weight: Any = None
    ) -> Any:
        """Learn from some more bags: the first call is a fit, each further one a natural-gradient step.

        Scaling, inducing points, kernel, context and what labels share are those of the first call, so give it a
        few hundred bags of both labels. The step sizes are those of minibatches (docs/results/scaling.md). Calibration
        and thresholds follow the latest bags, as they were predicted before the model learned them. ``out_of_bag_`` and
        ``label_posterior_`` stay those of the first call. A loaded model does not know how much it has seen: its own
        training counts for that.

        Parameters
        ----------
        bags, y, bag_ids, y_instances, sample_weight : as in ``fit``.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=60, seed=0)
        >>> clf = VGPMIL(n_inducing=10, random_state=0).partial_fit(bags[:30], y[:30]).partial_fit(bags[30:], y[30:])
        >>> clf.training_counts_["bags"]
        60
        """
        if y is None:
            raise InputError("partial_fit needs bag labels: partial_fit(bags, y).")
        if not hasattr(self, "model_"):
            return self.fit(bags, y, bag_ids=bag_ids, y_instances=y_instances, sample_weight=sample_weight)
        found = self._bags(bags, bag_ids, what="training set")
        _check_context(self.model_, self.context)
        check_same(self, "partial_fit")
        _, T = read_labels(y, found, classes=self.classes, from_rows=bag_ids is not None)
        weights = np.ones(len(found)) if sample_weight is None else read_weights(sample_weight, found)
        known = None if y_instances is None else read_instance_labels(y_instances, found, T, self.H)
        supervision = Supervision(T, weights, known)
        state: Online | None = getattr(self, "online_", None)
        if state is None or state.model is not self.model_:
            state = Online(self.model_, float(self.training_counts_["bags"]))
        options = options_of(resolved(self), found.n_features)
        self.online_ = state.learn(found, supervision, options)
        self.model_ = self.online_.model
        counts = {"bags": len(found), "positive": int(T.sum()), "instances": len(found.X)}
        if self.verbose:
            say(f"learned {counts['bags']} more bags after {self.training_counts_['bags']} bags")
        self.training_counts_ = {name: self.training_counts_[name] + n for name, n in counts.items()}
        return self

    def _previous(self: Any, bags: Bags, classes: Classes) -> TrainedModel | None:
        """The model that a second fit starts from."""
        model: TrainedModel | None = getattr(self, "model_", None)
        if model is not None and model.n_features != bags.n_features:
            raise InputError(f"warm_start: model has {model.n_features} features, got {bags.n_features}.")
        _check_context(model, self.context)
        if model is not None and hasattr(self, "_fitted_with"):  # else it was given the model
            check_same(self, "warm_start")
            if None not in (names := {self._feature_names, bags.feature_names}) and len(names) > 1:
                raise InputError(
                    "warm_start: the features have other names than those of the model. Begin a new model."
                )
            if classes != self._classes:
                raise InputError(f"warm_start: the classes were {tuple(self._classes)}. Begin a new model.")
        return model


def _check_context(model: TrainedModel | None, context: str | None) -> None:
    """Refuse to go on from a model of another context than is asked for; "auto" takes any."""
    if model is not None and context != "auto" and model.context != (context is not None):
        has = "sees instances in the context of their bag" if model.context else "sees instances without context"
        raise InputError(f"the model to go on from {has}, but context={context!r} is asked for. Begin a new model.")
