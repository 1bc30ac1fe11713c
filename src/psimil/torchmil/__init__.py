"""Beside torchmil: bags as its datasets, its datasets as bags, and models of psimil that its ``Trainer`` runs."""

from psimil.foundations.extras import needed

with needed("psimil.torchmil needs torchmil", "torchmil"):
    import torchmil.models  # noqa: F401

from psimil.torchmil.dataset import BagDataset as BagDataset
from psimil.torchmil.dataset import bags_of as bags_of
from psimil.torchmil.gp_head import GPHead as GPHead
from psimil.torchmil.heads import FittedHead as FittedHead

__all__ = ["BagDataset", "FittedHead", "GPHead", "bags_of"]
