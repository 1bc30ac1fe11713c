"""psimil learns from bags: one label per bag in, probabilities with uncertainty for bags and instances out.

Start with :class:`VGPMIL` or :class:`GVGPMIL` and :class:`Bags`; ``datasets.load_musk1`` has something to try them on.
Names are loaded when first used, so that ``import psimil`` and ``psimil --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from psimil.version import VERSION

if TYPE_CHECKING:
    from psimil import datasets
    from psimil.estimators.instance_wise import instancewise
    from psimil.estimators.multilabel import MultiLabelMIL
    from psimil.estimators.psi_vgpmil import GVGPMIL, VGPMIL, PsiVGPMIL
    from psimil.foundations.errors import DataWarning, InputError, PsimilError
    from psimil.model.bags import Bags
    from psimil.model.custom_density import density_from_log
    from psimil.model.densities import Density, GammaMixture, HyperbolicSecant, SmoothLaplace, StudentT
    from psimil.model.kernels import RBF, Constant, Kernel, Linear, Matern32, Matern52
    from psimil.predictive.prediction import Prediction
    from psimil.store.tables import read_bags

__version__ = VERSION

__all__ = [
    "GVGPMIL",
    "RBF",
    "VGPMIL",
    "Bags",
    "Constant",
    "DataWarning",
    "Density",
    "GammaMixture",
    "HyperbolicSecant",
    "InputError",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "MultiLabelMIL",
    "Prediction",
    "PsiVGPMIL",
    "PsimilError",
    "SmoothLaplace",
    "StudentT",
    "datasets",
    "density_from_log",
    "instancewise",
    "read_bags",
]

_HOMES = {
    "psimil.estimators.psi_vgpmil": ("GVGPMIL", "VGPMIL", "PsiVGPMIL"),
    "psimil.foundations.errors": ("DataWarning", "InputError", "PsimilError"),
    "psimil.predictive.prediction": ("Prediction",),
    "psimil.estimators.instance_wise": ("instancewise",),
    "psimil.model.bags": ("Bags",),
    "psimil.estimators.multilabel": ("MultiLabelMIL",),
    "psimil.model.custom_density": ("density_from_log",),
    "psimil.model.densities": ("Density", "GammaMixture", "HyperbolicSecant", "SmoothLaplace", "StudentT"),
    "psimil.model.kernels": ("RBF", "Constant", "Kernel", "Linear", "Matern32", "Matern52"),
    "psimil.store.tables": ("read_bags",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others

    def __getattr__(name: str) -> Any:
        """Load a public name on first use (PEP 562)."""
        if name == "datasets":
            return import_module("psimil.datasets")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'psimil' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted({*globals(), *__all__})
