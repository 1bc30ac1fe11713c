"""PsiVGPMIL: the scikit-learn shell around inference. One sample is one bag."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Self

import numpy as np

from psimil.estimators.online import OnlinePredictor
from psimil.files.model_file import load_model
from psimil.foundations.errors import InputError
from psimil.model.densities import Density, GammaMixture, HyperbolicSecant
from psimil.model.kernels import Kernel
from psimil.paper.presets import preset_parameters


class PsiVGPMIL(OnlinePredictor):
    """Multiple instance classification with sparse Gaussian processes and any Gaussian-scale-mixture density.

    Parameters
    ----------
    density : Density, default None
        psi; None is the hyperbolic secant (VGPMIL).
    kernel : Kernel, default None
        Starting kernel on standardised features; None is a linear trend plus an RBF where psi allows.
    n_inducing : int, default 200
        Number M of inducing points.
    inducing_points : (M, D) array, default None
        Explicit inducing points in the units of the input features; None chooses them.
    inducing : {"kmeans_by_label", "kmeans", "greedy_variance"}, default "kmeans_by_label"
        How inducing points are chosen.
    H : float, default inf
        Bag likelihood, Eq. (4); ``inf`` means that bag labels are right.
    label_posterior : {"exact", "mean_field", "max"}, default "exact"
        q(y): the closed form, Eq. (25), or the surrogate of the authors' code.
    mean : {"constant", "zero"}, default "constant"
        Prior mean of the latent function.
    residual : {"projected", "full", "unit"}, default "projected"
        What the sparse prior does with the variance that inducing points do not explain.
    hyperparameters : {"collapsed", "loo", "paper", "published", None}, default "collapsed"
        How the kernel is learned; None keeps it.
    log_z : {"logistic", "jensen", "rff", "none"}, default "logistic"
        What stands for log Z of densities other than the hyperbolic secant while the kernel is learned; "logistic"
        learns the kernel on the hyperbolic secant, whose log Z is known, and keeps it.
    aggregate : {"auto", "noisy_or", "max"}, default "auto"
        From instances to bags; "auto" takes what gives out-of-bag bags the higher likelihood.
    start : "labels" or float, default "labels"
        Start from the bag labels, or from pi ~ U(0, start).
    max_iter : int, default 100
        Passes at most per stage.
    tol : float, default 5e-4
        Rise of the bound per bag, in nats, below which the passes of a stage end.
    accelerate : bool, default True
        Over-relaxed steps of q(v), taken back where they lower the bound; False iterates exactly as in the paper.
    early_stopping : {None, "auc", "log_loss", "loo"}, default None
        Score that stops the fit: on ``eval_set``, or out-of-bag without one.
    patience : int, default 10
        Passes without a better score before stopping.
    calibrate : {"auto", True, False}, default "auto"
        Calibrate the latent log-odds on out-of-bag bags; "auto" where that helps held-out bags.
    threshold : float, default None
        Bag threshold; None takes it from out-of-bag bags.
    false_positive_rate : float or None, default 0.02
        Rate at which instances of negative bags may exceed the instance threshold; None puts it at 1/2.
    standardize : bool, default True
        Give every feature mean 0 and standard deviation 1 over the training instances, remembered with the model.
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
    classes_ : (2,) the two labels in ascending order, as the columns of ``predict_proba``.
    positive_ : the one of them that positive bags have.
    n_features_in_ : int, D.
    feature_names_in_ : (D,) names of the features, where the training bags had any.
    kernel_ : Kernel, the learned one, on standardised features.
    inducing_points_ : (M, D) in the units of the input features.
    q_mean_ : (V,) mean of q(v), whitened; V is M, or M + 1 with a constant mean.
    q_cov_ : (V, V) covariance of q(v).
    mean_ : float, the learned prior mean of the latent function; 0 with ``mean="zero"``.
    threshold_ : float, bag probability from which ``predict`` says 1.
    instance_threshold_ : float, the same for instances.
    training_counts_ : dict, numbers of "bags", "positive" bags and "instances" learned from.
    model_ : TrainedModel, all that a prediction needs.
    label_posterior_ : (N,) q(y = 1) of the training instances in the caller's row order; None after a streamed fit.
    elbo_ : float, the bound of the pass that was kept.
    n_iter_ : int, passes in all stages.
    converged_ : bool, whether the bound settled before ``max_iter``.
    history_ : list of dict, one per pass: the bound by terms, scores, seconds.
    loo_ : LeaveOneOut, out-of-bag predictions of the training bags.
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

    _kind: ClassVar[type] = object  # densities that load takes

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
        positive: Any = None,
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
        self.positive = positive
        self.feature_fingerprint = feature_fingerprint
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def preset(cls, name: str, **parameters: Any) -> Self:
        """The settings of the paper's text ("paper") or of the authors' code ("published"), with your own on top.

        Examples
        --------
        >>> from psimil import VGPMIL
        >>> clf = VGPMIL.preset("paper", n_inducing=50)
        >>> clf.H, clf.n_inducing
        (100.0, 50)
        """
        parameters.setdefault("density", cls._default_density)
        return cls(**preset_parameters(name, parameters))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PsiVGPMIL:
        """A model written by :meth:`save`; its predictions are equal bit by bit.

        Returns
        -------
        model : PsiVGPMIL whatever class saved it, ready to predict. A file holds nothing of the training rows, so
            ``loo_``, ``history_``, ``label_posterior_``, ``elbo_``, ``n_iter_``, ``converged_`` and ``online_`` are
            not there.

        Raises
        ------
        InputError
            When a model of another density is loaded by a class that stands for one: ``VGPMIL`` takes the hyperbolic
            secant, ``GVGPMIL`` the Gamma mixture, ``PsiVGPMIL`` any.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from psimil import PsiVGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "model.safetensors"
        ...     PsiVGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).save(path)
        ...     clf = PsiVGPMIL.load(path)
        >>> clf.predict_proba(bags).shape, hasattr(clf, "loo_")
        ((8, 2), False)
        """
        file = load_model(path)
        density = file.parameters.get("density", HyperbolicSecant())
        if not isinstance(density, cls._kind):
            named = [one.__name__ for one in (VGPMIL, GVGPMIL) if isinstance(density, one._kind)]
            better = named[0] if named else "PsiVGPMIL"
            raise InputError(f"the model has the density {density!r}; {cls.__name__} does not. Use {better}.load.")
        names = set(cls().get_params(deep=False))
        estimator = PsiVGPMIL(**{k: v for k, v in file.parameters.items() if k in names})
        estimator.feature_fingerprint = file.feature_fingerprint
        estimator.model_, estimator.training_counts_ = file.model, file.training_counts
        return estimator._expose(file.classes, file.feature_names)


class VGPMIL(PsiVGPMIL):
    """PsiVGPMIL with the hyperbolic secant density: VGPMIL, which equals PG-VGPMIL.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> VGPMIL(n_inducing=50).n_inducing
    50
    """

    _kind: ClassVar[type] = HyperbolicSecant


class GVGPMIL(PsiVGPMIL):
    """PsiVGPMIL with the Gamma mixture: G-VGPMIL. Default alpha = 1 and beta = 1, the largest stable grid point.

    Examples
    --------
    >>> from psimil import GVGPMIL, GammaMixture
    >>> GVGPMIL(density=GammaMixture(alpha=1.0, beta=2.0)).density.beta
    2.0
    """

    _default_density: ClassVar[Density] = GammaMixture(1.0, 1.0)
    _kind: ClassVar[type] = GammaMixture
