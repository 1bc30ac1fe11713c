"""Fitted models in files: one of its own, or in a folder as model hubs lay it out."""

from __future__ import annotations

import os
import warnings
from typing import Self

from psimil.estimators.fitted import FittedAttributes
from psimil.estimators.online import changed_since
from psimil.estimators.parameters import check_parameters, resolved
from psimil.files.model_file import ModelFile, save_model
from psimil.files.paths import as_path
from psimil.foundations.errors import DataWarning, MissingFile
from psimil.version import VERSION

WEIGHTS = "model.safetensors"
_NOT_STORED = ("device", "inducing_points", "random_state", "verbose", "warm_start", "feature_fingerprint")


class Stored(FittedAttributes):
    """What writes a fitted estimator to a file, and reads it from a folder; ``load`` is the estimator's own."""

    feature_fingerprint: str | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a safetensors file, atomically; it holds no training rows.

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from psimil import VGPMIL, PsiVGPMIL
        >>> from psimil.datasets import make_bags
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     clf.save(Path(folder) / "model.safetensors")
        ...     again = PsiVGPMIL.load(Path(folder) / "model.safetensors")
        >>> bool((again.predict_proba(bags) == clf.predict_proba(bags)).all())
        True
        """
        self._check_fitted()
        check_parameters({"feature_fingerprint": self.feature_fingerprint})
        parameters = {k: v for k, v in resolved(self).items() if k not in _NOT_STORED}  # of a PsiVGPMIL, as it loads
        changed = {name: value for name, value in changed_since(self).items() if name in parameters}
        if changed:
            warnings.warn(
                f"{', '.join(changed)} changed since the fit; the file says what the model was fitted with.",
                DataWarning,
                stacklevel=2,
            )
        known = (self.feature_fingerprint, self.training_counts_, VERSION, self._feature_names, self._classes)
        save_model(path, ModelFile(self.model_, parameters | changed, *known))

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> Self:
        """The model in a folder of :func:`psimil.export.save_pretrained`, or of ``psimil fit``; needs no network.

        Parameters
        ----------
        folder : with a ``model.safetensors``, such as one that a hub's own client has downloaded.

        Examples
        --------
        >>> import tempfile
        >>> from psimil import VGPMIL
        >>> from psimil.datasets import make_bags
        >>> from psimil.export import save_pretrained
        >>> bags, y, _ = make_bags(n_bags=8, seed=1)
        >>> clf = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_pretrained(clf, folder)
        ...     VGPMIL.from_pretrained(folder).training_counts_["bags"]
        8
        """
        path = as_path(folder, "folder")
        if not path.is_dir():
            raise MissingFile(f"{path} is no folder here. Download a model of a hub first, or load() its file.")
        loaded: Self = cls.load(path / WEIGHTS)  # type: ignore[attr-defined]
        return loaded
