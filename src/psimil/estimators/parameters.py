"""What the parameters of an estimator may be, said and checked once, and what their names stand for in inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from psimil.compute.backend import Backend
from psimil.foundations.errors import InputError
from psimil.foundations.extras import install_command
from psimil.inference.options import Options
from psimil.model.context import PARTS
from psimil.model.densities import Density, grows
from psimil.model.features import as_real
from psimil.model.kernels import Kernel
from psimil.paper.augmented import Augmented
from psimil.paper.kernel_steps import PaperLearning
from psimil.paper.label_posteriors import RULES
from psimil.paper.published import SURROGATE, UnitSparseGP
from psimil.predictive.aggregates import AGGREGATES
from psimil.predictive.thresholds import RULE as REFERRAL
from psimil.predictive.thresholds import read_referral

# What names of the paper and of its published code plug into inference
PLUG_INS: dict[tuple[str, str], dict[str, Any]] = {
    ("posterior", "augmented"): {"algorithm": Augmented},
    ("label_posterior", "mean_field"): {"rule": RULES["mean_field"]},
    ("label_posterior", "max"): {"rule": SURROGATE},
    ("residual", "unit"): {"prior": UnitSparseGP, "residual": "full"},
    ("hyperparameters", "paper"): {"algorithm": partial(Augmented, learning=PaperLearning())},
    ("hyperparameters", "published"): {"algorithm": partial(Augmented, learning=PaperLearning(published=True))},
}

NUMBER = (int, float, np.integer, np.floating)
Constraint = tuple[str, Callable[[Any], bool]]  # in words, and whether a value keeps it


def _one_of(*allowed: Any) -> Constraint:
    listed = ", ".join(repr(a) for a in allowed)
    return f"one of {listed}", lambda v: any(v is a or (type(v) is type(a) and v == a) for a in allowed)


def _whole(low: int) -> Constraint:
    rule = f"a whole number >= {low}"
    return rule, lambda v: isinstance(v, Integral) and not isinstance(v, (bool, np.bool_)) and low <= int(v)


def _real(rule: str, holds: Callable[[Any], bool]) -> Constraint:
    return rule, lambda v: isinstance(v, NUMBER) and not isinstance(v, bool) and v == v and holds(v)  # noqa: PLR0124


def _optional(constraint: Constraint) -> Constraint:
    return constraint[0], lambda v: v is None or constraint[1](v)


COUNT = _whole(1)
FLAG: Constraint = ("True or False", lambda v: isinstance(v, (bool, np.bool_)))
SHARE = _real("a number between 0 and 1", lambda v: 0 < v < 1)


def _is_referral(value: Any) -> bool:
    try:
        read_referral(value)
    except InputError:
        return False
    return True


FREE: Constraint = ("", lambda v: v is None)  # of parameters that are looked at elsewhere
CONSTRAINTS: dict[str, Constraint] = {
    "n_inducing": ('"auto" or a whole number >= 1', lambda v: v == "auto" or COUNT[1](v)),
    "inducing": _one_of("kmeans_by_label", "kmeans", "greedy_variance"),
    "H": _real("a number > 0", lambda v: v > 0),
    "label_posterior": _one_of("exact", "mean_field", "max"),
    "labels": _one_of(None, "shared", "independent", "chain"),
    "mean": _one_of("constant", "zero"),
    "residual": _one_of("projected", "full", "unit"),
    "posterior": _one_of(None, "variational", "sampled", "augmented"),
    "hyperparameters": _one_of("bound", "paper", "published", None),
    "log_z": _one_of("logistic", "jensen", "rff", "none"),
    "aggregate": _one_of(*AGGREGATES),
    "start": ('"labels" or a number in (0, 1]', lambda v: v == "labels" or _real("", lambda v: 0 < v <= 1)[1](v)),
    "max_iter": _whole(0),
    "tol": _optional(_real("a number >= 0", lambda v: v >= 0)),
    "accelerate": FLAG,
    "early_stopping": _one_of(None, "auc", "log_loss", "out_of_bag"),
    "patience": COUNT,
    "calibrate": _one_of(None, "auto", True, False),
    "threshold": _optional(SHARE),
    "false_positive_rate": _optional(SHARE),
    "referral": (REFERRAL, _is_referral),
    "context": _one_of(None, "bag", "auto"),
    "standardize": FLAG,
    "warm_start": FLAG,
    "chunk_size": _optional(COUNT),
    "dtype": _one_of("float64", "float32"),
    "expectation": _one_of("quadrature", "sample"),
    "level": SHARE,
    "n_samples": _whole(2),
    "feature_fingerprint": ("text", lambda v: v is None or isinstance(v, str)),
    "verbose": ("a whole number >= 0", lambda v: isinstance(v, (Integral, np.bool_)) and int(v) >= 0),
}

# Defaults that depend on the posterior; tol is of the bound per bag, or of q(v)
OF_AUGMENTED: dict[str, Any] = {"calibrate": "auto", "tol": 5e-4, "labels": "independent"}
OF_VARIATIONAL: dict[str, Any] = {"calibrate": False, "tol": 2e-3, "labels": "shared"}

# Values of earlier versions, and what stands in their place: said in errors, and put into parameters of older files
RENAMED: dict[tuple[str, str], Any] = {
    ("hyperparameters", "collapsed"): "bound",
    ("hyperparameters", "loo"): "bound",
    ("early_stopping", "loo"): "out_of_bag",
    ("aggregate", "auto"): "noisy_or",
}
# What 1.0.0 did where its files say nothing: it had one posterior and one rule of referral, and other defaults
OF_1_0_0: dict[str, Any] = {
    "n_inducing": 200,
    "posterior": "augmented",
    "calibrate": "auto",
    "referral": "interval",
}


def check_parameters(values: dict[str, Any]) -> None:
    """Refuse every value that breaks its rule, naming parameter, rule and value.

    Parameters
    ----------
    values : by the names of parameters; those of other names are not looked at.

    Examples
    --------
    >>> check_parameters({"n_inducing": 0})
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: n_inducing must be "auto" or a whole number >= 1, got 0.
    """
    for name, value in values.items():
        rule, holds = CONSTRAINTS.get(name, FREE)
        if rule and not holds(value):
            renamed = isinstance(value, str) and (name, value) in RENAMED
            hint = f" {RENAMED[name, value]!r} is its successor." if renamed else ""
            raise InputError(f"{name} must be {rule}, got {value!r}.{hint}")


def renewed(stored: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a model file as this version names them; a file without ``posterior`` is of 1.0.0.

    Examples
    --------
    >>> found = renewed({"n_inducing": 50, "hyperparameters": "collapsed"})
    >>> found["n_inducing"], found["hyperparameters"], found["posterior"]
    (50, 'bound', 'augmented')
    """
    current = {k: RENAMED.get((k, v), v) if isinstance(v, str) else v for k, v in stored.items()}
    return current if "posterior" in stored else OF_1_0_0 | current


