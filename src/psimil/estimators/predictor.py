"""What a fitted model does: predict for bags and instances, and score itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags

from psimil.estimators.inputs import check_fingerprint_of, features_of, read_bags
from psimil.estimators.parameters import check_parameters
from psimil.estimators.stored import Stored
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import softplus
from psimil.model.bags import Bags
from psimil.model.densities import Density, HyperbolicSecant
from psimil.model.labels import values_of_bags
from psimil.predictive.predicted_ranges import RANGE_ROWS, predict_ranges
from psimil.predictive.prediction import Prediction

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


class BagPredictor(Stored, ClassifierMixin, BaseEstimator):
    """The methods of an estimator that need nothing but ``model_``, a TrainedModel, and what its data were called."""

    _default_density: ClassVar[Density] = HyperbolicSecant()
    density: Density | None

    def predict_dist(
        self,
        bags: Any,
        *,
        bag_ids: Any = None,
        raw: bool = False,
        expectation: str | None = None,
        n_samples: int = 1000,
        level: float = 0.95,
        joint: bool = False,
    ) -> Prediction:
        """Bag and instance probabilities, standard deviations, intervals, log-odds and latent moments.

        Parameters
        ----------
        bags : sequence of (n_i, D) arrays, Bags, or (N, D) rows together with ``bag_ids``.
        bag_ids : (N,) the bag of each row, when ``bags`` are rows; bags come as their ids first appear.
        raw : leave out the calibration.
        expectation : "quadrature" or, as in the paper, "sample"; None is the model's own, as it was made.
        n_samples : draws of the latent values for "sample", and for ``joint`` where they are not drawn anyway.
        level : mass of the credible intervals, between 0 and 1.
        joint : add the bag's standard deviation with the correlation between its instances kept.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> found = clf.predict_dist(bags, level=0.9)
        >>> found.prob.shape, found.instance_prob.shape == (len(bags.X),), bool((found.lower <= found.upper).all())
        ((8,), True, True)
        """
        check_parameters({"level": level, "n_samples": n_samples})
        if expectation is not None:
            check_parameters({"expectation": expectation})
        found = self._bags(bags, bag_ids)
        return self.model_.predict(
            found, raw=raw, expectation=expectation, n_samples=n_samples, level=level, joint=joint
        )

    def predict_ranges(
        self,
        bags: Any,
        *,
        bag_ids: Any = None,
        chunk_size: int | None = None,
        raw: bool = False,
        level: float = 0.95,
    ) -> Iterator[Prediction]:
        """What :meth:`predict_dist` says, to rounding, some bags after others: for more than memory can hold.

        Parameters
        ----------
        bags, bag_ids, raw, level : as of :meth:`predict_dist`; those of :func:`psimil.store.open_store` stay on disk.
        chunk_size : target number of instances per range of whole bags, in which they come bag after bag; None: 65536.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, bag_size=(5, 5), seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> [part.ids.tolist() for part in clf.predict_ranges(bags, chunk_size=15)]
        [[0, 1, 2], [3, 4, 5], [6, 7]]
        """
        check_parameters({"level": level, "chunk_size": chunk_size})
        found, rows = self._bags(bags, bag_ids), RANGE_ROWS if chunk_size is None else chunk_size
        return predict_ranges(self.model_, found, rows, raw=raw, level=level)

    def predict_proba(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B, 2) probabilities of the two labels, in the order of ``classes_``.

        Parameters
        ----------
        bags, bag_ids : as of :meth:`predict_dist`.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> clf.predict_proba(bags).shape, clf.predict_proba(bags).sum(axis=1).round(6).tolist()[:2]
        ((8, 2), [1.0, 1.0])
        """
        prob = self.predict_dist(bags, bag_ids=bag_ids).prob
        return np.column_stack([1.0 - prob, prob] if self._positive_is_last else [prob, 1.0 - prob])

    def predict_log_proba(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B, 2) logarithms of :meth:`predict_proba`, finite where those have rounded to 0.

        Parameters
        ----------
        bags, bag_ids : as of :meth:`predict_dist`.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> bool(np.allclose(np.exp(clf.predict_log_proba(bags)), clf.predict_proba(bags)))
        True
        """
        log_odds = self.predict_dist(bags, bag_ids=bag_ids).log_odds
        log_odds = log_odds if self._positive_is_last else -log_odds
        return np.column_stack([-softplus(log_odds), -softplus(-log_odds)])

    def decision_function(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B,) log-odds of ``classes_[1]`` minus those of the threshold: above 0 where ``predict`` says it.

        Parameters
        ----------
        bags, bag_ids : as of :meth:`predict_dist`.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> bool(((clf.decision_function(bags) >= 0) == clf.predict(bags)).all())
        True
        """
        log_odds = self.predict_dist(bags, bag_ids=bag_ids).log_odds
        found = np.asarray(log_odds - (np.log(self.threshold_) - np.log1p(-self.threshold_)))
        return found if self._positive_is_last else -found

    def predict(self, bags: Any, *, bag_ids: Any = None) -> Array:
        """(B,) labels, of ``classes_``, at the model's bag threshold, ``threshold_``.

        Parameters
        ----------
        bags, bag_ids : as of :meth:`predict_dist`.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> bool((clf.predict(bags) == (clf.predict_proba(bags)[:, 1] >= clf.threshold_)).all())
        True
        """
        found = self.predict_dist(bags, bag_ids=bag_ids).label
        return np.asarray(self.classes_[found if self._positive_is_last else 1 - found])

    @overload
    def predict_instances(
        self, bags: Any, *, bag_ids: Any = ..., return_std: Literal[False] = ..., as_frame: Literal[False] = ...,
        recalibrated: bool = ..., raw: bool = ...,
    ) -> list[Array]: ...  # fmt: skip
    @overload
    def predict_instances(
        self, bags: Any, *, bag_ids: Any = ..., return_std: Literal[True], as_frame: Literal[False] = ...,
        recalibrated: bool = ..., raw: bool = ...,
    ) -> tuple[list[Array], list[Array]]: ...  # fmt: skip
    @overload
    def predict_instances(
        self, bags: Any, *, bag_ids: Any = ..., return_std: bool = ..., as_frame: Literal[True],
        recalibrated: bool = ..., raw: bool = ...,
    ) -> pd.DataFrame: ...  # fmt: skip
    def predict_instances(
        self,
        bags: Any,
        *,
        bag_ids: Any = None,
        return_std: bool = False,
        as_frame: bool = False,
        recalibrated: bool = False,
        raw: bool = False,
    ) -> Any:
        """Per bag the instance probabilities (n_i,), with standard deviations or as one table on request.

        Parameters
        ----------
        bags, bag_ids : as of :meth:`predict_dist`.
        return_std : give a pair: the probabilities and, in the same form, their standard deviations.
        as_frame : give one table, in the caller's row order, of the columns of ``Prediction.to_frame("instance")``. It
            holds the standard deviations in any case, so ``return_std`` changes nothing about it.
        recalibrated : map scores to the share of positives among instances of that score, from out-of-bag scores;
            interval ends go the same way, ``std`` stays that of the scores.
        raw : leave out the calibration of the latent log-odds.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> [part.shape for part in clf.predict_instances(bags)] == [(n,) for n in bags.sizes]
        True
        >>> prob, std = clf.predict_instances(bags, return_std=True)
        >>> clf.predict_instances(bags, as_frame=True).columns.tolist()[:4]
        ['bag', 'instance', 'prob', 'std']
        """
        found = self._bags(bags, bag_ids)
        prediction = self.model_.predict(found, raw=raw)
        recalibration = self.model_.recalibration if recalibrated else None
        if recalibrated and recalibration is None:
            raise InputError("recalibrated instance probabilities need positive and negative training bags.")
        if as_frame:
            return prediction.to_frame("instance", recalibration)
        of_each, ends = prediction.instances, prediction.offsets[1:-1]
        prob = np.split(of_each.prob if recalibration is None else recalibration.apply(of_each.log_odds), ends)
        return (prob, np.split(of_each.std, ends)) if return_std else prob

    def score(self, bags: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of bags whose label is predicted; ``y`` finds its bags as in ``fit``.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> 0 <= clf.score(bags, dict(enumerate(y))) <= 1
        True
        """
        found = read_bags(bags, what="prediction set")
        weights = None if sample_weight is None else values_of_bags(sample_weight, found, "weights")
        return float(accuracy_score(values_of_bags(y, found), self.predict(found), sample_weight=weights))

    def __sklearn_tags__(self) -> Tags:
        """One sample is a bag, not a row; labels are binary."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.allow_nan = False
        tags.classifier_tags.multi_class = False
        tags.no_validation = True
        return tags

    def _bags(self, bags: Any, bag_ids: Any = None, *, what: str = "prediction set") -> Bags:
        """The bags with the features of the fitted model in its order."""
        self._check_fitted()
        found = read_bags(bags, bag_ids, what=what)
        check_fingerprint_of(self.feature_fingerprint, found)
        return features_of(found, self.model_.n_features, self._feature_names)
