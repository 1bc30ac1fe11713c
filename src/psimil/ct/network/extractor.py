"""FeatureExtractor: the scikit-learn shell from scans to bags of D features per slice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from copy import copy
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from psimil.compute.numpy_backend import single_threaded_blas
from psimil.ct.scans.scan import Scan, Slices, check_scans, places, slice_images
from psimil.ct.scans.windows import WINDOWS, Window, check_windows
from psimil.estimators.inputs import read_random_state
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError, NotFitted
from psimil.foundations.extras import needed
from psimil.foundations.phases import tell
from psimil.model.bags import Bags

if TYPE_CHECKING:
    from psimil.ct.network.weights import Weights

Scans = Iterable[Scan | Slices | Array]

AT_A_TIME = 16  # slices that one thread works on
OF_TRAINING = (
    "n_features", "attention_width", "channels", "epochs", "patience", "learning_rate", "weight_decay", "batch_scans",
    "max_slices", "validation", "augment", "device", "checkpoint", "callback",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class FeatureExtractor(TransformerMixin, BaseEstimator):
    """Scans in, bags of features out: windows, then the network that was trained from scan labels. Needs torch.

    One sample is one scan: a :class:`psimil.ct.Scan` or an array (S, rows, columns) of Hounsfield units. Scans are
    taken one at a time, so a sequence that reads them when asked is never in memory as a whole. Windowed slices are
    kept in 8 bits. On a CPU the results do not depend on the number of threads or on the scans beside a scan.

    Parameters
    ----------
    n_features : D.
    size : rows and columns of the slices that the network sees.
    windows : channels of a slice; None is brain, blood and soft tissue.
    attention_width : width of the attention layer.
    channels : width of each block of the network.
    epochs, patience, learning_rate, weight_decay, batch_scans, max_slices, validation, augment, device, checkpoint
        As in :func:`psimil.ct.train_cnn`.
    backbone : makes a module from (N, C, size, size) slices to (N, D) features, in place of the network of the library.
    callback : called with an Epoch after each epoch.
    random_state : int, Generator or None; decides all that is random. A training with a checkpoint is continued only
        under the same whole number.

    Attributes
    ----------
    weights_ : Weights, the network with its windows and size.
    fingerprint_ : str, names the features; two extractors with the same make the same features.
    history_ : tuple of Epoch.
    best_epoch_ : int.
    held_out_ : numbers of the scans that the network did not learn from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scans = [rng.integers(0, 80, (5, 32, 32)).astype(np.int16) for _ in range(8)]
    >>> extractor = FeatureExtractor(n_features=8, size=16, channels=(8, 8), epochs=1)
    >>> bags = extractor.fit_transform(scans, [0, 1] * 4)
    >>> len(bags), bags.X.shape, extractor.fingerprint_[:14]
    (8, (40, 8), 'attcnn sha256:')
    """

    n_features: int = 8
    size: int = 128
    windows: Sequence[Window] | None = None
    attention_width: int = 64
    channels: Sequence[int] = (16, 32, 64, 64)
    epochs: int = 40
    patience: int = 12
    learning_rate: float = 5e-4
    weight_decay: float = 1e-2
    batch_scans: int = 8
    max_slices: int | None = 64
    validation: float | Sequence[int] = 0.2
    augment: Any = True
    backbone: Callable[[], Any] | None = None
    device: str = "cpu"
    checkpoint: str | Path | None = None
    callback: Callable[[Any], object] | None = None
    random_state: Any = 0

    def fit(self, scans: Scans, y: Any = None) -> Self:
        """Train the network from one 0/1 label per scan.

        Parameters
        ----------
        scans : B scans; their windowed slices are kept in memory, S x C x size x size bytes each.
        y : (B,) labels.
        """
        with needed("FeatureExtractor needs torch", "ct"):
            import torch

        from psimil.ct.network.cnn_training import train_cnn
        from psimil.ct.network.weights import Weights

        if y is None:
            raise InputError("fit needs scan labels: fit(scans, y). requires y to be passed, but the target y is None")
        chosen = WINDOWS if self.windows is None else check_windows(self.windows)
        seed = int(read_random_state(self.random_state).integers(2**31))
        with single_threaded_blas():
            images = [_images(values, chosen, self.size) for _, values in _read(scans, chosen, self.size)]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            backbone = None if self.backbone is None else self.backbone()
        settings = {name: getattr(self, name) for name in OF_TRAINING}
        trained = train_cnn(images, y, seed=seed, backbone=backbone, **settings)
        self.history_, self.best_epoch_, self.held_out_ = trained.history, trained.best_epoch, trained.held_out
        return self._take(Weights(trained.model, chosen, self.size))

    def transform(self, scans: Scans) -> Bags:
        """The features of every slice in order, one bag per scan, named by the scans' ids (0, 1, ... for arrays)."""
        by_scan = list(self._features(scans))
        if not by_scan:
            raise InputError("there are no scans.")
        bags = Bags.from_list([features.astype(np.float64) for _, features in by_scan], [name for name, _ in by_scan])
        return bags.in_order(places(scans) if isinstance(scans, Sequence) else None)

    def attention(self, scans: Scans) -> list[Array]:
        """Per scan the attention (S,) of its slices, with sum 1; it ranks slices, it is no probability."""
        return [attention for attention, _ in self._pooled(scans)]

    def predict_proba(self, scans: Scans) -> Array:
        """(B, 2) probabilities of the labels 0 and 1 by the network alone, without the Gaussian process."""
        logits = np.array([logit for _, logit in self._pooled(scans)])
        return np.column_stack([expit(-logits), expit(logits)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write weights, windows and size to one file; a backbone of the caller's own is saved by its weights only."""
        from psimil.ct.network.weights import save_weights

        save_weights(path, self._weights())

    @classmethod
    def load(cls, path: str | os.PathLike[str], backbone: Callable[[], Any] | None = None, device: str = "cpu") -> Self:
        """An extractor that is ready to transform; ``backbone`` as it was given when the network was trained."""
        with needed("FeatureExtractor needs torch", "ct"):
            import torch  # noqa: F401
        from psimil.ct.network.torch_workers import read_device
        from psimil.ct.network.weights import load_weights

        place = read_device(device)
        weights = load_weights(path, backbone)
        weights.model.to(place)
        architecture = weights.model.architecture
        facts = {"n_features": architecture["n_features"], "attention_width": architecture["attention"]}
        if backbone is None:
            facts["channels"] = tuple(architecture["channels"])
        extractor = cls(size=weights.size, windows=weights.windows, backbone=backbone, device=device, **facts)
        return extractor._take(weights)

    def with_model(self, model: Any) -> Self:
        """A copy of this extractor whose network was tuned further; history and held-out scans are kept."""
        from psimil.ct.network.weights import Weights

        return copy(self)._take(Weights(model, self._weights().windows, self._weights().size))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a network."""
        return hasattr(self, "weights_")

    def __sklearn_tags__(self) -> Tags:
        """One sample is a scan, not a row; labels are needed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        tags.no_validation = True
        return tags

    def _take(self, weights: Weights) -> Self:
        self.weights_: Weights = weights
        self.fingerprint_ = weights.fingerprint
        return self

    def _weights(self) -> Weights:
        if not hasattr(self, "weights_"):
            raise NotFitted("this extractor is not fitted. Call fit() or load() first.")
        return self.weights_

    def _features(self, scans: Scans) -> Iterator[tuple[Any, Array]]:
        """Id and (S, D) features of one scan after another; threads share the chunks of slices, of one scan or more."""
        weights = self._weights()
        import torch

        from psimil.ct.network.backbone import slice_tensor
        from psimil.ct.network.torch_workers import torch_workers

        place = next(weights.model.parameters()).device

        def extract(batch: tuple[int, Any, Array]) -> tuple[int, Any, Array]:
            number, name, values = batch
            with torch.inference_mode():
                slices = slice_tensor(_images(values, weights.windows, weights.size), place)
                return number, name, weights.model.features(slices).cpu().numpy()

        with single_threaded_blas(), torch_workers(None if place.type == "cpu" else 1) as ordered:
            batches = ordered(extract, _batches(scans, weights.windows, weights.size))
            for (number, name), of_scan in groupby(batches, key=itemgetter(0, 1)):
                tell("scans through the network", number, len(scans) if isinstance(scans, Sized) else None)
                yield name, np.concatenate([features for _, _, features in of_scan])

    def _pooled(self, scans: Scans) -> Iterator[tuple[Array, float]]:
        """Attention (S,) and log-odds of one scan after another."""
        model = self._weights().model
        import torch

        place = next(model.parameters()).device
        for _, features in self._features(scans):
            with torch.inference_mode():
                output = model.pool(torch.from_numpy(features).to(place))
            yield output.attention.cpu().numpy().astype(np.float64), float(output.logit[0])


def _read(scans: Scans, chosen: Sequence[Window], size: int) -> Iterator[tuple[Any, Array]]:
    """Id and (S, rows, columns) Hounsfield units, or (S, C, size, size) images, of one scan after another."""
    for number, scan in enumerate(check_scans(scans)):
        if isinstance(scan, Slices):
            if scan.windows != tuple(chosen) or scan.size != size:
                raise InputError(f"scan {number} was windowed in another way than this extractor's. Window it anew.")
            yield scan.id, scan.images
            continue
        name, hu = (scan.id, scan.hu) if isinstance(scan, Scan) else (number, np.asarray(scan))
        if hu.ndim != 3 or not hu.size or hu.dtype.kind not in "iuf":
            raise InputError(f"scan {number} has shape {hu.shape}, expected numbers of shape (slices, rows, columns).")
        yield name, hu


def _images(values: Array, chosen: Sequence[Window], size: int) -> NDArray[np.uint8]:
    """(S, C, size, size) images of what :func:`_read` gives."""
    return values if values.ndim == 4 else slice_images(values, chosen, size)


def _batches(scans: Scans, chosen: Sequence[Window], size: int) -> Iterator[tuple[int, Any, Array]]:
    """Number and id of a scan with at most AT_A_TIME of its slices, scan after scan."""
    for number, (name, values) in enumerate(_read(scans, chosen, size)):
        for first in range(0, len(values), AT_A_TIME):
            yield number, name, values[first : first + AT_A_TIME]
