"""Baselines to compare with: bag statistics under a support vector machine or a forest, and gated attention.

All are scikit-learn classifiers of bags, as :class:`psimil.PsiVGPMIL` is. :class:`AttentionMIL` needs torch.
"""

from psimil.baselines.attention import AttentionMIL
from psimil.baselines.forest import BagForest
from psimil.baselines.statistics import bag_statistics
from psimil.baselines.svm import BagSVM

__all__ = ["AttentionMIL", "BagForest", "BagSVM", "bag_statistics"]
