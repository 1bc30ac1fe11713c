"""From features to latent values, as terms: standardisation, the bag as context, kernel, posterior, novelty."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psimil.export.terms import Term, expm1, square, variance_over
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.foundations.logistic import antithetic_draws
from psimil.model.kernels import RBF, Constant, Kernel, Linear, Matern32, Matern52
from psimil.model.kernels.base import Sum
from psimil.model.kernels.columns import Columns
from psimil.model.kernels.stationary import Stationary
from psimil.model.scaling import FARTHEST
from psimil.predictive.aggregates import DRAWS
from psimil.predictive.moments import LARGEST_LATENT
from psimil.predictive.novelty import COINCIDENT, ROUNDING, Novelty
from psimil.predictive.trained import TrainedModel


class Latent(NamedTuple):
    """Of the N instances of a bag: mean and variance (N,), novelty (N,), joint draws (N, S), and what is usable (N,).

    ``novelty`` is None where the model does not know it, ``draws`` where instances are taken for independent.
    """

    mean: Term
    variance: Term
    novelty: Term | None
    draws: Term | None
    usable: Term


def latent_of(model: TrainedModel, features: Term, *, rounded: bool = False) -> Latent:
    """Latent values of the instances of one bag.

    Parameters
    ----------
    features : (N, D) in double precision, in the units of the file.
    rounded : whether they come from single precision, in which means over the bag are then rounded, too.
    """
    gp, calibration = model.gp, model.calibration
    usable = features.is_finite().cast(np.int64).over("Min", 1) > 0
    x = _scaled(model, features, rounded)
    K = gram(gp.kernel, x, gp.Z)
    if model.chains is not None:
        f = _projected(K, model, model.draws.T)
        mean = f.over("Mean", 1)
        deviations = f - mean.column()
        variance = own = square(deviations).over("Mean", 1)
    else:
        mean = _projected(K, model, model.posterior.m[:, None]).over("Sum", 1)
        W = _projected(K, model, model.posterior.U)
        variance = own = square(W).over("Sum", 1)
        if gp.residual == "full":
            left = diagonal(gp.kernel, x) - square(K @ gp.L_inverse_T).over("Sum", 1)
            variance = variance + left.at_least(0.0)
    mean, variance = mean * calibration.scale + calibration.shift, variance * calibration.spread**2
    novelty = None
    if model.novelty is not None:
        novelty = _novelty(model.novelty, x, gp.Z)
        w = (novelty * 2.0 - 1.0).at_least(0.0)
        prior = diagonal(gp.kernel, x) + gp.bias**2
        mean = (1.0 - w) * mean + w * model.prior_mean
        variance = (1.0 - w) * variance + w * prior
    usable = usable & (mean.apply("Abs") < LARGEST_LATENT) & (variance.apply("Sqrt") < LARGEST_LATENT)
    draws = None
    if model.chains is not None:
        wide = _widened(deviations, own, variance, antithetic_draws(1, len(model.draws), model.seed)[0])
        draws = mean.column() + wide * _stretch(variance_over(wide, 1), variance).column()
    elif model.joint and model.aggregate == "noisy_or":
        noise = antithetic_draws(gp.size + 1, DRAWS, model.seed)
        draws = mean.column() + _widened(W @ noise[:-1], own, variance, noise[-1])
    return Latent(mean, variance, novelty, draws, usable)


def gram(kernel: Kernel, x: Term, Z: Array) -> Term:
    """K_xz (N, M) of instances x (N, D) and points Z (M, D)."""
    if isinstance(kernel, Sum):
        return gram(kernel.left, x, Z) + gram(kernel.right, x, Z)
    if isinstance(kernel, Columns):
        return gram(kernel.kernel, x.columns(kernel.start, kernel.stop), kernel.of(Z))
    if type(kernel) is Linear:
        return x @ (kernel.variance * Z.T)
    if type(kernel) is Constant:
        return (x @ np.zeros((Z.shape[1], len(Z)))) + kernel.variance
    if not isinstance(kernel, Stationary) or type(kernel) not in (RBF, Matern32, Matern52):
        raise InputError(f"a kernel of your own ({type(kernel).__name__}) cannot be exported to ONNX.")
    centre = Z.mean(axis=0)
    scale = np.broadcast_to(np.asarray(kernel.lengthscale, dtype=np.float64), centre.shape)
    near, z = x - centre, (Z - centre) / scale
    # no number stands before a product of matrices: runtimes would move it into the product, in single precision
    s: Term = (
        near @ (-2.0 * (z / scale).T) + square(near / scale).over("Sum", 1, keep=True) + np.vecdot(z, z)
    ).at_least(0.0)
    if type(kernel) is RBF:
        return (s * -0.5 + float(np.log(kernel.variance))).apply("Exp")
    r = (s * (3.0 if type(kernel) is Matern32 else 5.0)).apply("Sqrt")
    polynomial = r + 1.0 if type(kernel) is Matern32 else r + 1.0 + square(r) / 3.0
    return (polynomial * kernel.variance) * (-r).apply("Exp")


def diagonal(kernel: Kernel, x: Term) -> Term:
    """k(x_n, x_n), (N,)."""
    if isinstance(kernel, Sum):
        return diagonal(kernel.left, x) + diagonal(kernel.right, x)
    if isinstance(kernel, Columns):
        return diagonal(kernel.kernel, x.columns(kernel.start, kernel.stop))
    if type(kernel) is Linear:
        return square(x).over("Sum", 1) * kernel.variance
    return x.over("Sum", 1) * 0.0 + float(kernel.diagonal(np.zeros((1, 1)))[0])


def _scaled(model: TrainedModel, features: Term, rounded: bool) -> Term:
    """(N, D) in model coordinates, or (N, 4 D) in context."""
    x = features
    if model.context:
        low, high = x.over("Min", 0, keep=True), x.over("Max", 0, keep=True)
        mean = x.over("Mean", 0, keep=True).at_least(low).at_most(high)
        mean = mean.cast(np.float32).cast(np.float64) if rounded else mean
        beside = [x.graph.node("Expand", part, x.apply("Shape")) for part in (mean, low, high)]
        x = x.graph.node("Concat", x, *beside, axis=1)
    farthest = FARTHEST["float64"]
    x = ((x - model.scaling.location) / model.scaling.scale).at_least(-farthest).at_most(farthest)
    return (
        x if model.scaling.directions is None else (x @ model.scaling.directions).at_least(-farthest).at_most(farthest)
    )


def _projected(K: Term, model: TrainedModel, columns: Array) -> Term:
    """V C (N, S) for columns C (size, S), V = [K_xz L^-T, b]."""
    M = len(model.gp.Z)
    values = K @ (model.gp.L_inverse_T @ columns[:M])
    return values + model.gp.bias * columns[-1] if model.gp.bias else values


def _novelty(novelty: Novelty, x: Term, Z: Array) -> Term:
    """(N,) how unlike the training data each instance is."""
    nearest = (np.vecdot(Z, Z) - (x @ Z.T) * 2.0).over("Min", 1)
    own = square(x).over("Sum", 1)
    distance = nearest + own
    distance = (distance > own * COINCIDENT).where(distance, 0.0)
    return -expm1(distance * -np.log(2.0) / novelty.square)


def _stretch(own: Term, wanted: Term) -> Term:
    """(N,) what gives deviations of variance ``own`` the variance ``wanted``."""
    varies = own > wanted * 1e-100
    return varies.where(wanted / varies.where(own, 1.0), 1.0).apply("Sqrt")


def _widened(deviations: Term, own: Term, wanted: Term, shared: Array) -> Term:
    """(N, S) deviations with the variance ``wanted`` (N,)."""
    lacking = (wanted > own * (1.0 + ROUNDING)).where(wanted - own, 0.0)
    return deviations * _stretch(own, wanted).at_most(1.0).column() + lacking.apply("Sqrt").column() * shared
