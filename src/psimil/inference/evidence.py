"""log p(T) of a kernel, estimated by the sites of q(v), and its gradient by what q(v) does not know of.

The estimate L of log p(T) hardly changes with the sites, whose best choice it is; so it depends on the kernel through V
alone. With gradient g and curvature Lambda of the sites, dL/dV = g m' - Lambda V S, and V = K_xz L^-T, L L' = K_zz:

    dL/dK_xz = dL/dV L^-1,
    dL/dK_zz = -L^-T sym(lower((dL/dV)' V)) L^-1,    lower halving the diagonal.

And dL/dtau, of what labels share, is the sum of the means of d log p_b / dtau under the tilted densities.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psimil.foundations.linalg import floored, solve_lower
from psimil.foundations.logistic import antithetic_draws
from psimil.inference.draws import Draws
from psimil.inference.shards import Shard
from psimil.inference.sites import Curvature, GaussianSites, tilt
from psimil.inference.variational import FLOOR, Iterate, Stage, climb
from psimil.model.bag_ranges import BagRange
from psimil.model.shared_labels import SharedLabels
from psimil.model.sparse_gp import Posterior, SparseGP

Array = NDArray[Any]

ENOUGH = 3e-3  # nats per direction from its fixed point at which q(v) is as good as there
FAR = 0.1  # beyond which the sites of q(v) say little about log p(T)
MORE = 3  # times as many steps then
DRAWS = 64  # which all bags share


def settled(shard: Shard, gp: SparseGP, start: Posterior, noise: Draws, steps: int, sharing: bool = False) -> Iterate:
    """The last of so many steps on the bound, fewer where little is left to gain, more while far away, with log p(T).

    Parameters
    ----------
    sharing : whether its derivative by tau is worked out, too.
    """
    for found in climb(shard, gp, start, [Stage(noise, tilted=False, enough=0.0)]):
        if found.change < ENOUGH or found.step > (steps if found.distance < FAR else MORE * steps):
            assert found.local is not None  # one shard in memory
            tilted, slope = tilted_sums(shard, gp, noise.of(found.posterior), found.local, sharing)
            return replace(found, sums=replace(found.sums, tilted=tilted, by_sharing=slope))
    raise AssertionError  # steps have no end


def noise_of(gp: SparseGP, seed: int) -> Draws:
    """Draws, which all bags share."""
    return Draws.shared(antithetic_draws(gp.size, DRAWS, seed))


def tilted_sums(
    shard: Shard, gp: SparseGP, draws: Draws, sites: GaussianSites, sharing: bool = False
) -> tuple[float, float]:
    """The sum of log E_q[p_b / s_b] over the bags of a shard, and its derivative by tau if ``sharing``."""
    V, _ = shard.features(gp, shard.blocks[0])

    def part(bags: BagRange) -> tuple[float, float]:
        labels, slope = shard.labels.chunk(bags.first, bags.last), 0.0
        mean, deviations = draws.latent(shard.backend, V[bags.rows], bags.first)
        df = deviations.astype(shard.precision, copy=False)
        f, sign = df + mean.astype(df.dtype), shard.likelihood.sign(labels).astype(df.dtype)
        found, some = shard.likelihood.derivatives(f, labels), sites.taken(bags.rows, shard.precision)
        tilted = tilt(found, some, df, some.curvature.times(df, labels, sign), labels, shard.likelihood)
        if sharing:
            of_bags = np.where(shard.likelihood.separate(labels), 1.0 / len(f), tilted.weights)[:, labels.offsets[:-1]]
            means = np.einsum("sb,sb->b", of_bags, SharedLabels().slope(f, labels))
            slope = float(shard.weights[bags.first : bags.last] @ means)
        return float(shard.instance_weights[bags.rows] @ tilted.log_means), slope

    found = list(shard.backend.map(part, draws.ranges(shard, shard.blocks[0])))
    return sum(one[0] for one in found), sum(one[1] for one in found)


def evidence_gradient(shard: Shard, found: Iterate) -> Array:
    """(P,) gradient of log p(T) by the log parameters of the kernel, from the sums and sites of a pass.

    Sites kept, log p(T) changes with V alone, by dL/dV = g m' - Lambda V S.
    """
    gp, q, sites, labels = found.gp, found.posterior, found.local, shard.labels
    assert sites is not None  # one shard in memory
    w, M, sign = shard.instance_weights, len(gp.Z), shard.likelihood.sign(labels)
    V = shard.backend.on_host(shard.features(gp, shard.blocks[0])[0])
    curved = sites.curvature.times(V.T, labels, sign)  # (Lambda V)'
    left = w[:, None] * np.column_stack([sites.gradient, curved.T])
    by_K = np.vstack([q.m[:M], -q.S[:, :M]]) @ gp.L_inverse_T.T  # dL/dK_xz = dL/dV L^-1
    K = shard.backend.features(gp, shard.X, whiten=False)
    gradient = shard.backend.kernel_adjoint(gp, shard.X, K, left, by_K)
    by_V = np.outer(found.sums.gradient, q.m) - found.sums.curvature @ q.S  # V' dL/dV
    lower = np.tril(by_V[:M, :M].T)
    lower[np.diag_indices(M)] *= 0.5
    inner = gp.L_inverse_T @ (lower + lower.T) @ gp.L_inverse_T.T
    return np.asarray(gradient - 0.5 * gp.kernel.gram_adjoint(gp.Z, gp.Z, inner))


class NaturalSites(NamedTuple):
    """Sites by their natural parameters: the linear term g + Lambda mu (n,), and Lambda."""

    linear: Array
    curvature: Curvature

    @classmethod
    def of(cls, shard: Shard, found: Iterate) -> NaturalSites:
        """Those that an iterate has found."""
        sites, labels = found.local, shard.labels
        assert sites is not None  # one shard in memory
        V, _ = shard.features(found.gp, shard.blocks[0])
        mu = shard.backend.products(V, found.posterior.m[:, None])
        curved = sites.curvature.times(mu, labels, shard.likelihood.sign(labels))
        return cls(sites.gradient + curved[0], sites.curvature)

    def posterior(self, shard: Shard, gp: SparseGP) -> Posterior:
        """q(v) of another kernel with these sites: prior and sites make it, without any draws."""
        V, labels, sign = shard.features(gp, shard.blocks[0])[0], shard.labels, shard.likelihood.sign(shard.labels)
        found = self.curvature.sums(V, shard.instance_weights, self.linear, labels, sign, shard.backend)
        R = floored(found[0] + np.eye(gp.size), FLOOR)
        return Posterior(solve_lower(R, solve_lower(R, found[1]), transposed=True), R)
