"""How often intervals of the variational posterior hold the true latent value, on data simulated from the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from oracle.gap import settle
from oracle.gibbs import draw_posterior
from oracle.latent_model import model_of, simulate
from psimil.inference.shards import Shard
from psimil.model.sparse_gp import SparseGP

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]


def interval_coverage(
    problem: Shard,
    gp: SparseGP,
    rng: np.random.Generator,
    *,
    repeats: int = 100,
    levels: Sequence[float] = (0.5, 0.8, 0.95),
    draws: int = 400,
) -> pd.DataFrame:
    """Share of training latents inside central intervals; the labels of the problem are replaced by simulated ones.

    Parameters
    ----------
    repeats : data sets; the variational posterior is fitted to each, the oracle runs one chain on each.
    levels : probabilities that the intervals claim to hold.
    draws : of the oracle per data set.

    Returns
    -------
    table : columns ``level``, ``variational`` with its standard ``error`` over data sets, ``oracle`` with its
        ``oracle_error``.

    Examples
    --------
    >>> from oracle.gap import _example
    >>> table = interval_coverage(*_example(), np.random.default_rng(0), repeats=20, levels=(0.8,))
    >>> bool((table["oracle"] > 0.6).all())
    True
    """
    import pandas as pd

    model = model_of(problem, gp)
    truth, _, T = simulate(model, repeats, rng)
    f = truth @ model.W.T
    w = draw_posterior(model, T, rng, chains=repeats, draws=draws)
    theirs = ((w @ model.W.T) < f).mean(axis=0)
    ours = np.empty(f.shape)
    for i in range(repeats):
        local = settle(replace(problem, labels=replace(problem.labels, T=T[i])), gp).local
        assert local is not None  # of data in memory
        ours[i] = ndtr((f[i] - local.mu) / np.sqrt(local.s2))
    rows = []
    for level in levels:
        inside = [(np.abs(u - 0.5) < level / 2).mean(axis=1) for u in (ours, theirs)]
        error = [share.std(ddof=1) / np.sqrt(repeats) for share in inside]
        rows.append({"level": level, "variational": inside[0].mean(), "error": error[0], "oracle": inside[1].mean(),
                     "oracle_error": error[1]})  # fmt: skip
    return pd.DataFrame(rows)
