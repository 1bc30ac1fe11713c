"""Padded batches of torchmil: (B, n, ...) tensors with a mask (B, n) that is 1 where there is an instance."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from psimil.foundations.errors import InputError
from psimil.model.bags import Bags
from psimil.predictive.prediction import Prediction


def there(X: Tensor, mask: Tensor | None) -> Tensor:
    """(B, n) whether there is an instance; everywhere without a mask.

    Examples
    --------
    >>> there(torch.zeros(1, 2, 3), torch.tensor([[1, 0]], dtype=torch.uint8))
    tensor([[ True, False]])
    """
    if X.ndim < 3:
        raise InputError(f"X has shape {tuple(X.shape)}, expected (bags, instances, features).")
    found = torch.ones(X.shape[:2], dtype=torch.bool, device=X.device) if mask is None else mask.bool()
    if found.shape != X.shape[:2] or not found.any(1).all():
        raise InputError(f"mask must have shape {tuple(X.shape[:2])} and an instance in every bag.")
    return found


def as_bags(features: Tensor, where: Tensor) -> Bags:
    """Bags of features (N, D), of the instances that are there."""
    sizes = where.sum(1).cpu().numpy()
    return Bags(features.detach().cpu().double().numpy(), np.concatenate([[0], np.cumsum(sizes)]))


def log_odds(prediction: Prediction, where: Tensor) -> tuple[Tensor, Tensor]:
    """Log-odds (B,) of bags and (B, n) of instances, in double precision; minus infinity where there is none."""
    bags, known = (
        torch.from_numpy(one).to(where.device) for one in (prediction.log_odds, prediction.instance_log_odds)
    )
    return bags, torch.full(where.shape, -torch.inf, dtype=known.dtype, device=known.device).masked_scatter(
        where, known
    )
