"""PsiVGPMIL: the scikit-learn shell around inference. One sample is one bag."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from psimil.estimators import inputs
from psimil.estimators.online import OnlineLearning
from psimil.estimators.parameters import options_of, renewed, resolved
from psimil.estimators.predictor import BagPredictor
from psimil.estimators.voice import aloud
from psimil.files.model_file import load_model
from psimil.foundations.errors import InputError
from psimil.inference.history import Callback
from psimil.inference.options import Parameters
from psimil.inference.preparation import Supervision
from psimil.inference.training import train
from psimil.model.densities import Density, GammaMixture, HyperbolicSecant
from psimil.paper.presets import preset_parameters

Array = NDArray[Any]


@dataclass(eq=False, repr=False)
class PsiVGPMIL(OnlineLearning, BagPredictor, Parameters):
    """Multiple instance classification with sparse Gaussian processes and any Gaussian-scale-mixture density.

    Parameters
    ----------
    density : Density, default None
        psi; None is the hyperbolic secant (VGPMIL).
    kernel : Kernel, default None
        Starting kernel on standardised features; None is a linear trend plus an RBF where psi allows.
    n_inducing : int or "auto", default "auto"
        Number M of inducing points; "auto" takes as many as the data deserve and a fit can afford, up to 1000.
    inducing_points : (M, D) array, default None
        Explicit inducing points in the units of the input features, (M, 4 D) in context; None chooses them.
    inducing : {"kmeans_by_label", "kmeans", "greedy_variance"}, default "kmeans_by_label"
        How inducing points are chosen.
    H : float, default inf
        Bag likelihood, Eq. (4); ``inf`` means that bag labels are right.
    label_posterior : {"exact", "mean_field", "max"}, default "exact"
        q(y): the closed form, Eq. (25), or the surrogate of the authors' code.
    labels : {"shared", "independent", "chain"}, default None
        Given f, labels of a bag share as much noise as is learned with the kernel, or none; in a "chain", neighbours
        tend to agree, in the order of :meth:`Bags.in_order`, or else of rows. None is "shared" where the kernel is
        learned, but "independent" for "augmented".
    mean : {"constant", "zero"}, default "constant"
        Prior mean of the latent function.
    residual : {"projected", "full", "unit"}, default "projected"
        What becomes of variance that inducing points do not explain; only "augmented" has others than "projected".
    posterior : {"variational", "sampled", "augmented"}, default None
        The best Gaussian for the bag likelihood, draws from the exact posterior, or the paper's mean field; None is
        "variational", and "augmented" for densities whose likelihood has no bound (Gamma, Student).
    hyperparameters : {"bound", "paper", "published", None}, default "bound"
        The kernel is learned by an estimate of log p(T), or on the paper's objective between passes; None keeps it.
    log_z : {"logistic", "jensen", "rff", "none"}, default "logistic"
        log Z of other densities on the paper's objective; the bound learns kernels on the hyperbolic secant instead.
    aggregate : {"noisy_or", "max"}, default "noisy_or"
        From instances to bags: one positive instance makes a bag positive, or the most probable instance stands for it.
    start : "labels" or float, default "labels"
        Start from the bag labels, or from pi ~ U(0, start).
    max_iter : int, default 100
        Passes at most per stage.
    tol : float, default None
        Passes end where q(v) moves by fewer nats per direction, 2e-3; "augmented": a bag's bound by fewer, 5e-4.
    accelerate : bool, default True
        Over-relaxed steps of q(v), taken back where they lower the bound; False iterates exactly as in the paper.
    early_stopping : {None, "auc", "log_loss", "out_of_bag"}, default None
        Score that stops the fit: on ``eval_set``, or out-of-bag without one.
    patience : int, default 10
        Passes without a better score before stopping.
    calibrate : {"auto", True, False}, default None
        Calibrate latent log-odds on out-of-bag bags, "auto" where it helps; None is "auto" for "augmented", else False.
    threshold : float, default None
        Bag threshold; None takes it from out-of-bag bags.
    false_positive_rate : float or None, default 0.02
        Rate at which instances of negative bags may exceed the instance threshold; None puts it at 1/2.
    referral : str, default "workload=0.1"
        Which bags ``refer`` names for a human reader beside novel ones: "workload=SHARE" the share of bags nearest the
        threshold, "error=SHARE" as many as leave that share of wrong calls among the others, both chosen out-of-bag, or
        "interval" those whose credible interval crosses the threshold.
    context : {"bag", "auto", None}, default None
        "bag" shows every instance beside mean, minimum and maximum of its bag; "auto" does so where log p(T) gains.
    standardize : bool, default True
        Features get mean 0 and deviation 1; of more than 1000, a default kernel sees at most 256 principal components.
    warm_start : bool, default False
        A second fit goes on from the first: it keeps scaling, inducing points, kernel and q(v) as its start.
    chunk_size : int, default None
        Instances per chunk; set, nothing of size N x M stays in memory.
    dtype : {"float64", "float32"}, default "float64"
        Precision of features and kernel matrices; q(v) is solved in double precision.
    device : str, default None
        Torch device on which a fit works out its products (tested on "cpu" alone); None is NumPy.
    expectation : {"quadrature", "sample"}, default "quadrature"
        How probabilities are averaged over the latent posterior.
    positive : label, default None
        The class of positive bags, of which one instance is enough; None takes the greater of the two labels.
    feature_fingerprint : str, default None
        Names what made the features; stored with the model.
    random_state : int, Generator, RandomState or None, default None
        Seed of k-means, folds, random starts and minibatches; equal seeds give equal bits, None draws a new one.
    verbose : int, default 0
        Above 0, a line per pass and phase: to the logger "psimil" where logging is set up to hear it, else to stdout.

    Attributes
    ----------
    model_ : TrainedModel, all that a prediction needs. Views of it: ``classes_``, ``positive_``, ``n_features_in_``,
        ``feature_names_in_``, ``kernel_``, ``inducing_points_``, ``q_mean_``, ``q_cov_``, ``mean_``, ``threshold_``,
        ``instance_threshold_``.
    training_counts_ : dict, numbers of "bags", "positive" bags and "instances" learned from.
    bag_column_ : str, the column that ``psimil fit --bag`` named, which its other commands take again; or None.
    label_posterior_ : (N,) q(y = 1) of the training instances in the caller's row order; None after a streamed fit.
    elbo_ : float, the bound of the pass that was kept.
    n_iter_ : int, passes in all stages.
    converged_ : bool, whether the posterior settled before ``max_iter``.
    history_ : list of dict, one per pass: the bound by terms, scores, seconds.
    out_of_bag_ : OutOfBag, out-of-bag predictions of the training bags.
    online_ : Online, how far ``partial_fit`` has come; set by its second call.

    Examples
    --------
    >>> from psimil import PsiVGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=40, seed=1)
    >>> clf = PsiVGPMIL(n_inducing=20, random_state=0).fit(bags, y)
    >>> clf.predict_proba(bags).shape
    (40, 2)
    """

    positive: Any = None
    feature_fingerprint: str | None = None
    random_state: Any = None
    verbose: int = 0

    _kind: ClassVar[type] = object  # densities that load takes

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
        checkpoint : file that keeps the last complete pass; a fit that was interrupted goes on from it. Such a fit is a
            streamed one, which makes other random choices than one in memory with the same seed.

        Examples
        --------
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
        found = inputs.read_bags(bags, bag_ids)
        classes, T = inputs.read_labels(y, found, positive=self.positive, from_rows=bag_ids is not None)
        options = options_of(resolved(self), found.n_features)
        weights = np.ones(len(found)) if sample_weight is None else inputs.read_weights(sample_weight, found)
        known = None if y_instances is None else inputs.read_instance_labels(y_instances, found, T, self.H)
        supervision, rng = Supervision(T, weights, known), inputs.read_random_state(self.random_state)
        how: dict[str, Any] = {"previous": self._previous(found, classes) if self.warm_start else None}
        if callbacks is not None or self.verbose:
            how["callbacks"] = inputs.callbacks_of(callbacks, self.verbose)
        if eval_set is not None or self.early_stopping is not None:
            how["evaluation"] = inputs.evaluation_of(eval_set, found, classes, self.early_stopping)
        if not (batch_bags is client is checkpoint is None):
            how["execution"] = inputs.execution_of(client, checkpoint, found, supervision, options, rng, batch_bags)
        with aloud() if self.verbose else nullcontext():
            training = train(found, supervision, options, rng=rng, **how)
        self.model_, self.history_, self.out_of_bag_ = training.model, training.history, training.out_of_bag
        self._classes, self._feature_names, self._fitted_with = classes, found.feature_names, resolved(self)
        self.label_posterior_, self.bag_column_ = training.pi, None
        if training.pi is not None and found.rows is not None:
            self.label_posterior_ = found.in_input_order(training.pi)
        kept, score = training.history[-1], f"eval_{self.early_stopping}"
        if self.early_stopping is not None:
            last = [row for row in training.history if row["stage"] == kept["stage"]]
            kept = max(last, key=lambda row: row[score])
        self.elbo_, self.n_iter_, self.converged_ = float(kept["elbo"]), len(training.history), training.converged
        self.training_counts_ = {"bags": len(found), "positive": int(T.sum()), "instances": len(found.X)}
        if not self.converged_ and self.early_stopping is None and self.max_iter > 0 and self.tol != 0:
            settle = f"the posterior had not settled after {self.max_iter} passes; raise max_iter or tol."
            warnings.warn(settle, ConvergenceWarning, stacklevel=2)
        return self

    @classmethod
    def preset(cls, name: str, **parameters: Any) -> Self:
        """The settings of the paper's text ("paper") or of the authors' code ("published"), with your own on top.

        Examples
        --------
        >>> VGPMIL.preset("paper", n_inducing=50).H
        100.0
        """
        parameters.setdefault("density", cls._default_density)
        return cls(**preset_parameters(name, parameters))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A model written by :meth:`save`; its predictions are equal bit by bit.

        It is of the class that loads, ready to predict. A file holds nothing of the training rows, so ``out_of_bag_``,
        ``history_``, ``label_posterior_``, ``elbo_``, ``n_iter_``, ``converged_`` and ``online_`` are not there.

        Raises
        ------
        InputError
            When a model of another density is loaded by a class that stands for one: ``VGPMIL`` takes the hyperbolic
            secant, ``GVGPMIL`` the Gamma mixture, ``PsiVGPMIL`` any.

        Examples
        --------
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> PsiVGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).save("model.safetensors")
        >>> clf = PsiVGPMIL.load("model.safetensors")
        >>> clf.predict_proba(bags).shape, hasattr(clf, "out_of_bag_")
        ((8, 2), False)
        """
        file = load_model(path)
        density = file.parameters.get("density", HyperbolicSecant())
        if not isinstance(density, cls._kind):
            named = [one.__name__ for one in (VGPMIL, GVGPMIL) if isinstance(density, one._kind)]
            better = named[0] if named else "PsiVGPMIL"
            raise InputError(f"the model has the density {density!r}; {cls.__name__} does not. Use {better}.load.")
        estimator = cls()
        names = {field.name for field in fields(estimator)}
        for name, value in renewed(file.parameters).items():
            if name in names:
                setattr(estimator, name, value)
        estimator.feature_fingerprint, estimator.bag_column_ = file.feature_fingerprint, file.bag_column
        estimator.model_, estimator.training_counts_ = file.model, file.training_counts
        estimator._classes, estimator._feature_names = file.classes, file.feature_names
        estimator._fitted_with = {k: v for k, v in resolved(estimator).items() if k in file.parameters}
        return estimator


class VGPMIL(PsiVGPMIL):
    """PsiVGPMIL with the hyperbolic secant density: VGPMIL, which equals PG-VGPMIL.

    Examples
    --------
    >>> VGPMIL(n_inducing=50).n_inducing
    50
    """

    _kind: ClassVar[type] = HyperbolicSecant


class GVGPMIL(PsiVGPMIL):
    """PsiVGPMIL with the Gamma mixture: G-VGPMIL. Default alpha = 1 and beta = 1, the largest stable grid point.

    Examples
    --------
    >>> GVGPMIL(density=GammaMixture(alpha=1.0, beta=2.0)).density.beta
    2.0
    """

    _default_density: ClassVar[Density] = GammaMixture(1.0, 1.0)
    _kind: ClassVar[type] = GammaMixture
