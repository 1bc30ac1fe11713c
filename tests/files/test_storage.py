"""Model files: equal bits after load (I26), no training rows inside, atomic under kills and full disks."""

import errno
import json
import os

import numpy as np
import pytest

import psimil
from problems import NEW
from psimil import (
    GVGPMIL,
    RBF,
    Bags,
    Constant,
    GammaMixture,
    HyperbolicSecant,
    Linear,
    Matern32,
    Matern52,
    PsiVGPMIL,
    SmoothLaplace,
    StudentT,
    density_from_log,
)
from psimil.datasets import make_bags
from psimil.files import sealed
from psimil.files.atomic import atomic_write
from psimil.files.model_file import load_model
from psimil.files.schema import DENSITIES
from psimil.foundations.errors import InputError, MissingFile, OutputError
from psimil.model.custom_density import LostDensity
from psimil.paper.published import ClippedGammaMixture
from tiny import fitted, problem, quick

CUSTOM = density_from_log(lambda x: -1.5 * np.log(1.0 + x**2 / 2), name="mine")
SETTINGS = {
    "secant": {},
    "gamma": {"density": GammaMixture(1.0, 0.5)},
    "student": {"density": StudentT(3.0, 0.5)},
    "laplace": {"density": SmoothLaplace(1.0, 0.5)},
    "clipped": {"density": ClippedGammaMixture(1.0, 0.5)},
    "custom": {"density": CUSTOM},
    "rbf": {"kernel": RBF(0.3, 2.0), "hyperparameters": "bound"},
    "ard": {"kernel": RBF(1.5, (1.0, 2.0, 3.0)), "hyperparameters": "bound"},
    "augmented": {"posterior": "augmented", "hyperparameters": "bound"},
    "variational": {"posterior": "variational"},
    "matern32": {"kernel": Matern32(2.0)},
    "matern52": {"kernel": Matern52(2.0, (0.5, 1.0, 2.0))},
    "linear": {"kernel": Linear(0.5), "n_inducing": 3},
    "sum": {"kernel": RBF(0.5) + (Linear(0.1) + Constant(2.0))},
    "float32": {"dtype": "float32"},
    "full": {"residual": "full", "posterior": "augmented"},
    "unit": {"residual": "unit", "posterior": "augmented"},
    "zero mean": {"mean": "zero"},
    "max": {"aggregate": "max"},
    "sample": {"expectation": "sample"},
    "calibrated": {"calibrate": True},
    "not calibrated": {"calibrate": False},
    "threshold": {"threshold": 0.3},
    "not standardised": {"standardize": False},
    "numpy numbers": {"H": np.float64(50.0), "n_inducing": np.int64(6)},
} | {type(density).__name__: {"density": density} for density in NEW}
UNCALIBRATED = {"density", "kernel", "residual", "mean", "expectation", "standardize", "H"}  # calibration takes longest


def facts(prediction):
    names = ("prob", "std", "lower", "upper", "log_odds", "label", "refer", "latent_mean", "latent_variance")
    names += ("instance_prob", "instance_std", "instance_log_odds", "instance_lower", "instance_upper", "joint_std")
    return {name: getattr(prediction, name) for name in names}


