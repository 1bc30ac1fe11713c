"""psimil learns from bags: one label per bag in, probabilities with uncertainty for bags and instances out.

Start with :class:`VGPMIL` or :class:`GVGPMIL` and :class:`Bags`; ``datasets.load_musk1`` has something to try them on.
"""

from psimil import datasets
from psimil.estimator import GVGPMIL, VGPMIL, PsiVGPMIL
from psimil.model.bags import Bags
from psimil.model.custom_density import density_from_log
from psimil.model.densities import GammaMixture, HyperbolicSecant, SmoothLaplace, StudentT
from psimil.model.kernels import RBF, Constant, Linear, Matern32, Matern52
from psimil.version import VERSION

__version__ = VERSION

__all__ = [
    "GVGPMIL",
    "RBF",
    "VGPMIL",
    "Bags",
    "Constant",
    "GammaMixture",
    "HyperbolicSecant",
    "Linear",
    "Matern32",
    "Matern52",
    "PsiVGPMIL",
    "SmoothLaplace",
    "StudentT",
    "datasets",
    "density_from_log",
]
