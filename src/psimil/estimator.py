"""PsiVGPMIL: the scikit-learn shell around inference. One sample is one bag."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from psimil.estimator_settings import evaluation_of, options_of, streaming_of
from psimil.foundations.errors import InputError
from psimil.inference.options import Options
from psimil.inference.preparation import Supervision
from psimil.inference.trained import TrainedModel
from psimil.inference.training import Callback, Training
from psimil.inference.training_by_size import train_by_size
from psimil.labels import read_bag_labels, read_bags, read_instance_labels, read_random_state, read_weights
from psimil.model.bags import Bags
from psimil.model.densities import Density, GammaMixture
from psimil.model.kernels import Kernel
from psimil.online import OnlinePredictor
from psimil.presets import preset_parameters
from psimil.storage import load_model

Array = NDArray[Any]
_log = logging.getLogger("psimil")


class PsiVGPMIL(OnlinePredictor):
    """Multiple instance classification with sparse Gaussian processes and any Gaussian-scale-mixture density.

    Parameters
    ----------
    density : Density or None
        psi; None is the hyperbolic secant (VGPMIL).
    kernel : Kernel or None
        Starting kernel on standardised features; None is a linear trend plus an RBF where psi allows.
    n_inducing : int
        Number M of inducing points.
    inducing_points : (M, D) array or None
        Explicit inducing points in the units of the input features.
    inducing : {"kmeans_by_label", "kmeans", "greedy_variance"}
        How inducing points are chosen.
    H : float
        Bag likelihood, Eq. (4); ``inf`` means that bag labels are right.
    label_posterior : {"exact", "mean_field", "max"}
        q(y): the closed form, Eq. (25), or the surrogate of the authors' code.
    mean : {"constant", "zero"}
        Prior mean of the latent function.
    residual : {"projected", "full", "unit"}
        What the sparse prior does with the variance that inducing points do not explain.
    hyperparameters : {"collapsed", "loo", "paper", "published", None}
        How the kernel is learned.
    log_z : {"logistic", "jensen", "rff", "none"}
        What stands for log Z of densities other than the hyperbolic secant while the kernel is learned; "logistic"
        learns the kernel on the hyperbolic secant, whose log Z is known, and keeps it.
    aggregate : {"auto", "noisy_or", "max"}
        From instances to bags; "auto" takes what gives out-of-bag bags the higher likelihood.
    start : "labels" or float
        Start from the bag labels, or from pi ~ U(0, start).
    max_iter, tol : int, float
        Passes at most per stage, and the rise of the bound per bag, in nats, below which they end.
    accelerate : bool
        Over-relaxed steps of q(v), taken back where they lower the bound; False iterates exactly as in the paper.
    early_stopping : {None, "auc", "log_loss", "loo"}
        Score that stops the fit: on ``eval_set``, or out-of-bag without one.
    patience : int
        Passes without a better score before stopping.
    calibrate : {"auto", True, False}
        Calibrate the latent log-odds on out-of-bag bags; "auto" where that helps held-out bags.
    threshold : float or None
        Bag threshold; None takes it from out-of-bag bags.
    false_positive_rate : float or None
        Rate at which instances of negative bags may exceed the instance threshold; None puts it at 1/2.
    standardize, warm_start : bool
    chunk_size : int or None
        Instances per chunk; set, nothing of size N x M stays in memory.
    dtype : {"float64", "float32"}
    device : str or None
        Torch device ("cuda", "cpu") on which a fit works out its products; None is NumPy.
    expectation : {"quadrature", "sample"}
        How probabilities are averaged over the latent posterior.
    feature_fingerprint : str or None
        Names what made the features; stored with the model.
    random_state : int, Generator or None
    verbose : int
        Above 0, one line per pass goes to the logger "psimil".

    Attributes
    ----------
    history_ : list of dict, one per pass: the bound by terms, scores, seconds.
    loo_ : LeaveOneOut, out-of-bag predictions of the training bags.
    model_ : TrainedModel.

    Examples
    --------
    >>> from psimil import PsiVGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=40, seed=1)
    >>> clf = PsiVGPMIL(n_inducing=20, random_state=0).fit(bags, y)
    >>> clf.predict_proba(bags).shape
    (40, 2)
    """

    def __init__(
        self,
        density: Density | None = None,
        kernel: Kernel | None = None,
        n_inducing: int = 200,
        inducing_points: Any = None,
        inducing: str = "kmeans_by_label",
        H: float = np.inf,
        label_posterior: str = "exact",
        mean: str = "constant",
        residual: str = "projected",
        hyperparameters: str | None = "collapsed",
        log_z: str = "logistic",
        aggregate: str = "auto",
        start: str | float = "labels",
        max_iter: int = 100,
        tol: float = 5e-4,
        accelerate: bool = True,
        early_stopping: str | None = None,
        patience: int = 10,
        calibrate: str | bool = "auto",
        threshold: float | None = None,
        false_positive_rate: float | None = 0.02,
        standardize: bool = True,
        warm_start: bool = False,
        chunk_size: int | None = None,
        dtype: str = "float64",
        device: str | None = None,
        expectation: str = "quadrature",
        feature_fingerprint: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.density = density
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.inducing_points = inducing_points
        self.inducing = inducing
        self.H = H
        self.label_posterior = label_posterior
        self.mean = mean
        self.residual = residual
        self.hyperparameters = hyperparameters
        self.log_z = log_z
        self.aggregate = aggregate
        self.start = start
        self.max_iter = max_iter
        self.tol = tol
        self.accelerate = accelerate
        self.early_stopping = early_stopping
        self.patience = patience
        self.calibrate = calibrate
        self.threshold = threshold
        self.false_positive_rate = false_positive_rate
        self.standardize = standardize
        self.warm_start = warm_start
        self.chunk_size = chunk_size
        self.dtype = dtype
        self.device = device
        self.expectation = expectation
        self.feature_fingerprint = feature_fingerprint
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def preset(cls, name: str, **parameters: Any) -> Self:
        """The settings of the paper's text ("paper") or of the authors' code ("published"), with your own on top."""
        parameters.setdefault("density", cls._default_density)
        return cls(**preset_parameters(name, parameters))

    def fit(
        self,
        bags: Any,
        y: Any = None,
        bag_ids: Any = None,
        y_instances: Any = None,
        sample_weight: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callback] = (),
        batch_bags: int | None = None,
        client: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from bags and one 0/1 label each.

        Parameters
        ----------
        bags : sequence of (n_i, D) arrays, Bags, or (N, D) rows together with ``bag_ids``.
        y : (B,) labels in the order of the bags (sorted ids with ``bag_ids``), or (N,) per row, constant in a bag.
        y_instances : known instance labels, -1 for unknown: (N,) per row or one sequence per bag.
        sample_weight : (B,) weight of each bag in the bound, where weight 2 equals the bag twice; scaling, k-means and
            folds count every bag once.
        eval_set : (bags, y) for early stopping.
        callbacks : called with a dict after every pass; a true answer stops the fit.
        batch_bags : bags of a minibatch; None for passes over all bags.
        client : ``distributed.Client`` of a cluster that works out the parts, see :mod:`psimil.distributed`.
        checkpoint : file that keeps the last complete pass; a fit that was interrupted goes on from it.
        """
        if y is None:
            raise InputError("fit needs bag labels: fit(bags, y). requires y to be passed, but the target y is None")
        found = read_bags(bags, bag_ids)
        T = read_bag_labels(y, found)
        options = self._options(found.n_features)
        known = read_instance_labels(y_instances, found, T, self.H)
        supervision = Supervision(T, read_weights(sample_weight, found), known)
        rng = read_random_state(self.random_state)
        elsewhere = streaming_of(client, checkpoint, found, supervision, options, rng, batch_bags)
        training = train_by_size(
            found,
            supervision,
            options,
            rng=rng,
            evaluation=evaluation_of(eval_set, found, self.early_stopping),
            callbacks=(*callbacks, *([_log_row] if self.verbose else [])),
            previous=self._previous(found) if self.warm_start else None,
            batch_bags=batch_bags,
            **elsewhere,
        )
        return self._keep(training, found, T)

    def _keep(self, training: Training, bags: Bags, T: Array) -> Self:
        self.model_, self.history_, self.loo_ = training.model, training.history, training.loo
        self.label_posterior_ = None if training.pi is None else bags.in_input_order(training.pi)
        last = [row for row in training.history if row["stage"] == training.history[-1]["stage"]]
        score = f"eval_{self.early_stopping}"
        kept = last[-1] if self.early_stopping is None else max(last, key=lambda row: row[score])
        self.elbo_, self.n_iter_ = kept["elbo"], len(training.history)
        self.converged_ = training.converged
        self.training_counts_ = {"bags": len(bags), "positive": int(T.sum()), "instances": len(bags.X)}
        if not self.converged_ and self.early_stopping is None and self.max_iter > 0 and self.tol > 0:
            warnings.warn(
                f"the bound had not settled after {self.max_iter} passes; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self._expose()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PsiVGPMIL:
        """A model written by :meth:`save`; its predictions are equal bit by bit."""
        file = load_model(path)
        names = set(cls().get_params(deep=False))
        estimator = PsiVGPMIL(**{k: v for k, v in file.parameters.items() if k in names})
        estimator.feature_fingerprint = file.feature_fingerprint
        estimator.model_, estimator.training_counts_ = file.model, file.training_counts
        return estimator._expose()

    def _previous(self, bags: Bags) -> TrainedModel | None:
        model: TrainedModel | None = getattr(self, "model_", None)
        if model is not None and len(model.scaling.location) != bags.n_features:
            raise InputError(f"warm_start: model has {len(model.scaling.location)} features, got {bags.n_features}.")
        return model

    def _options(self, n_features: int) -> Options:
        density = self._default_density if self.density is None else self.density
        return options_of(self, n_features, density)


class VGPMIL(PsiVGPMIL):
    """PsiVGPMIL with the hyperbolic secant density: VGPMIL, which equals PG-VGPMIL.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> VGPMIL(n_inducing=50).n_inducing
    50
    """


class GVGPMIL(PsiVGPMIL):
    """PsiVGPMIL with the Gamma mixture: G-VGPMIL. Default alpha = 1 and beta = 1, the largest stable grid point.

    Examples
    --------
    >>> from psimil import GVGPMIL, GammaMixture
    >>> GVGPMIL(density=GammaMixture(alpha=1.0, beta=2.0)).density.beta
    2.0
    """

    _default_density: ClassVar[Density] = GammaMixture(1.0, 1.0)


def _log_row(row: dict[str, Any]) -> None:
    _log.info("pass %d: bound %.6g after %.2f s", row["iteration"], row["elbo"], row["seconds"])
