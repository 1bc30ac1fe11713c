"""Kernels: ``gram``, ``diagonal`` and the product of an adjoint with their derivatives."""

from psimil.model.kernels.base import Constant, Kernel, Linear, Sum
from psimil.model.kernels.columns import Columns
from psimil.model.kernels.stationary import RBF, Matern32, Matern52, Stationary

__all__ = ["RBF", "Columns", "Constant", "Kernel", "Linear", "Matern32", "Matern52", "Stationary", "Sum"]
