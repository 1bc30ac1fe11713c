"""AttCNN = f_c o f_Att o f_CNN: features of each slice, attention over the slices of a scan, one output per scan.

With h_n the D features that f_CNN gives to slice n of a scan:

    score_n = w . tanh(V h_n + v)
    alpha_n = exp(score_n) / sum over the scan of exp(score)
    logit   = c . (sum over the scan of alpha_n h_n) + d

Importing this module needs torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from psimil.ct.network.backbone import CHANNELS, SliceCNN, slice_tensor
from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least
from psimil.paper.baselines.network import segment_softmax

AT_A_TIME = 16  # slices that go through the network at once when nothing is learned


class Output(NamedTuple):
    """What AttCNN says about B scans with N slices in all.

    Parameters
    ----------
    features : (N, D).
    attention : (N,) alpha, with sum 1 in each scan.
    logit : (B,) log-odds that the scan is positive.
    """

    features: Tensor
    attention: Tensor
    logit: Tensor


class AttCNN(nn.Module):
    """The attention network of Eq. (39), for scans with any numbers of slices, laid end to end without padding.

    Parameters
    ----------
    n_features : D.
    backbone : f_CNN, any module from (N, C, H, W) slices to (N, D) features; None is :class:`SliceCNN`.
    attention_width : width of the attention layer.
    channels, n_windows : of :class:`SliceCNN`, when ``backbone`` is None.

    Examples
    --------
    >>> output = AttCNN(n_features=8)(torch.rand(5, 3, 16, 16), [0, 2, 5])
    >>> output.features.shape, output.attention.shape, output.logit.shape
    (torch.Size([5, 8]), torch.Size([5]), torch.Size([2]))
    >>> output.attention[:2].sum().round(decimals=5)
    tensor(1., grad_fn=<RoundBackward1>)
    """

    def __init__(
        self,
        n_features: int = 8,
        backbone: nn.Module | None = None,
        attention_width: int = 64,
        channels: Sequence[int] = CHANNELS,
        n_windows: int = 3,
    ) -> None:
        at_least(1, whole=True, n_features=n_features, attention_width=attention_width, n_windows=n_windows)
        super().__init__()
        self.n_features = n_features
        self.backbone = SliceCNN(n_features, channels, n_windows) if backbone is None else backbone
        self.architecture: dict[str, Any] = {
            "n_features": n_features,
            "attention": attention_width,
            "channels": [] if backbone is not None else list(channels),
            "windows": n_windows,
            "backbone": "SliceCNN" if backbone is None else "custom",
        }
        width = attention_width
        self.score = nn.Sequential(nn.Linear(n_features, width), nn.Tanh(), nn.Linear(width, 1, bias=False))
        self.classifier = nn.Linear(n_features, 1)

    def features(self, slices: Tensor) -> Tensor:
        """(N, D) features of (N, C, H, W) slices in [0, 1]; no slice knows of another."""
        features: Tensor = self.backbone(slices)
        if features.shape != (len(slices), self.n_features):
            raise InputError(
                f"the backbone gave features of shape {tuple(features.shape)} for {len(slices)} slices, "
                f"expected ({len(slices)}, {self.n_features})."
            )
        return features

    def pool(self, features: Tensor, offsets: Any = None) -> Output:
        """Attention and logits from (N, D) features; scan b is ``features[offsets[b]:offsets[b + 1]]``."""
        sizes = _sizes(offsets, len(features))
        n_scans = len(sizes)
        scan = torch.from_numpy(np.repeat(np.arange(n_scans), sizes)).to(features.device)
        attention = segment_softmax(self.score(features)[:, 0], scan, n_scans)
        pooled = features.new_zeros(n_scans, self.n_features).index_add(0, scan, attention[:, None] * features)
        return Output(features, attention, self.classifier(pooled)[:, 0])

    def forward(self, slices: Tensor, offsets: Any = None) -> Output:
        """Features, attention and logits of scans laid end to end.

        Parameters
        ----------
        slices : (N, C, H, W) in [0, 1].
        offsets : (B + 1,) where each scan starts, and N; None when there is one scan.
        """
        return self.pool(self.features(slices), offsets)


def scan_features(model: AttCNN, images: NDArray[Any]) -> Tensor:
    """(S, D) features of one scan's (S, C, H, W) slices, a few at a time, without gradients.

    Examples
    --------
    >>> scan_features(AttCNN(n_features=8), np.zeros((20, 3, 8, 8))).shape
    torch.Size([20, 8])
    """
    device, starts = next(model.parameters()).device, range(0, len(images), AT_A_TIME)
    with torch.inference_mode():
        return torch.cat([model.features(slice_tensor(images[a : a + AT_A_TIME], device)) for a in starts])


def _sizes(offsets: Any, n_slices: int) -> NDArray[np.int64]:
    """(B,) slices per scan, each at least 1."""
    starts = np.asarray([0, n_slices] if offsets is None else offsets, dtype=np.int64)
    if starts.ndim != 1 or len(starts) < 2 or starts[0] != 0 or starts[-1] != n_slices or (np.diff(starts) < 1).any():
        raise InputError(f"offsets must rise from 0 to the number of slices, {n_slices}, one step for each scan.")
    return np.diff(starts)
