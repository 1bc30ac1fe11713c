"""Named settings: the paper's text and the authors' published code.

docs/mathematics/derivations.md lists them setting by setting, docs/results/reproduction-record.md has their scores.
"""

from __future__ import annotations

from typing import Any

from psimil.foundations.errors import InputError
from psimil.model.densities import GammaMixture
from psimil.model.kernels import RBF
from psimil.paper.published import ClippedGammaMixture

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "posterior": "augmented",
        "label_posterior": "mean_field",
        "H": 100.0,
        "mean": "zero",
        "start": 1.0,
        "accelerate": False,
        "residual": "full",
        "hyperparameters": "paper",
        "log_z": "rff",
        "aggregate": "noisy_or",
        "calibrate": False,
        "threshold": 0.5,
        "false_positive_rate": None,
        "expectation": "sample",
        "kernel": RBF(variance=0.5),
    },
    "published": {
        "posterior": "augmented",
        "label_posterior": "max",
        "H": 1e12,
        "mean": "zero",
        "start": 0.1,
        "accelerate": False,
        "residual": "unit",
        "hyperparameters": "published",
        "log_z": "none",
        "patience": 20,  # 10 after a warm-up of 10 passes with a fixed kernel
        "aggregate": "max",
        "calibrate": False,
        "threshold": 0.5,
        "false_positive_rate": None,
        "expectation": "sample",
        "kernel": RBF(variance=0.5),
    },
}


def preset_parameters(name: str, overrides: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters of a preset with the caller's own on top.

    Examples
    --------
    >>> preset_parameters("paper", {})["H"]
    100.0
    """
    if name not in PRESETS:
        raise InputError(f'preset must be "paper" or "published", got {name!r}.')
    parameters = {**PRESETS[name], **overrides}
    density = parameters.get("density")
    if name == "published" and type(density) is GammaMixture:
        parameters["density"] = ClippedGammaMixture(density.alpha, density.beta)
    return parameters
