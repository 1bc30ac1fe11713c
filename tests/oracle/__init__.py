"""The slow and exact answer on small problems, to hold the fast variational one against.

A Polya-Gamma Gibbs sampler draws from the true posterior of the hyperbolic-secant model; simulation-based ranks say
whether the sampler itself is right; quadrature and importance sampling give log p(T). Nothing here is used by a fit.
"""

from oracle.coverage import interval_coverage
from oracle.evidence import Evidence, quadrature_evidence, sampled_evidence
from oracle.gap import bound_gap, compare, settle
from oracle.gibbs import draw_posterior, sweep
from oracle.latent_model import LatentModel, model_of, simulate
from oracle.polya_gamma import draw_polya_gamma
from oracle.ranks import Ranks, simulated_ranks
from oracle.slices import mixed_sweep, slice_step

__all__ = [
    "Evidence",
    "LatentModel",
    "Ranks",
    "bound_gap",
    "compare",
    "draw_polya_gamma",
    "draw_posterior",
    "interval_coverage",
    "mixed_sweep",
    "model_of",
    "quadrature_evidence",
    "sampled_evidence",
    "settle",
    "simulate",
    "simulated_ranks",
    "slice_step",
    "sweep",
]
