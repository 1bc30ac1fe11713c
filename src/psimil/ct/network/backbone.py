"""f_CNN: a small convolutional network from windowed slices to D features. Importing this module needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import conv2d

from psimil.foundations.errors import InputError
from psimil.foundations.numbers import at_least

CHANNELS = (16, 32, 64, 64)
SPREAD = 1e-2  # least standard deviation that is scaled up to 1


class Standardise(nn.Module):
    """x -> (x - mean) / deviation per channel, with constants that are measured once, before training.

    Parameters
    ----------
    channels : C; x is (N, C) or (N, C, H, W).

    Examples
    --------
    >>> layer = Standardise(2)
    >>> layer.measure(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
    >>> layer(torch.tensor([[1.0, 30.0]]))
    tensor([[-1.,  1.]])
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(channels))
        self.register_buffer("shift", torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """The same shape, standardised."""
        view = (1, -1) + (1,) * (x.ndim - 2)
        return torch.addcmul(self.shift.view(view), x, self.scale.view(view))

    def measure(self, x: Tensor) -> None:
        """Take mean and deviation from x."""
        places = tuple(axis for axis in range(x.ndim) if axis != 1)
        mean, deviation = x.mean(places), x.std(places, correction=0).clamp(min=SPREAD)
        self.scale.copy_(1 / deviation)
        self.shift.copy_(-mean / deviation)


class Whiten(nn.Module):
    """Windows mixed so that, over the pixels of training slices, they are uncorrelated with deviation 1.

    Windows of one slice are nearly copies of each other: air is black and bone is white in all. What tells blood from
    brain and from bone is their small differences, which this layer brings up to the size of the rest.

    Parameters
    ----------
    n_windows : C.

    Examples
    --------
    >>> layer = Whiten(2)
    >>> layer.measure(torch.tensor([[0.0, 0.0], [1.0, 0.9], [0.5, 0.6]]).view(3, 2, 1, 1))
    >>> layer(torch.tensor([[0.5, 0.5]]).view(1, 2, 1, 1)).abs().max() < 1e-4
    tensor(True)
    """

    matrix: Tensor
    shift: Tensor

    def __init__(self, n_windows: int) -> None:
        super().__init__()
        self.register_buffer("matrix", torch.eye(n_windows))
        self.register_buffer("shift", torch.zeros(n_windows))

    def forward(self, slices: Tensor) -> Tensor:
        """The same shape, (N, C, H, W)."""
        return conv2d(slices, self.matrix[:, :, None, None], self.shift)

    def measure(self, slices: Tensor) -> None:
        """Take mean and covariance of the pixels from (N, C, H, W) slices."""
        pixels = slices.transpose(0, 1).flatten(1).double().cpu()  # (C, pixels)
        covariance = torch.cov(pixels, correction=0).reshape(len(pixels), len(pixels))
        values, vectors = torch.linalg.eigh(covariance + SPREAD**2 * torch.eye(len(pixels)))
        matrix = vectors @ torch.diag(values.rsqrt()) @ vectors.T  # the symmetric root: each window stays itself
        self.matrix.copy_(matrix)
        self.shift.copy_(-matrix @ pixels.mean(1))


class SliceCNN(nn.Module):
    """Blocks of 3x3 convolution, 2x2 maximum and ReLU; then mean and maximum over the slice; then D features.

    The windows are mixed first, and activations standardised, by constants measured on training slices, not by the
    slice itself: Hounsfield units are absolute, and the features of a slice do not depend on the slices beside it.
    Each block halves the slice, rounding up, so slices of any size will do. Weights and activations keep channels
    last, which takes half the time on a CPU.

    Parameters
    ----------
    n_features : D.
    channels : width of each block.
    n_windows : channels of the input.

    Examples
    --------
    >>> SliceCNN(8)(torch.zeros(5, 3, 32, 32)).shape
    torch.Size([5, 8])
    """

    def __init__(self, n_features: int = 8, channels: Sequence[int] = CHANNELS, n_windows: int = 3) -> None:
        at_least(1, whole=True, n_features=n_features, n_windows=n_windows)
        if not isinstance(channels, Sequence) or not channels:
            raise InputError(
                f"channels must be the width of each block, at least one, got {channels!r}. Write e.g. (16,)."
            )
        for width in channels:
            at_least(1, whole=True, channels=width)
        super().__init__()
        self.blocks = nn.Sequential(
            Whiten(n_windows), *(layer for a, b in pairwise((n_windows, *channels)) for layer in _block(a, b))
        )
        self.descriptors = Standardise(2 * channels[-1])
        self.head = nn.Linear(2 * channels[-1], n_features)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, slices: Tensor) -> Tensor:
        """(N, D) features of (N, windows, H, W) slices."""
        maps = self.blocks(slices.contiguous(memory_format=torch.channels_last))
        features: Tensor = self.head(self.descriptors(_described(maps)))
        return features

    @torch.no_grad()
    def measure(self, slices: Tensor) -> None:
        """Set the constants so that (N, windows, H, W) slices have standardised activations at each layer."""
        maps = slices.contiguous(memory_format=torch.channels_last)
        for layer in self.blocks:
            if isinstance(layer, (Whiten, Standardise)):
                layer.measure(maps)
            maps = layer(maps)
        self.descriptors.measure(_described(maps))


def _described(maps: Tensor) -> Tensor:
    """(N, 2C) mean and maximum over each (N, C, H, W) map."""
    return torch.cat([maps.mean((2, 3)), maps.amax((2, 3))], dim=1)


def _block(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    """The maximum comes before the rest, which then has a quarter of the work."""
    return (
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.MaxPool2d(2, ceil_mode=True),
        Standardise(outputs),
        nn.ReLU(inplace=True),
    )


def slice_tensor(images: NDArray[Any], device: torch.device | str = "cpu") -> Tensor:
    """Windowed slices as the network takes them.

    Parameters
    ----------
    images : (S, C, H, W) in [0, 1] as float, or in 0..255 as uint8, which takes a quarter of the memory.
    device : where the tensor goes.

    Returns
    -------
    slices : (S, C, H, W) float32 in [0, 1].

    Examples
    --------
    >>> slice_tensor(np.full((1, 3, 2, 2), 255, dtype=np.uint8)).mean()
    tensor(1.)
    """
    whole = images.dtype == np.uint8
    slices = torch.from_numpy(np.ascontiguousarray(images)).to(device=device, dtype=torch.float32)
    return slices / 255 if whole else slices
