"""Bags drawn at random over the whole range that the package promises to handle, and how long to go on drawing.

PSIMIL_PROPERTIES=full draws 200 examples of every property, new ones each time; otherwise 5, the same each time.
"""

import os
import warnings
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from psimil import Bags, GammaMixture, HyperbolicSecant, PsiVGPMIL, SmoothLaplace, StudentT
from psimil.foundations.errors import DataWarning
from psimil.inference.shards import MANY

FULL = os.environ.get("PSIMIL_PROPERTIES") == "full"
properties = settings(
    max_examples=200 if FULL else 5,
    derandomize=not FULL,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
ROUNDED = 1e-5  # probabilities and bounds, in single precision
LARGEST = 60_000 if FULL else 15_000  # numbers in a drawn feature matrix
QUICK = {
    "n_inducing": 6,
    "max_iter": 3,
    "tol": 0.0,
    "hyperparameters": None,
    "calibrate": False,
    "threshold": 0.5,
    "false_positive_rate": None,
    "aggregate": "noisy_or",
    "accelerate": False,
    "random_state": 0,
}

seeds = st.integers(0, 2**32 - 1)
widths = st.one_of(st.integers(1, 6), st.sampled_from([17, 64, 512]))
sizes = st.one_of(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.sampled_from([40, 300, 1000]))
exponents = st.one_of(st.just(0.0), st.floats(-3, 3), st.floats(-300, 150), st.sampled_from([-300.0, 150.0]))
densities = st.one_of(
    st.just(HyperbolicSecant()),
    st.builds(GammaMixture, st.floats(0.3, 3.0), st.floats(0.3, 6.0)),
    st.builds(StudentT, st.floats(1.0, 30.0)),
    st.builds(SmoothLaplace, st.floats(0.2, 2.0), st.floats(0.2, 2.0)),
)


@dataclass(frozen=True)
class Drawn:
    """Bags with labels, and bags of the same kind to predict for."""

    bags: Bags
    y: np.ndarray
    unseen: Bags
    seed: int

    @property
    def rng(self):
        return np.random.default_rng(self.seed + 1)

    @property
    def points(self):
        """(5, D) inducing points in the units of the features."""
        X = self.bags.X
        return X[self.rng.integers(len(X), size=5)] + 0.3 * X.std(axis=0) * self.rng.standard_normal((5, X.shape[1]))


def near(drawn, distance):
    """How far two ways to the same numbers may end apart: ``distance``, but where single precision does."""
    return distance if drawn.bags.n_instances <= MANY else max(distance, ROUNDED)


@st.composite
def problems(
    draw, widths=widths, exponents=exponents, labels="any", kinds=("plain", "duplicates", "constant", "mixed")
):
    """One to ten bags; labels "any" may all be the same, "both" may not."""
    seed, width, exponent = draw(seeds), draw(widths), draw(exponents)
    chosen = draw(st.lists(sizes, min_size=2 if labels == "both" else 1, max_size=10))
    while len(chosen) > 2 and sum(chosen) * width > LARGEST:
        chosen = chosen[:-1]
    chosen = [min(n, max(1, LARGEST // (len(chosen) * width))) for n in chosen]
    y = draw(st.lists(st.integers(0, 1), min_size=len(chosen), max_size=len(chosen)))
    if labels == "both":
        y[:2] = draw(st.sampled_from([(0, 1), (1, 0)]))
    return made(chosen, width, y, draw(st.sampled_from(kinds)), exponent, seed)


def made(chosen, width, y, kind, exponent, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(chosen)])
    X = rng.standard_normal((offsets[-1], width)) + np.repeat(y, chosen)[:, None] + rng.standard_normal(width)
    if kind == "duplicates":
        X = X[rng.integers(0, 1 + len(X) // 4, len(X))]
    elif kind == "constant":
        X[:, rng.random(width) < 0.5] = rng.standard_normal()
    elif kind == "mixed":  # features in very different units
        X *= 10.0 ** rng.integers(-3, 4, width)
    rows = X[rng.integers(len(X), size=9)] + 0.1 * rng.standard_normal((9, width))
    unit = 10.0**exponent
    return Drawn(Bags(unit * X, offsets), np.array(y), Bags(unit * rows, [0, 1, 3, 4, 9]), seed)


def fit(drawn, *, y=None, bags=None, weights=None, known=None, **options):
    """A quick model of the drawn bags, without the warnings that awkward bags deserve."""
    if options.get("residual") == "full":  # which the other posteriors do not have
        options["posterior"] = "augmented"
    model = PsiVGPMIL(**{**QUICK, **options})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(
            drawn.bags if bags is None else bags,
            drawn.y if y is None else y,
            sample_weight=weights,
            y_instances=known,
        )