@pytest.mark.parametrize("name", SETTINGS)
def test_load_gives_equal_bits(name, tmp_path):
    bags, y, _ = problem()
    fresh, _, _ = make_bags(n_bags=9, bag_size=(1, 9), n_features=3, seed=11)
    plain = {"calibrate": False} if UNCALIBRATED & set(SETTINGS[name]) else {}
    parameters = {"max_iter": 6, "tol": 0.0} | plain | SETTINGS[name]
    model = quick(**parameters).fit(bags, y)
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = PsiVGPMIL.load(path)
    for held in (bags, fresh):
        for raw in (False, True):
            found, expected = (facts(m.predict_dist(held, raw=raw, joint=True)) for m in (loaded, model))
            for key, value in expected.items():
                assert np.asarray(found[key]).tobytes() == np.asarray(value).tobytes(), key
        for a, b in zip(*(m.predict_instances(held, recalibrated=True) for m in (loaded, model)), strict=True):
            assert a.tobytes() == b.tobytes()
    for attribute in ("inducing_points_", "q_mean_", "q_cov_", "classes_"):
        assert getattr(loaded, attribute).tobytes() == getattr(model, attribute).tobytes()
    for attribute in ("kernel_", "mean_", "threshold_", "instance_threshold_", "n_features_in_", "training_counts_"):
        assert getattr(loaded, attribute) == getattr(model, attribute)
    stored = {k: v for k, v in parameters.items() if k != "density" or name != "custom"}
    assert {k: getattr(loaded, k) for k in stored} == stored
    loaded.save(tmp_path / "again.safetensors")
    assert name == "custom" or (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_a_model_of_one_class_has_no_recalibration_and_still_loads(tmp_path):
    bags, y, _ = problem()
    with pytest.warns(UserWarning, match="are negative"):
        model = quick().fit(bags[y == 0], y[y == 0])
    model.save(tmp_path / "m")
    loaded = PsiVGPMIL.load(tmp_path / "m")
    assert loaded.model_.recalibration is None
    np.testing.assert_array_equal(loaded.predict_proba(bags), model.predict_proba(bags))


def test_a_loaded_gvgpmil_remembers_its_density(tmp_path):
    bags, y, _ = problem()
    model = GVGPMIL(n_inducing=6, hyperparameters=None, max_iter=5, tol=0.0, random_state=0).fit(bags, y)
    model.save(tmp_path / "m")
    loaded = PsiVGPMIL.load(tmp_path / "m")
    assert loaded.density == GammaMixture(1.0, 1.0)
    again = loaded.set_params(random_state=0).fit(bags, y)
    np.testing.assert_array_equal(again.predict_proba(bags), model.predict_proba(bags))


def test_metadata(tmp_path):
    bags, y, _ = problem()
    model = quick(density=CUSTOM, feature_fingerprint="resnet-18 sha256:abc", random_state=77).fit(bags, y)
    path = tmp_path / "m.safetensors"
    model.save(path)
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    text = json.loads(header["__metadata__"]["psimil"])
    assert set(header["__metadata__"]) == {"psimil", "sha256"}
    assert text["format"] == 6
    assert text["feature_names"] is None
    assert text["classes"] == [0, 1]
    assert text["library"] == psimil.__version__
    assert text["feature_fingerprint"] == "resnet-18 sha256:abc"
    assert text["training_counts"] == {"bags": 24, "positive": int(y.sum()), "instances": len(bags.X)}
    assert text["parameters"]["density"] == {"kind": "custom", "name": "mine"}
    assert text["parameters"]["H"] == "inf"
    assert text["parameters"]["n_inducing"] == 8
    assert not {"random_state", "inducing_points", "verbose", "warm_start"} & set(text["parameters"])
    assert set(header) == {
        "__metadata__", "inducing_points", "kernel_factor", "posterior_mean", "precision_factor", "feature_location",
        "feature_scale", "recalibration_log_odds", "recalibration_prob",
    }  # fmt: skip
    file = load_model(path)
    assert file.library_version == psimil.__version__
    assert PsiVGPMIL.load(path).feature_fingerprint == "resnet-18 sha256:abc"
    assert file.parameters["H"] == np.inf
    assert file.parameters["density"] == LostDensity("mine")  # not the default


def test_no_training_rows_in_the_file(tmp_path):
    sizes = []
    for n_bags in (40, 400):
        bags, y, _ = make_bags(n_bags=n_bags, n_features=3, separation=3.0, seed=2)
        names = np.array([f"patient-{b:04d}" for b in range(n_bags)])
        model = quick(max_iter=5, tol=0.0).fit(Bags(bags.X, bags.offsets, names), y)
        path = tmp_path / f"{n_bags}"
        model.save(path)
        data = path.read_bytes()
        sizes.append(len(data) - sum(t.nbytes for t in recalibration(model)))
        scaled = model.model_.scaling.apply(bags.X)
        for row in (*bags.X, *scaled):
            assert row.tobytes() not in data
        assert b"patient" not in data
    assert abs(sizes[0] - sizes[1]) < 200  # only the digits in the metadata differ
    assert all(t.nbytes <= 8 * 200 for t in recalibration(model))


def recalibration(model):
    return model.model_.recalibration.log_odds, model.model_.recalibration.prob


def test_greedy_inducing_points_are_the_exception_that_the_user_chose(tmp_path):
    bags, y, _ = problem()
    model = quick(inducing="greedy_variance").fit(bags, y)
    model.save(tmp_path / "m")
    scaled = model.model_.scaling.apply(bags.X)
    assert sum(row.tobytes() in (tmp_path / "m").read_bytes() for row in scaled) == 8


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(MissingFile, match=r"^model file none\.safetensors does not exist\. Check the path\.$"):
        PsiVGPMIL.load(tmp_path / "none.safetensors")


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path):
    class Own(RBF):
        pass

    bags, y, _ = problem()
    with pytest.raises(InputError, match=r"^a model with kernel Own cannot be saved\.$"):
        quick(kernel=Own()).fit(bags, y).save(tmp_path / "m")
    with pytest.raises(InputError, match=r"^feature_fingerprint must be text, got 7\.$"):
        quick(feature_fingerprint=7).fit(bags, y).save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_b39_paths_that_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match=r": it is a directory\.$"):
        fitted().save(tmp_path)
    (tmp_path / "file").write_text("here")
    with pytest.raises(OutputError, match=r"^cannot write m: its folder does not exist\.$"):
        fitted().save(tmp_path / "file" / "m")
    with pytest.raises(OutputError, match=r"^cannot write m: its folder does not exist\.$"):
        fitted().save(tmp_path / "none" / "m")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.ENOSPC, "no space left"), (errno.EIO, "input/output error"), (errno.EROFS, "the file system is read-only")],
)
def test_f2_a_failing_disk_keeps_the_old_model(tmp_path, monkeypatch, number, reason):
    path = tmp_path / "m.safetensors"
    fitted().save(path)
    before = path.read_bytes()

    def fail(stream):
        stream.write(before[: len(before) // 2])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sealed, "atomic_write", lambda path, write: atomic_write(path, fail))
    with pytest.raises(OutputError) as caught:
        fitted().save(path)
    assert str(caught.value) == f"cannot write m.safetensors: {reason} (old file kept)."
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_densities_of_the_schema_are_all_tested():
    kinds = {type(s["density"]) for s in SETTINGS.values() if "density" in s} | {HyperbolicSecant}
    assert set(DENSITIES.values()) <= kinds
