"""Models of two latent directions, whose posterior is a sum over a grid and over all labels: the oracle's oracle."""

from itertools import pairwise

import numpy as np

from oracle import model_of
from problems import labellings, make, normal_grid


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def bags_of(model):
    return list(pairwise(model.offsets))


def quadrature_moments(model, T, H):
    """Mean and variance of f given T, P(y_n = 1 | T) and log p(T) on a grid over w (2,), labels enumerated."""
    x, weight = normal_grid(201)
    w = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    f = w @ model.W.T
    total = np.outer(weight, weight).ravel()
    conditional = np.empty(f.shape)
    for b, (start, stop) in enumerate(bags_of(model)):
        Y = labellings(stop - start)
        agree = Y.max(axis=1) == T[b]
        likelihood = agree.astype(float) if np.isinf(H) else np.where(agree, H, 1.0) / (1 + H)
        joint = np.stack([likelihood[i] * sigmoid((2 * y - 1) * f[:, start:stop]).prod(1) for i, y in enumerate(Y)], 1)
        total *= joint.sum(axis=1)
        conditional[:, start:stop] = (joint @ Y) / joint.sum(axis=1)[:, None]
    evidence = total.sum()
    total /= evidence
    mean = total @ f
    return mean, total @ (f - mean) ** 2, total @ conditional, np.log(evidence)


SMALL = [(100.0, 0.0), (2.0, 1.5), (np.inf, 0.0), (np.inf, 1.5)]


def small_model(H, bias, T=(1, 0, 1)):
    problem, gp = make(3, (2, 1, 3), M=1 if bias else 2, H=H, bias=bias, T=T, residual="projected", variance=4.0)
    return problem, gp, model_of(problem, gp)
