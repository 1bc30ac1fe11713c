"""One fit of an experiment: which model learns from which bags under which protocol."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EXPERIMENTS = ("musk1", "musk2", "mnist-pca", "mnist-raw", "ich")
PROTOCOLS = ("nested", "paper", "published")


@dataclass(frozen=True)
class Job:
    """What tells one fit from every other; all of it is plain text and numbers.

    Parameters
    ----------
    experiment, protocol : names from ``EXPERIMENTS`` and ``PROTOCOLS``.
    task : which bags teach and which are asked; "cross-validation" but for ICH.
    model : name in the registry of :mod:`psimil.paper.experiments.models`.
    split, repeat : number of the test fold, and of the shuffle that made the folds.
    cnn : which CNN made the features (ICH).
    n_features : D of the features that a user supplies (ICH under the paper's protocol).
    quick : a small version of the experiment.

    Examples
    --------
    >>> Job("musk1", "nested", "vgpmil", split=3, n_inducing=50).key
    'nested.cross-validation.vgpmil.m50.split3'
    """

    experiment: str
    protocol: str
    model: str
    task: str = "cross-validation"
    split: int = 0
    repeat: int = 0
    cnn: int | None = None
    n_features: int | None = None
    n_inducing: int | None = None
    alpha: float | None = None
    beta: float | None = None
    quick: bool = False

    @property
    def key(self) -> str:
        """A name for files, unique within an experiment."""
        parts = [self.protocol, self.task.replace(" ", "-"), self.model]
        for letter, value in (("m", self.n_inducing), ("a", self.alpha), ("b", self.beta), ("d", self.n_features)):
            if value is not None:
                parts.append(f"{letter}{value:g}".replace(".", "_"))
        if self.cnn is not None:
            parts.append(f"cnn{self.cnn}")
        if self.repeat:
            parts.append(f"repeat{self.repeat}")
        return ".".join([*parts, f"split{self.split}"])

    @property
    def seed(self) -> int:
        """Seed of the fit: the same for every model that meets the same bags."""
        return 1000 * self.repeat + self.split

    def as_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)
