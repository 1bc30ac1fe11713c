"""The presets: the settings of the paper's text and of the authors' code, and that they fit."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from psimil import GVGPMIL, RBF, VGPMIL, GammaMixture, HyperbolicSecant, PsiVGPMIL
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning, InputError
from psimil.paper.published import ClippedGammaMixture
from tiny import problem

# The columns of DESIGN section 5, written out once more.
SHARED = {"posterior": "augmented", "accelerate": False, "mean": "zero", "calibrate": False, "threshold": 0.5}
COLUMNS = {
    "paper": SHARED
    | {"label_posterior": "mean_field", "H": 100.0, "start": 1.0, "residual": "full", "hyperparameters": "paper",
       "log_z": "rff", "aggregate": "noisy_or", "expectation": "sample"},
    "published": SHARED
    | {"label_posterior": "max", "H": 1e12, "start": 0.1, "residual": "unit", "hyperparameters": "published",
       "log_z": "none", "aggregate": "max", "patience": 20},
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("kind", [VGPMIL, GVGPMIL])
def test_presets_set_every_column(name, kind):
    estimator = kind.preset(name, n_inducing=6)
    assert type(estimator) is kind
    assert {key: getattr(estimator, key) for key in COLUMNS[name]} == COLUMNS[name]
    assert estimator.n_inducing == 6
    expected = HyperbolicSecant() if kind is VGPMIL else GammaMixture(1.0, 1.0)
    if kind is GVGPMIL and name == "published":
        expected = ClippedGammaMixture(1.0, 1.0, clip=3.0)
    assert estimator.density == expected


def test_presets_can_be_overridden_and_unknown_ones_are_refused():
    estimator = PsiVGPMIL.preset("paper", H=50.0, density=GammaMixture(2.0, 3.0))
    assert (estimator.H, estimator.label_posterior) == (50.0, "mean_field")
    assert estimator.density == GammaMixture(2.0, 3.0)
    with pytest.raises(InputError, match=r'^preset must be "paper" or "published", got \'papers\'\.$'):
        PsiVGPMIL.preset("papers")


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("kind", [VGPMIL, GVGPMIL])
@pytest.mark.filterwarnings("ignore:log Z rests on:psimil.foundations.errors.DataWarning")
def test_presets_fit(name, kind):
    bags, y, _ = problem()
    model = kind.preset(name, n_inducing=6, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    assert model.n_iter_ == 2
    assert model.threshold_ == 0.5
    assert model.mean_ == 0.0
    assert (model.model_.calibration.scale, model.model_.calibration.shift) == (1.0, 0.0)
    np.testing.assert_array_equal(model.predict_proba(bags), model.predict_proba(bags))
    assert np.isfinite(model.predict_proba(bags)).all()


def test_too_few_effective_samples_leave_the_kernel_alone():
    bags, y, _ = problem()
    with pytest.warns(
        DataWarning, match=r"^log Z rests on .* effective samples at iteration 1; the kernel is not moved"
    ):
        model = GVGPMIL.preset("paper", kernel=RBF(20.0), n_inducing=6, max_iter=2, tol=0.0, random_state=0).fit(
            bags, y
        )
    assert model.kernel_ == RBF(20.0, float(np.sqrt(3)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gvgpmil_learns_an_easy_problem_with_its_defaults(seed):
    bags, y, _ = make_bags(n_bags=30, n_features=3, separation=3.0, seed=seed)
    found = GVGPMIL(n_inducing=10, random_state=0).fit(bags, y).predict_dist(bags)
    assert np.abs(found.latent_mean).max() < 100
    assert roc_auc_score(y, found.log_odds) > 0.85


@pytest.mark.parametrize("name", COLUMNS)
def test_presets_keep_the_instance_threshold_at_one_half(name):
    bags, y, _ = problem()
    model = VGPMIL.preset(name, n_inducing=6, hyperparameters=None, max_iter=2, tol=0.0, random_state=0).fit(bags, y)
    assert model.instance_threshold_ == 0.5
