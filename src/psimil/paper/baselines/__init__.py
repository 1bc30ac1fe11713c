"""Baselines to compare with: bag statistics under a support vector machine or a forest, and gated attention.

All are scikit-learn classifiers of bags, as :class:`psimil.PsiVGPMIL` is. :class:`AttentionMIL` needs torch.
"""

from psimil.paper.baselines.attention import AttentionMIL
from psimil.paper.baselines.forest import BagForest
from psimil.paper.baselines.statistics import bag_statistics
from psimil.paper.baselines.svm import BagSVM

__all__ = ["AttentionMIL", "BagForest", "BagSVM", "bag_statistics"]
