"""A fitted model of psimil as a model of torchmil. Needs torchmil."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torchmil.models import MILModel

from psimil.torchmil.padded import as_bags, log_odds, there

if TYPE_CHECKING:
    from psimil.estimators.psi_vgpmil import PsiVGPMIL


class FittedHead(MILModel):
    """A fitted model that answers as models of torchmil do; it has nothing to train and no gradient.

    Every number is that of :meth:`psimil.PsiVGPMIL.predict_dist`: the sigmoid of what it returns is the probability.

    Parameters
    ----------
    estimator : fitted, of any kind: chains, context and calibration work as they do in psimil.

    Examples
    --------
    >>> import torch
    >>> from psimil import VGPMIL
    >>> from psimil.datasets import make_bags
    >>> bags, y, _ = make_bags(n_bags=10, seed=0)
    >>> model = VGPMIL(n_inducing=5, random_state=0).fit(bags, y)
    >>> logits = FittedHead(model).predict(torch.from_numpy(bags[0])[None], return_inst_pred=False)
    >>> bool(torch.isclose(torch.sigmoid(logits)[0], torch.tensor(model.predict_proba(bags)[0, 1])))
    True
    """

    def __init__(self, estimator: PsiVGPMIL) -> None:
        super().__init__()
        self.estimator = estimator

    def forward(self, X: Tensor, mask: Tensor | None = None) -> Tensor:
        """Log-odds (B,) of bags X (B, n, D) with a mask (B, n)."""
        return self.predict(X, mask)[0]

    def compute_loss(self, Y: Tensor, X: Tensor, mask: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Log-odds (B,), and the log-loss of labels Y (B,), for a ``Trainer`` that validates or tests."""
        found = self.forward(X, mask)
        return found, {"log_loss": binary_cross_entropy_with_logits(found, Y.reshape(-1).to(found.dtype))}

    def predict(
        self, X: Tensor, mask: Tensor | None = None, return_inst_pred: bool = True
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Log-odds (B,) of the bags and, if asked for, (B, n) of their instances, minus infinity in the padding."""
        where = there(X, mask)
        found = log_odds(self.estimator.predict_dist(as_bags(X[where], where)), where)
        return found if return_inst_pred else found[0]