def resolved(estimator: Any) -> dict[str, Any]:
    """All parameters of an estimator, with the density that None stands for.

    Examples
    --------
    >>> from psimil import GVGPMIL
    >>> resolved(GVGPMIL())["density"]
    GammaMixture(alpha=1.0, beta=1.0)
    """
    density = estimator._default_density if estimator.density is None else estimator.density
    return {one.name: getattr(estimator, one.name) for one in fields(estimator)} | {"density": density}


def options_of(parameters: dict[str, Any], n_features: int) -> Options:
    """The parameters of an estimator as inference takes them, checked.

    Parameters
    ----------
    parameters : all of them; ``density`` is resolved.
    n_features : D of the training bags.
    """
    check_parameters(parameters)
    density, kernel = parameters["density"], parameters["kernel"]
    for name in ("density", "kernel"):
        if isinstance(parameters[name], type):
            kind = parameters[name].__name__
            raise InputError(f"{name} is the class {kind}. Give an instance: {kind}(...).")
    if not isinstance(density, Density):
        raise InputError(f"density must have log_prob and theta, got {density!r}.")
    if kernel is not None and not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a psimil kernel, got {kernel!r}.")
    posterior = parameters["posterior"] or ("augmented" if grows(density) else "variational")
    _check_together(parameters, posterior)
    values = {f.name: parameters[f.name] for f in fields(Options) if f.name in parameters} | {"posterior": posterior}
    usual = OF_AUGMENTED if posterior == "augmented" else OF_VARIATIONAL
    if parameters["hyperparameters"] is None:  # nothing is learned beside q(v) unless it is asked for
        usual = usual | {"labels": "independent"}
    values |= {name: value for name, value in usual.items() if parameters[name] is None}
    if parameters["inducing_points"] is not None:
        Z, D = as_real(parameters["inducing_points"], "inducing_points"), n_features
        D *= 1 if parameters["context"] is None else PARTS
        if Z.ndim != 2 or Z.shape[1] != D or len(Z) == 0 or not np.isfinite(Z).all():
            raise InputError(f"inducing_points have shape {Z.shape}, expected (points, {D}), all finite.")
        values["inducing_points"] = Z
    if parameters["device"] is not None:
        values["backend"] = _torch_backend(parameters["device"], kernel)
    for (name, choice), plugged in PLUG_INS.items():
        values |= plugged if values[name] == choice else {}
    return Options(**values)


