"""The fits of an experiment under a protocol: which model learns from which bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from psimil.datasets.ich import CNNS
from psimil.foundations.errors import InputError
from psimil.paper.experiments.models import entry
from psimil.paper.experiments.trial_data import FOLDS, TO_CQ500, TO_RSNA

EXPERIMENTS = ("musk1", "musk2", "mnist-pca", "mnist-raw", "ich")
PROTOCOLS = ("nested", "paper", "published")
SIZES = (50, 100, 200)  # inducing points of the paper's grid
GRID = tuple(product((0.5, 1.0), (1.0, 2.5, 4.0)))  # alpha, beta
QUICK_FOLDS = 3  # of the five, in quick runs
LARGE = 1000  # inducing points beyond the paper's
REPEATS = {"musk1": 5, "musk2": 5, "ich": 2}
BASELINES = ("attention", "smooth", "mean", "svm", "forest")
# Left out of quick runs unless asked for: kernel rules of the paper and its code, chains, and a network's inner folds.
SLOW = (
    *("vgpmil-paper", "gvgpmil-paper", "vgpmil-published", "gvgpmil-published"),
    *("vgpmil-sampled", "attention", "smooth"),
)

# Which models an experiment compares under a protocol. The paper's own kernel rule takes 200 gradients of J after every
# pass, hours on MNIST; kernels that the variational bound learns do not suit the paper's posterior.
MODELS: dict[tuple[str, str], tuple[str, ...]] = {
    ("musk", "nested"): (
        *("vgpmil", "gvgpmil", "vgpmil-sampled", "vgpmil-context"),
        *("vgpmil-paper", "gvgpmil-paper", "vgpmil-published", *BASELINES),
    ),
    ("musk", "paper"): ("vgpmil", "gvgpmil", "vgpmil-paper", "gvgpmil-paper"),
    ("musk", "published"): ("vgpmil-published", "gvgpmil-published"),
    ("mnist", "nested"): ("vgpmil", "gvgpmil", "vgpmil-sampled", "vgpmil-context", *BASELINES),
    ("mnist", "paper"): ("vgpmil", "gvgpmil"),
    ("mnist", "published"): ("vgpmil-published", "gvgpmil-published"),
    ("ich", "nested"): (
        *("vgpmil", "gvgpmil", "vgpmil-sampled", "vgpmil-chain"),
        *("vgpmil-paper", "vgpmil-published", *BASELINES, "cnn"),
    ),
    ("ich", "paper"): ("vgpmil", "gvgpmil", "vgpmil-paper", "gvgpmil-paper"),
    ("ich", "published"): ("vgpmil-published", "gvgpmil-published"),
}


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


def plan(experiment: str, protocol: str, *, quick: bool = False, models: Sequence[str] = ()) -> list[Job]:
    """All jobs, in the order in which they are best run.

    Parameters
    ----------
    quick : fewer models, splits and inducing points.
    models : only these of the registry; empty for all that the protocol compares.

    Examples
    --------
    >>> len(plan("musk1", "published", models=["vgpmil-published"]))  # 3 sizes, 5 splits
    15
    """
    if experiment not in EXPERIMENTS or protocol not in PROTOCOLS:
        raise InputError(
            f"no experiment {experiment!r} under {protocol!r}. "
            f"Experiments are {', '.join(EXPERIMENTS)}; protocols are {', '.join(PROTOCOLS)}."
        )
    kind = experiment.split("-", maxsplit=1)[0].rstrip("12")
    compared = tuple(name for name in MODELS[kind, protocol] if not (quick and protocol == "nested" and name in SLOW))
    names = tuple(dict.fromkeys(models)) or compared
    for name in names:
        entry(name)
    jobs = _nested(experiment, names, quick) if protocol == "nested" else _grid(experiment, protocol, names, quick)
    if not jobs:
        raise InputError(f"{experiment} has no fits of {', '.join(names)} under {protocol!r}.")
    return sorted(jobs, key=lambda job: (job.repeat, job.cnn or 0, job.split))  # equal features follow each other


def _nested(experiment: str, names: Sequence[str], quick: bool) -> list[Job]:
    small, folds = (50, QUICK_FOLDS) if quick else (None, FOLDS)
    jobs = []
    for name, repeat in product(names, range(1 if quick else REPEATS.get(experiment, 1))):
        if repeat and not _repeated(experiment, name):
            continue
        if name == "cnn" and experiment != "ich":
            continue  # predictions are stored for ICH only
        size = small if entry(name).is_gaussian_process else None
        base = Job(experiment, "nested", name, repeat=repeat, n_inducing=size, quick=quick)
        if experiment != "ich":
            jobs += [replace(base, split=split) for split in range(folds)]
            if experiment == "mnist-pca" and name == "vgpmil" and not quick:
                jobs += [replace(base, n_inducing=LARGE, split=split) for split in range(folds)]
            continue
        for cnn in CNNS[:1] if quick else CNNS:
            jobs += [replace(base, cnn=cnn, split=split) for split in range(folds)]
            if repeat == 0:
                jobs += [replace(base, cnn=cnn, task=task) for task in (TO_RSNA, TO_CQ500)]
    return jobs


def _repeated(experiment: str, name: str) -> bool:
    """Whether a model meets every shuffle of the folds; slow kernel rules, chains and, on ICH, baselines meet one."""
    preset = entry(name).preset
    if name == "vgpmil-sampled":
        return False
    return preset == "default" or (preset == "" and experiment != "ich")


def _grid(experiment: str, protocol: str, names: Sequence[str], quick: bool) -> list[Job]:
    """Sizes by configurations by splits, as in the paper; the baselines have no such grid."""
    dimensions, folds = ((8,), range(QUICK_FOLDS)) if quick else ((8, 32, 128), range(FOLDS))
    jobs = []
    for name in names:
        if not entry(name).is_gaussian_process:
            continue
        shapes = ((1.0, 1.0),) if quick else GRID
        settings = shapes if entry(name).label == "G-VGPMIL" else ((None, None),)
        for size, (alpha, beta), split in product(SIZES[:1] if quick else SIZES, settings, folds):
            job = Job(experiment, protocol, name, split=split, n_inducing=size, alpha=alpha, beta=beta, quick=quick)
            if experiment == "ich":
                jobs += [replace(job, n_features=d) for d in dimensions]
            else:
                jobs.append(job)
    return jobs
