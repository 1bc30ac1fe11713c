"""Models of psimil as models of torchmil, whose batches are padded: (B, n, ...) with a mask (B, n). Needs torchmil."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torchmil.models import MILModel

from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.predictive.prediction import Prediction

if TYPE_CHECKING:
    from psimil.estimators.psi_vgpmil import PsiVGPMIL


def instance_mask(X: Tensor, mask: Tensor | None) -> Tensor:
    """(B, n) whether there is an instance; everywhere without a mask.

    Examples
    --------
    >>> instance_mask(torch.zeros(1, 2, 3), torch.tensor([[1, 0]], dtype=torch.uint8))
    tensor([[ True, False]])
    """
    if X.ndim < 3:
        raise InputError(f"X has shape {tuple(X.shape)}, expected (bags, instances, features).")
    where = torch.ones(X.shape[:2], dtype=torch.bool, device=X.device) if mask is None else mask.bool()
    if where.shape != X.shape[:2] or not where.any(1).all():
        raise InputError(f"mask must have shape {tuple(X.shape[:2])} and an instance in every bag.")
    return where


class Head(MILModel):
    """What heads share: the predictions of psimil in padded tensors."""

    def _features(self, instances: Tensor) -> Tensor:
        """(N, D) features of instances (N, ...)."""
        return instances

    def _prediction(self, bags: Bags) -> Prediction:
        raise NotImplementedError

    def predict(
        self, X: Tensor, mask: Tensor | None = None, return_inst_pred: bool = True
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Log-odds (B,) of the bags and, if asked for, (B, n) of their instances, minus infinity in the padding.

        They are in double precision and without a gradient; the sigmoid makes probabilities of them.
        """
        where = instance_mask(X, mask)
        with torch.no_grad():
            features = self._features(X[where]).cpu().double().numpy()
        offsets = np.concatenate([[0], np.cumsum(where.sum(1).cpu().numpy())])
        prediction = self._prediction(Bags(features, offsets))
        log_odds = torch.from_numpy(prediction.log_odds).to(X.device)
        if not return_inst_pred:
            return log_odds
        instances = torch.from_numpy(prediction.instance_log_odds).to(X.device)
        padding = torch.full(where.shape, -torch.inf, dtype=instances.dtype, device=X.device)
        return log_odds, padding.masked_scatter(where, instances)


class FittedHead(Head):
    """A fitted model that answers as models of torchmil do; it has nothing to train and no gradient.

    Every number is that of :meth:`psimil.PsiVGPMIL.predict_dist`: the sigmoid of what it returns is the probability.

    Parameters
    ----------
    estimator : fitted, of any kind: chains, context and calibration work as they do in psimil.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, seed=0)
    >>> model = VGPMIL(n_inducing=5, random_state=0).fit(bags, y)
    >>> logits = FittedHead(model).predict(torch.from_numpy(bags[0])[None], return_inst_pred=False)
    >>> bool(torch.isclose(torch.sigmoid(logits)[0], torch.tensor(model.predict_proba(bags)[0, 1])))
    True
    """

    def __init__(self, estimator: PsiVGPMIL) -> None:
        super().__init__()
        self.estimator = estimator

    def _prediction(self, bags: Bags) -> Prediction:
        return self.estimator.predict_dist(bags)

    def forward(self, X: Tensor, mask: Tensor | None = None) -> Tensor:
        """Log-odds (B,) of bags X (B, n, D) with a mask (B, n)."""
        return self.predict(X, mask)[0]

    def compute_loss(self, Y: Tensor, X: Tensor, mask: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Log-odds (B,), and the log-loss of labels Y (B,), for a ``Trainer`` that validates or tests."""
        log_odds = self.forward(X, mask)
        return log_odds, {"log_loss": binary_cross_entropy_with_logits(log_odds, Y.reshape(-1).to(log_odds.dtype))}
