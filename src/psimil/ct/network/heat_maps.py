"""Heat maps: where in a slice its log-odds come from, by the gradients of the network. Needs torch.

With m(x) the latent mean of a slice x, and x' a blurred copy of it, the map is the integrated gradient

    heat = sum over windows of (x - x') * integral over t in [0, 1] of grad m(x' + t (x - x')),

so its pixels add up to m(x) - m(x'), what the details that blurring takes away do to the latent log-odds. The features
of the scan that a model sees beside those of the slice, its context, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.ct.network.attcnn import AttCNN, scan_features
from psimil.ct.network.backbone import slice_tensor
from psimil.ct.network.torch_workers import torch_workers
from psimil.foundations.arrays import Array
from psimil.model.bags import Bags
from psimil.predictive.torch_gp import TorchGP
from psimil.predictive.trained import TrainedModel

AT_A_TIME = 16  # slices that one thread works on
STEPS = 64  # of the midpoint rule
BLUR = 1 / 10  # standard deviation of x', by side of the slice


def heat_maps(network: AttCNN, gp: TrainedModel, scans: Sequence[Array], wanted: Array) -> list[Array]:
    """The maps of the slices of some scans.

    Parameters
    ----------
    network, gp : of one pipeline.
    scans : for each its (S, C, size, size) windowed slices, in 0..255.
    wanted : (N,) the slices that get a map; those of the others are 0.

    Returns
    -------
    maps : for each scan (S, size, size), latent log-odds per pixel.

    Raises
    ------
    InputError
        When the kernel or the prior is one that torch does not know.

    Examples
    --------
    >>> from psimil import VGPMIL
    >>> rng = np.random.default_rng(0)
    >>> scans = rng.random((10, 5, 3, 16, 16))
    >>> network = AttCNN(n_features=4)
    >>> bags = [scan_features(network, scan).numpy() for scan in scans]
    >>> gp = VGPMIL(n_inducing=10).fit(bags, [0, 1] * 5).model_
    >>> [maps.shape for maps in heat_maps(network, gp, scans[:2], np.ones(10, bool))]
    [(5, 16, 16), (5, 16, 16)]
    """
    latent, device = TorchGP.of(gp), next(network.parameters()).device
    maps = [np.zeros((len(images), *images.shape[2:])) for images in scans]
    starts = np.cumsum([0, *map(len, scans)])

    def batches() -> Iterator[tuple[int, Array, Array, Array]]:
        for number, images in enumerate(scans):
            chosen = np.flatnonzero(wanted[starts[number] : starts[number + 1]])
            if not len(chosen):
                continue
            features = scan_features(network, images).double().cpu().numpy()
            context = np.asarray(gp.seen(Bags(features, [0, len(features)])).X)[:, features.shape[1] :]
            for first in range(0, len(chosen), AT_A_TIME):
                rows = chosen[first : first + AT_A_TIME]
                yield number, rows, images[rows], context[rows]

    def work(batch: tuple[int, Array, Array, Array]) -> tuple[int, Array, Array]:
        number, rows, images, context = batch

        def mean(slices: Tensor) -> Tensor:
            own = network.features(slices).cpu().double()
            return latent.moments(torch.cat([own, torch.from_numpy(context)], dim=1))[0]

        return number, rows, integrated_gradients(mean, slice_tensor(images, device))

    with single_threaded_blas(), torch_workers(None if device.type == "cpu" else 1) as ordered:
        for number, rows, found in ordered(work, batches()):
            maps[number][rows] = found
    return maps


def integrated_gradients(mean: Callable[[Tensor], Tensor], slices: Tensor) -> Array:
    """The maps (n, h, w) of (n, C, h, w) slices under a function m that gives each its number (n,).

    Examples
    --------
    >>> brightness = lambda slices: slices.sum((1, 2, 3))
    >>> slices = torch.zeros(1, 1, 20, 20)
    >>> slices[0, 0, 10, 10] = 1.0  # blurred, nearly nothing is left of it where it was
    >>> integrated_gradients(brightness, slices)[0, 10, 10].round(2)
    np.float64(0.96)
    """
    blurred = torch.from_numpy(blurred_slices(slices.cpu().numpy())).to(slices)
    details, total = slices - blurred, torch.zeros_like(slices)
    for step in range(STEPS):
        point = (blurred + (step + 0.5) / STEPS * details).requires_grad_(True)
        total += torch.autograd.grad(mean(point).sum(), point)[0]
    heat: Array = (details * total / STEPS).sum(1).double().cpu().numpy()
    return heat


def blurred_slices(images: Array) -> Array:
    """x' of (n, C, h, w) slices.

    Examples
    --------
    >>> blurred_slices(np.ones((1, 3, 8, 8), np.float32)).std() < 1e-6
    np.True_
    """
    side = images.shape[-1]
    return np.asarray(gaussian_filter(images, (0, 0, side * BLUR, side * BLUR)))
