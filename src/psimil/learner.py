"""Learning from bags that are all there: what fit does, around inference."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from psimil.classes import Classes
from psimil.estimator_settings import callbacks_of, check_shell, evaluation_of, options_of, streaming_of
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision
from psimil.inference.trained import TrainedModel
from psimil.inference.training import Callback, Training
from psimil.inference.training_by_size import train_by_size
from psimil.labels import read_bags, read_instance_labels, read_labels, read_random_state, read_weights
from psimil.model.bags import Bags
from psimil.predictor import BagPredictor
from psimil.voice import aloud

Array = NDArray[Any]


class BagLearner(BagPredictor):
    """A predictor that learns from bags; its parameters are those of :class:`psimil.PsiVGPMIL`."""

    H: float
    early_stopping: str | None
    max_iter: int
    positive: Any
    random_state: Any
    tol: float
    verbose: int
    warm_start: bool

    def fit(
        self,
        bags: Any,
        y: Any = None,
        *,
        bag_ids: Any = None,
        y_instances: Any = None,
        sample_weight: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callback] | None = None,
        batch_bags: int | None = None,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from bags and one label each, of two classes.

        Parameters
        ----------
        bags : sequence of (n_i, D) arrays, Bags, or (N, D) rows together with ``bag_ids``.
        y : labels of two classes: a dict or a pandas Series by bag id; or (B,) in the order of the bags, which with
            ``bag_ids`` is that of their first rows; or (N,) per row, constant in a bag.
        bag_ids : (N,) the bag of each row, when ``bags`` are rows; None otherwise.
        y_instances : known instance labels, -1 for unknown: (N,) per row or one sequence per bag.
        sample_weight : one per bag, given like ``y``: its weight in the bound, where 2 equals the bag twice; scaling,
            k-means and folds count every bag once.
        eval_set : (bags, y) for early stopping.
        callbacks : called with a dict after every pass; a true answer stops the fit.
        batch_bags : bags of a minibatch; None for passes over all bags.
        client : ``distributed.Client`` of a cluster that works out the parts, see :mod:`psimil.cluster`.
        checkpoint : file that keeps the last complete pass; a fit that was interrupted goes on from it.

        Returns
        -------
        self : with the fitted attributes of the class.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> clf.training_counts_["bags"], clf.inducing_points_.shape
        (8, (4, 5))

        Rows of a table and the bag of each:

        >>> rows, ids = bags.X, bags.ids[bags.bag_index]
        >>> clf.fit(rows, y, bag_ids=ids).predict(rows, bag_ids=ids).shape
        (8,)
        """
        if y is None:
            raise InputError("fit needs bag labels: fit(bags, y). requires y to be passed, but the target y is None")
        found = read_bags(bags, bag_ids)
        classes, T = read_labels(y, found, positive=self.positive, from_rows=bag_ids is not None)
        check_shell(self)
        options = self._options(found.n_features)
        watching = callbacks_of(callbacks, self.verbose)
        if batch_bags is not None:
            at_least(1, whole=True, batch_bags=batch_bags)
        known = read_instance_labels(y_instances, found, T, self.H)
        supervision = Supervision(T, read_weights(sample_weight, found), known)
        rng = read_random_state(self.random_state)
        elsewhere = streaming_of(client, checkpoint, found, supervision, options, rng, batch_bags)
        training = aloud(train_by_size, self.verbose)(
            found,
            supervision,
            options,
            rng=rng,
            evaluation=evaluation_of(eval_set, found, classes, self.early_stopping),
            callbacks=watching,
            previous=self._previous(found) if self.warm_start else None,
            batch_bags=batch_bags,
            **elsewhere,
        )
        return self._keep(training, found, T, classes)

    def _keep(self, training: Training, bags: Bags, T: Array, classes: Classes) -> Self:
        self.model_, self.history_, self.loo_ = training.model, training.history, training.loo
        self.label_posterior_ = None if training.pi is None else bags.in_input_order(training.pi)
        last = [row for row in training.history if row["stage"] == training.history[-1]["stage"]]
        score = f"eval_{self.early_stopping}"
        kept = last[-1] if self.early_stopping is None else max(last, key=lambda row: row[score])
        self.elbo_, self.n_iter_ = float(kept["elbo"]), len(training.history)
        self.converged_ = training.converged
        self.training_counts_ = {"bags": len(bags), "positive": int(T.sum()), "instances": len(bags.X)}
        if not self.converged_ and self.early_stopping is None and self.max_iter > 0 and self.tol > 0:
            warnings.warn(
                f"the bound had not settled after {self.max_iter} passes; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self._expose(classes, bags.feature_names)

    def _previous(self, bags: Bags) -> TrainedModel | None:
        model: TrainedModel | None = getattr(self, "model_", None)
        if model is not None and len(model.scaling.location) != bags.n_features:
            raise InputError(f"warm_start: model has {len(model.scaling.location)} features, got {bags.n_features}.")
        return model

    def _options(self, n_features: int) -> Options:
        density = self._default_density if self.density is None else self.density
        return options_of(self, n_features, density)
