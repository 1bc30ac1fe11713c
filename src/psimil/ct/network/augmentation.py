"""Augmentation: the same head, a little turned, moved, scaled, mirrored and lit. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians, sin
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from psimil.ct.network.backbone import slice_tensor


@dataclass(frozen=True)
class Augmentation:
    """How far a scan may be changed; all its slices change alike, as the slices of one head do.

    Parameters
    ----------
    flip : probability of a mirror image, left for right.
    rotation : degrees, at most.
    shift : share of the width, at most.
    scale : share by which the head grows or shrinks, at most.
    contrast : share by which a window's values stretch, at most; each window by its own.
    brightness : what is added to a window's values in [0, 1], at most; each window its own.

    Examples
    --------
    >>> slices = torch.rand(4, 3, 16, 16)
    >>> Augmentation().apply(slices, np.random.default_rng(0)).shape
    torch.Size([4, 3, 16, 16])
    """

    flip: float = 0.5
    rotation: float = 12.0
    shift: float = 0.06
    scale: float = 0.1
    contrast: float = 0.05
    brightness: float = 0.02

    def apply(self, slices: Tensor, rng: np.random.Generator) -> Tensor:
        """(S, C, H, W) slices in [0, 1] of one scan, changed; what comes in from outside the image is 0."""
        theta = torch.tensor(self._affine(rng), dtype=torch.float32, device=slices.device)
        grid = affine_grid(theta[None], [1, *slices.shape[1:]], align_corners=False)
        moved = grid_sample(slices, grid.expand(len(slices), -1, -1, -1), align_corners=False)
        gain = 1 + self.contrast * rng.uniform(-1, 1, slices.shape[1])
        lift = self.brightness * rng.uniform(-1, 1, slices.shape[1])
        lit = moved * _per_window(gain, slices) + _per_window(lift, slices)
        return lit.clamp_(0, 1)

    def _affine(self, rng: np.random.Generator) -> list[list[float]]:
        """(2, 3) map from the coordinates of the new image to those of the old, in [-1, 1]."""
        mirror = -1.0 if rng.random() < self.flip else 1.0
        angle = radians(self.rotation * rng.uniform(-1, 1))
        zoom = 1 + self.scale * rng.uniform(-1, 1)
        right, down = 2 * self.shift * rng.uniform(-1, 1, 2)
        return [
            [mirror * zoom * cos(angle), -mirror * zoom * sin(angle), right],
            [zoom * sin(angle), zoom * cos(angle), down],
        ]


def _per_window(values: NDArray[np.float64], slices: Tensor) -> Tensor:
    return torch.from_numpy(values).to(slices.device, slices.dtype)[None, :, None, None]


def pick_slices(images: NDArray[Any], most: int | None, rng: np.random.Generator) -> NDArray[Any]:
    """All slices of a scan, or ``most`` of them in order: one from each of ``most`` equal runs.

    Parameters
    ----------
    images : (S, ...) slices.
    most : None for all.
    rng : draws which slice of each run.

    Returns
    -------
    picked : (min(S, most), ...) slices.

    Examples
    --------
    >>> pick_slices(np.arange(400), 4, np.random.default_rng(0)) // 100
    array([0, 1, 2, 3])
    """
    if most is None or len(images) <= most:
        return images
    place = (np.arange(most) + rng.random(most)) * len(images) / most
    return images[np.minimum(place.astype(np.int64), len(images) - 1)]


def drawn_slices(
    images: NDArray[Any],
    most: int | None,
    augmentation: Augmentation | None,
    rng: np.random.Generator,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Slices of a scan as one epoch of training sees them: ``most`` of them, changed at random.

    Examples
    --------
    >>> drawn_slices(np.zeros((9, 3, 8, 8)), 4, Augmentation(), np.random.default_rng(0)).shape
    torch.Size([4, 3, 8, 8])
    """
    slices = slice_tensor(pick_slices(images, most, rng), device)
    return slices if augmentation is None else augmentation.apply(slices, rng)
