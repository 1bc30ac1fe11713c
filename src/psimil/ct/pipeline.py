"""From head CT scans to slice probabilities: windows, attention CNN, features, Gaussian process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from psimil.ct.network.extractor import FeatureExtractor
from psimil.ct.scans.purpose import UNNAMED, Purpose
from psimil.ct.scans.scan import Scan, Slices, check_scans
from psimil.ct.scans.series import read_series
from psimil.ct.scans.windows import WINDOWS, Window, check_windows
from psimil.estimators.inputs import read_random_state
from psimil.estimators.psi_vgpmil import VGPMIL, PsiVGPMIL
from psimil.files.paths import as_path
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError, ModelFileError, NotFitted
from psimil.predictive.prediction import Prediction

Item = Scan | Slices | str | Path

CNN_FILE, GP_FILE = "cnn.safetensors", "model.safetensors"
OF_EXTRACTOR = (
    "n_features", "size", "windows", "epochs", "patience", "validation", "device", "checkpoint", "callback",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class CTPipeline(ClassifierMixin, BaseEstimator):
    """Attention CNN trained from scan labels, whose attention and classifier a Gaussian process replaces.

    Parameters
    ----------
    n_features : D, features per slice.
    size : pixels along a side of a windowed slice.
    windows : three of them; None is brain, blood and soft tissue.
    gp : the estimator that learns from the features, which is cloned; None is VGPMIL(labels="chain"), in which slices
        tend to be what their neighbours are.
    epochs, patience, validation, device, checkpoint, callback : of the CNN, see :class:`FeatureExtractor`.
    joint_epochs : epochs of joint training after the CNN's own, 0 for none (docs/how-to/ct.md).
    random_state : seed of everything, of ``gp`` too where its own random_state is None.
    purpose : what label 1 means, as reports and pages say it; None leaves it unnamed.

    Attributes
    ----------
    extractor_ : FeatureExtractor, fitted.
    gp_ : PsiVGPMIL, fitted on the features of the training scans; it carries the extractor's fingerprint.
    joint_history_ : epochs of joint training.
    purpose_ : Purpose, with the body parts of the training scans.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scans = [Scan(str(b), rng.integers(0, 80, (5, 32, 32)).astype(np.int16), np.arange(5.0), (1.0, 1.0))
    ...          for b in range(12)]
    >>> pipeline = CTPipeline(size=16, epochs=1, gp=VGPMIL(n_inducing=10)).fit(scans, [0, 1] * 6)
    >>> pipeline.predict_dist(scans[:2]).instance_prob.shape
    (10,)
    """

    n_features: int = 8
    size: int = 128
    windows: Sequence[Window] | None = None
    gp: PsiVGPMIL | None = None
    epochs: int = 40
    patience: int = 12
    validation: float = 0.2
    joint_epochs: int = 0
    device: str = "cpu"
    checkpoint: str | Path | None = None
    callback: Callable[[Any], object] | None = None
    random_state: Any = 0
    purpose: Purpose | None = None

    def fit(self, scans: Iterable[Item], y: Any, y_instances: Any = None) -> Self:
        """Train the CNN, then the Gaussian process on its features.

        Parameters
        ----------
        scans : B scans, windowed slices, or paths of folders with one series each.
        y : (B,) labels, 0 or 1.
        y_instances : (N,) labels of slices that are known, -1 for unknown; the Gaussian process learns from them.
        """
        if self.gp is not None and not isinstance(self.gp, PsiVGPMIL):
            raise InputError(
                f"gp must be a PsiVGPMIL estimator or None, got {type(self.gp).__name__}. Write gp=VGPMIL()."
            )
        if self.purpose is not None and not isinstance(self.purpose, Purpose):
            raise InputError(
                f'purpose must be a Purpose or None, got {type(self.purpose).__name__}. Write Purpose.read("Free air").'
            )
        slices = self._slices(scans)
        T = np.asarray(y)
        seed = int(read_random_state(self.random_state).integers(2**31))
        settings = {name: getattr(self, name) for name in OF_EXTRACTOR}
        extractor = FeatureExtractor(**settings, random_state=seed).fit(slices, T)
        self.joint_history_: tuple[Any, ...] = ()
        if self.joint_epochs:
            extractor = self._tuned(extractor, slices, T, seed)
        self.extractor_, self.gp_ = extractor, self._fitted(extractor, slices, T, seed, y_instances)
        self.classes_ = np.array([0, 1])
        self.purpose_ = (self.purpose or UNNAMED).seen_on(scan.region for scan in slices)
        return self

    def _fitted(
        self, extractor: FeatureExtractor, slices: list[Slices], T: Array, seed: int, known: Any = None, **changes: Any
    ) -> PsiVGPMIL:
        gp = VGPMIL(labels="chain") if self.gp is None else clone(self.gp)
        own = gp.random_state
        gp.set_params(feature_fingerprint=extractor.fingerprint_, random_state=seed if own is None else own, **changes)
        return gp.fit(extractor.transform(slices), T, y_instances=known)

    def _tuned(self, extractor: FeatureExtractor, slices: list[Slices], T: Array, seed: int) -> FeatureExtractor:
        """The extractor after joint training through the bound of a first Gaussian process, which has no links."""
        from psimil.ct.network.joint_training import train_jointly

        gp = self._fitted(extractor, slices, T, seed, labels="independent")
        trained = train_jointly(
            extractor.weights_.model,
            gp.model_,
            [scan.images for scan in slices],
            T,
            hold=extractor.held_out_,
            epochs=self.joint_epochs,
            seed=seed,
            callback=self.callback,
        )
        self.joint_history_ = trained.history
        return extractor.with_model(trained.model)

    def transform(self, scans: Iterable[Item]) -> Any:
        """Bags of features, one per scan."""
        return self._extractor().transform(self._slices(scans))

    def predict_dist(self, scans: Iterable[Item], *, level: float = 0.95) -> Prediction:
        """Probabilities of scans and slices with their uncertainty.

        Parameters
        ----------
        level : mass of the credible intervals.
        """
        bags = self.transform(scans)
        return self.gp_.predict_dist(bags, level=level)

    def heat_maps(self, scans: Iterable[Item], wanted: Array | None = None) -> list[Array]:
        """Where in each slice its log-odds come from, see :mod:`psimil.ct.network.heat_maps`.

        Parameters
        ----------
        wanted : (N,) the slices that get a map, those of the others are 0; None for all.

        Returns
        -------
        maps : for each scan (S, size, size) latent log-odds per pixel, of the slice alone, before its neighbours count.
        """
        from psimil.ct.network.heat_maps import heat_maps

        network, slices = self._extractor().weights_.model, self._slices(scans)
        count = sum(map(len, slices))
        chosen = np.ones(count, bool) if wanted is None else np.asarray(wanted, dtype=bool)
        if chosen.shape != (count,):
            raise InputError(f"wanted has shape {chosen.shape}, expected one truth value for each of {count} slices.")
        return heat_maps(network, self.gp_.model_, [scan.images for scan in slices], chosen)

    def predict_proba(self, scans: Iterable[Item]) -> Array:
        """(B, 2) probabilities of the labels 0 and 1."""
        prob = self.predict_dist(scans).prob
        return np.column_stack([1.0 - prob, prob])

    def predict(self, scans: Iterable[Item]) -> Array:
        """(B,) labels at the model's threshold."""
        return self.predict_dist(scans).label

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the CNN and the Gaussian process to a folder, which is made if need be."""
        from psimil.ct.network.weights import save_weights

        extractor = self._extractor()
        folder = as_path(directory, "directory")
        folder.mkdir(parents=True, exist_ok=True)
        save_weights(folder / CNN_FILE, replace(extractor.weights_, purpose=self.purpose_))
        self.gp_.save(folder / GP_FILE)

    @classmethod
    def load(cls, directory: str | os.PathLike[str], device: str = "cpu") -> Self:
        """A pipeline that is ready to predict.

        Raises
        ------
        ModelFileError
            When the two files do not belong together.
        """
        folder = as_path(directory, "directory")
        extractor = FeatureExtractor.load(folder / CNN_FILE, device=device)
        gp = PsiVGPMIL.load(folder / GP_FILE)
        _check_fingerprint(gp, extractor)
        pipeline = cls(extractor.n_features, extractor.size, extractor.windows, gp, device=device)
        pipeline.extractor_, pipeline.gp_, pipeline.classes_ = extractor, gp, np.array([0, 1])
        pipeline.purpose = pipeline.purpose_ = extractor.weights_.purpose
        return pipeline

    def __sklearn_is_fitted__(self) -> bool:
        """Whether fit or load has been called."""
        return hasattr(self, "gp_")

    def _extractor(self) -> FeatureExtractor:
        if not hasattr(self, "gp_"):
            raise NotFitted("this pipeline is not fitted. Call fit() or load() first.")
        _check_fingerprint(self.gp_, self.extractor_)
        return self.extractor_

    def _slices(self, scans: Iterable[Item]) -> list[Slices]:
        chosen = WINDOWS if self.windows is None else check_windows(self.windows)
        slices = []
        for item in check_scans(scans, "scans or folders"):
            scan = read_series(item) if isinstance(item, (str, Path)) else item
            if not isinstance(scan, (Scan, Slices)):
                raise InputError(f"scans must be Scan, Slices or paths, got {type(item).__name__}.")
            slices.append(scan if isinstance(scan, Slices) else Slices.of(scan, chosen, self.size))
        if not slices:
            raise InputError("there are no scans.")
        return slices


def _check_fingerprint(gp: PsiVGPMIL, extractor: FeatureExtractor) -> None:
    """Refuse a Gaussian process that was trained on features of another extractor."""
    if gp.feature_fingerprint != extractor.fingerprint_:
        raise ModelFileError(
            f"the Gaussian process was trained on features of another CNN ({gp.feature_fingerprint}, "
            f"this is {extractor.fingerprint_}). Use the two files of one training."
        )
