"""The models of the experiments, side by side in one registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from psimil.estimators.psi_vgpmil import GVGPMIL, VGPMIL, PsiVGPMIL
from psimil.foundations.errors import InputError
from psimil.model.densities import GammaMixture
from psimil.paper.baselines import AttentionMIL, BagForest, BagSVM, MeanPooling, Smoothing

if TYPE_CHECKING:
    from psimil.paper.experiments.plans import Job

# What the kernel of the paper's model costs by its own rule, hours on MNIST, the variational bound costs in seconds.
BOUND = {"hyperparameters": "bound", "log_z": "logistic"}

# Settings of the default models among which the nested protocol chooses by leave-one-bag-out on the training bags:
# pixels share one unit, so scaling each to unit variance may do harm.
CANDIDATES: dict[str, list[dict[str, Any]]] = {"mnist-raw": [{"standardize": True}, {"standardize": False}]}


@dataclass(frozen=True)
class Entry:
    """A model of the registry.

    Parameters
    ----------
    label : its name in tables.
    preset : "default", "paper", "paper, bound", "published", or "" for baselines.
    build : job -> unfitted estimator; None for the stored predictions of a CNN.
    grid : parameters that the nested protocol chooses by inner cross-validation (baselines; the Gaussian process
        models choose theirs on training bags inside ``fit``).
    needs_torch : whether it is left out where torch is not installed.
    """

    label: str
    preset: str
    build: Callable[[Job], Any] | None
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    needs_torch: bool = False

    @property
    def is_gaussian_process(self) -> bool:
        """Whether the model is one of ours, with instances, uncertainty and early stopping."""
        return self.preset != ""

    @property
    def needs_stopping(self) -> bool:
        """Whether its training is stopped by bags of its own, under every protocol."""
        return self.preset not in ("", "default")


def _gp(cls: type[PsiVGPMIL], preset: str | None = None, **more: Any) -> Callable[[Job], PsiVGPMIL]:
    def build(job: Job) -> PsiVGPMIL:
        parameters: dict[str, Any] = {"random_state": job.seed, **more}
        if job.n_inducing is not None:
            parameters["n_inducing"] = job.n_inducing
        if job.alpha is not None and job.beta is not None:
            parameters["density"] = GammaMixture(job.alpha, job.beta)
        return cls(**parameters) if preset is None else cls.preset(preset, **parameters)

    return build


REGISTRY: dict[str, Entry] = {
    "vgpmil": Entry("VGPMIL", "default", _gp(VGPMIL)),
    "gvgpmil": Entry("G-VGPMIL", "default", _gp(GVGPMIL)),
    "vgpmil-sampled": Entry("VGPMIL, sampled", "default", _gp(VGPMIL, posterior="sampled")),
    "vgpmil-chain": Entry("VGPMIL, labels in chains", "default", _gp(VGPMIL, labels="chain")),
    "vgpmil-context": Entry("VGPMIL, context chosen", "default", _gp(VGPMIL, context="auto")),
    "vgpmil-paper": Entry("VGPMIL", "paper", _gp(VGPMIL, "paper")),
    "gvgpmil-paper": Entry("G-VGPMIL", "paper", _gp(GVGPMIL, "paper")),
    "vgpmil-bound": Entry("VGPMIL", "paper, bound", _gp(VGPMIL, "paper", **BOUND)),
    "gvgpmil-bound": Entry("G-VGPMIL", "paper, bound", _gp(GVGPMIL, "paper", **BOUND)),
    "vgpmil-published": Entry("VGPMIL", "published", _gp(VGPMIL, "published")),
    "gvgpmil-published": Entry("G-VGPMIL", "published", _gp(GVGPMIL, "published")),
    "attention": Entry("Attention MIL", "", lambda job: AttentionMIL(random_state=job.seed), needs_torch=True),
    "smooth": Entry(
        "Smooth attention MIL",
        "",
        lambda job: AttentionMIL(smoothing=Smoothing(), random_state=job.seed),
        needs_torch=True,
    ),
    "mean": Entry("Logistic regression on bag means", "", lambda job: MeanPooling(), {"C": [0.01, 0.1, 1.0, 10.0]}),
    "svm": Entry(
        "SVM on bag statistics", "", lambda job: BagSVM(random_state=job.seed), {"C": [0.3, 1.0, 3.0, 10.0, 30.0]}
    ),
    "forest": Entry(
        "Random forest on bag statistics",
        "",
        lambda job: BagForest(random_state=job.seed),
        {"max_features": ["sqrt", 0.3]},
    ),
    "cnn": Entry("Attention CNN (stored)", "", None),
}


def entry(name: str) -> Entry:
    """The model of that name.

    Examples
    --------
    >>> entry("gvgpmil-paper").label, entry("gvgpmil-paper").preset
    ('G-VGPMIL', 'paper')
    """
    if name not in REGISTRY:
        raise InputError(f"no model is called {name!r}. The models are {', '.join(REGISTRY)}.")
    return REGISTRY[name]