# What only the augmented posterior has
_VARIATIONAL: dict[str, tuple[Any, ...]] = {
    "label_posterior": ("exact",),
    "start": ("labels",),
    "residual": ("projected",),
    "hyperparameters": ("bound", None),
}


def _check_together(given: dict[str, Any], posterior: str) -> None:
    """Refuse parameters that exclude each other."""
    density, augmented = given["density"], posterior == "augmented"
    if given["label_posterior"] == "max" and np.isinf(given["H"]):
        raise InputError('label_posterior "max" needs a finite H, got inf.')
    for name, allowed in _VARIATIONAL.items():
        if not augmented and given[name] not in allowed:
            raise InputError(f'{name}={given[name]!r} needs posterior="augmented".')
    if not augmented and grows(density):
        raise InputError(
            f"the likelihood of {density!r} grows without bound, so that its posterior runs away. "
            'Use posterior="augmented", or another density.'
        )
    if given["labels"] in ("chain", "shared") and augmented:
        needs = 'posterior="variational" or "sampled", and a density that has them'
        raise InputError(f'labels="{given["labels"]}" needs {needs}.')
    if given["labels"] == "chain" and given["calibrate"]:  # it would look at instances one by one
        raise InputError(
            f'labels="chain" has no calibration, got calibrate={given["calibrate"]!r}: scale and shift would be '
            "those of log-odds with neighbours summed out, not of latent values. Leave calibrate=None, or give False."
        )
    boundless = 'residual "unit"' if given["residual"] == "unit" else ""
    boundless = boundless if getattr(density, "has_bound", True) else "the clipped Gamma mixture"
    if boundless and given["hyperparameters"] == "bound":
        raise InputError(f'{boundless} has no bound; use hyperparameters "published", "paper" or None.')
    if given["context"] == "auto":
        learned, points = given["hyperparameters"] == "bound", given["inducing_points"] is not None
        wrong = "" if learned else f"hyperparameters={given['hyperparameters']!r}"
        wrong = wrong or (f"posterior={posterior!r}" if augmented else "inducing_points" if points else "")
        if wrong:
            raise InputError(
                f'context="auto" is decided by log p(T) of learned kernels, which {wrong} does not allow. '
                'Give context="bag" or None.'
            )


def _torch_backend(device: str, kernel: Kernel | None) -> Backend:
    """Torch on a device that it reaches, for a kernel that it knows; without torch, say how to get it."""
    try:
        from psimil.compute.torch_backend import TorchBackend
        from psimil.model.kernels.torch_gram import check_kernel
    except ImportError:
        raise InputError(f"device needs torch. Install it with: {install_command('torch')}") from None
    if kernel is not None:
        check_kernel(kernel)
    return TorchBackend.reached(device)
