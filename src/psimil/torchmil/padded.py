"""Padded batches of torchmil: (B, n, ...) tensors with a mask (B, n) that is 1 where there is an instance."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from psimil.foundations.errors import InputError
from psimil.inference.prediction import Prediction
from psimil.model.bags import Bags


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


def spread(values: Tensor, where: Tensor) -> Tensor:
    """(B, n) values of the instances that are there, bag after bag; minus infinity elsewhere, probability 0.

    Examples
    --------
    >>> spread(torch.tensor([1.0, 2.0]), torch.tensor([[True, False], [True, False]]))
    tensor([[1., -inf],
            [2., -inf]])
    """
    return torch.full(where.shape, -torch.inf, dtype=values.dtype, device=values.device).masked_scatter(where, values)


def as_bags(features: Tensor, where: Tensor) -> Bags:
    """Bags of features (N, D), of the instances that are there."""
    sizes = where.sum(1).cpu().numpy()
    return Bags(features.detach().cpu().double().numpy(), np.concatenate([[0], np.cumsum(sizes)]))


def log_odds(prediction: Prediction, where: Tensor) -> tuple[Tensor, Tensor]:
    """Log-odds (B,) of bags and (B, n) of instances, in double precision."""
    bags, instances = torch.from_numpy(prediction.log_odds), torch.from_numpy(prediction.instance_log_odds)
    return bags.to(where.device), spread(instances.to(where.device), where)
