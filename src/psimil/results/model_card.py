"""The card of a model: what a page or a report says about where its numbers come from."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.files.schema import without_draws
from psimil.model.densities import Density, GammaMixture, HyperbolicSecant
from psimil.model.kernels import Columns, Kernel, Sum
from psimil.predictive.moments import IDENTITY
from psimil.predictive.trained import TrainedModel
from psimil.version import VERSION


def model_card(estimator: PsiVGPMIL, file: Path | None = None) -> dict[str, str]:
    """Name, version, density, kernel and other facts of a fitted model, in words.

    Parameters
    ----------
    estimator : fitted.
    file : the model file, whose SHA-256 begins with the card's ``sha256``; None leaves that out.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, seed=0)
    >>> card = model_card(VGPMIL(n_inducing=5, random_state=0).fit(bags, y))
    >>> card["model"], card["inducing points"], card["training"]
    ('VGPMIL', '5', '10 bags (5 positive), 92 instances')
    """
    model = estimator.model_
    density = estimator._default_density if estimator.density is None else estimator.density
    counts = estimator.training_counts_
    calibration = model.calibration
    numbers = (calibration.scale, calibration.shift, calibration.spread)
    card = {
        "model": _name(density),
        "version": f"psimil {VERSION}",
        "density": _words(density),
        "kernel": _kernel_words(model.gp.kernel),
        "inducing points": str(len(model.gp.Z)),
        "features": _feature_words(model),
        "context": context_words(model),
        "training": f"{counts['bags']} bags ({counts['positive']} positive), {counts['instances']} instances",
        "posterior": _posterior(model),
        "calibration": "none"
        if calibration == IDENTITY
        else "scale {:.4g}, shift {:.4g}, spread {:.4g}".format(*numbers),
        "aggregate": model.aggregate.replace("_", "-"),
    }
    if model.coupling:
        card["labels"] = f"a chain, neighbours linked by J = {model.coupling:.3g}"
    if model.sharing:
        card["labels"] = f"those of a bag share noise, of rank correlation {model.sharing:.3g}"
    card["referral"] = referral_rule(model, estimator.referral)
    if model.novelty is not None:
        card["novelty"] = f"from distance {np.sqrt(model.novelty.square):.4g} to the nearest inducing point on"
    if estimator.feature_fingerprint is not None:
        card["feature fingerprint"] = estimator.feature_fingerprint
    if file is not None:
        card["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return card


def _feature_words(model: TrainedModel) -> str:
    """How many features the model has, and how many principal components it sees of wide ones."""
    directions = model.scaling.directions
    return str(model.n_features) + (
        "" if directions is None else f", seen as {directions.shape[1]} principal components"
    )


def context_words(model: TrainedModel) -> str:
    """Whether the model sees instances in context, and log p(T) with and without where that was compared.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, seed=0)
    >>> model = VGPMIL(n_inducing=5, max_iter=1, tol=0.0, context="bag", random_state=0).fit(bags, y).model_
    >>> context_words(replace(model, context_evidence=(-31.25, -35.0)))
    'bag (log p(T) -31.2 against -35.0 without)'
    """
    word = "bag" if model.context else "none"
    if model.context_evidence is None:
        return word
    beside, without = (f"{value:.1f}" for value in model.context_evidence)
    if model.context:
        return f"{word} (log p(T) {beside} against {without} without)"
    return f"{word} (log p(T) {without} against {beside} in context)"


def _posterior(model: TrainedModel) -> str:
    """Which posterior predictions are made of, and what tells whether to trust draws of it."""
    if model.chains is not None:
        chains = model.chains
        good = f"R-hat {chains.r_hat:.3f}, effective sample size {chains.effective_sample_size:.0f}"
        return f"{len(chains.v)} draws from the exact posterior, {good}, {chains.divergences} divergences"
    return "variational Gaussian" if model.joint else "augmented (mean field)"


def posterior_facts(model: TrainedModel) -> dict[str, Any]:
    """The same as facts for programs: its kind, and of draws their number and diagnostics."""
    if model.chains is None:
        return {"kind": "variational" if model.joint else "augmented"}
    return {"kind": "sampled", "draws": len(model.chains.v), **without_draws(model.chains)}


def referral_facts(model: TrainedModel, rule: str) -> dict[str, Any]:
    """The rule of referral, its margin in log-odds, and what it costs and catches out-of-bag."""
    referral = model.referral
    if referral is None:
        return {"rule": "interval"}
    return {"rule": rule, "margin": referral.margin, **referral.cost._asdict(), "caught": referral.cost.caught}


def referral_rule(model: TrainedModel, rule: str) -> str:
    """Which bags go to a reader, and what that costs out-of-bag."""
    novel = "" if model.novelty is None else ", or novel"
    if model.referral is None:
        return f"where the interval crosses the threshold{novel}"
    of = model.referral
    return f"{rule}: log-odds within {of.margin:.3g} of the threshold{novel}; out-of-bag {of.cost.words}"


def _kernel_words(kernel: Kernel) -> str:
    """A kernel in words."""
    if isinstance(kernel, Sum):
        return f"{_kernel_words(kernel.left)} + {_kernel_words(kernel.right)}"
    if isinstance(kernel, Columns):
        return f"features {kernel.start + 1} to {kernel.stop}: {_kernel_words(kernel.kernel)}"
    return _words(kernel)


def _name(density: Density) -> str:
    if isinstance(density, HyperbolicSecant):
        return "VGPMIL"
    return "G-VGPMIL" if isinstance(density, GammaMixture) else "psi-VGPMIL"


def _words(thing: Any) -> str:
    values = {f.name: getattr(thing, f.name) for f in fields(thing)} if is_dataclass(thing) else {}
    shown = ", ".join(f"{name} {_number(value)}" for name, value in values.items() if not name.startswith("_"))
    return type(thing).__name__ + (f" ({shown})" if shown else "")


def _number(value: Any) -> str:
    if np.ndim(value) and np.size(value) > 1:
        return f"{np.min(value):.4g} to {np.max(value):.4g}"
    return f"{float(np.ravel(value)[0]):.4g}" if isinstance(value, (int, float)) or np.ndim(value) else str(value)
