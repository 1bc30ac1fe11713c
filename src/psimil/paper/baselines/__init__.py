"""Baselines to compare with: bag statistics under a support vector machine, a forest or a regression, and attention.

All are scikit-learn classifiers of bags, as :class:`psimil.PsiVGPMIL` is. :class:`AttentionMIL` needs torch; with a
:class:`Smoothing` it is smooth attention.
"""

from psimil.paper.baselines.attention import AttentionMIL
from psimil.paper.baselines.network import Smoothing
from psimil.paper.baselines.statistics import BagForest, BagSVM, MeanPooling, bag_statistics

__all__ = ["AttentionMIL", "BagForest", "BagSVM", "MeanPooling", "Smoothing", "bag_statistics"]
