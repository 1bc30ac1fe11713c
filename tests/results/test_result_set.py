"""results.safetensors: predictions come back bit for bit, and nothing but such a file is read."""

import dataclasses
import json

import numpy as np
import pytest

from psimil.files import sealed
from psimil.files.rundir import opened
from psimil.foundations.errors import DataWarning, InputError, MissingFile
from psimil.predictive.drawn import Bounds
from psimil.results.result_file import FIELDS, KIND, NAME, read_result
from psimil.results.result_set import ResultSet
from small_results import results_of, small_model


@pytest.fixture
def fitted():
    return small_model()


def same(a, b):
    """Equal to the last bit, dtypes included, through nested dataclasses."""
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, tuple) and isinstance(b, tuple) and any(isinstance(one, np.ndarray) for one in a):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray) and a.dtype != object:
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tolist() == b.tolist()
    return type(a) is type(b) and a == b


IDS = {
    "none": None,
    "integers": np.arange(100, 120),
    "numbers": np.linspace(0.1, 0.9, 20),
    "text": [f"bag/é\u202e {n}" for n in range(20)],
    "objects": np.array([f"b{n}" for n in range(20)], dtype=object),
    "lone surrogate": [f"\udc80{n}" for n in range(20)],
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("joint", [False, True])
def test_everything_comes_back_bit_for_bit(fitted, tmp_path, ids, joint):
    results = results_of(fitted, ids, joint=joint, level=0.9)
    with opened(tmp_path / "run") as run:
        run.start({})
        results.save(run)
        run.finish()
    found = ResultSet.load(tmp_path / "run")
    assert same(results, found)
    assert (found.prediction.joint_std is not None) == joint
    for name in ("prob", "std", "lower", "upper", "log_odds", "label", "refer", "instance_lower", "instance_upper"):
        assert same(getattr(results.prediction, name), getattr(found.prediction, name)), name
    assert list(found.model) == list(results.model)


def test_scans_come_back_with_positions_thumbnails_notes_and_series(fitted, tmp_path):
    prediction = results_of(fitted).prediction
    N = int(prediction.offsets[-1])
    results = ResultSet.of(
        prediction,
        kind="ct",
        positions=np.linspace(-3, 8, N),
        images=np.random.default_rng(0).integers(0, 256, (N, 5, 7)).astype(np.uint8),
        heat=np.random.default_rng(1).integers(0, 256, (N, 5, 7)).astype(np.uint8),
        orientation=np.array([[1.0, 0, 0, 0, 1, 0], [0.0] * 6] * 10),
        notes=tuple(f"note {n}; </script>" for n in range(20)),
        series=tuple(f"{n:016x}" for n in range(20)),
    )
    results.write(tmp_path / NAME)
    assert same(results, ResultSet.load(tmp_path))
    assert results.orientation_of(0) == (1, 0, 0, 0, 1, 0) and results.orientation_of(1) is None
    assert not results.has_truth and not results.has_instance_truth
    assert results.features is None and results.feature_names == ()


def test_the_same_results_give_the_same_bytes(fitted, tmp_path):
    for name in ("one", "two"):
        results_of(fitted, IDS["text"]).write(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_orders_go_by_log_odds_and_by_standard_deviation(fitted):
    results = results_of(fitted)
    assert (np.diff(results.prediction.log_odds[results.by_probability()]) <= 0).all()
    assert (np.diff(results.prediction.std[results.by_uncertainty()]) <= 0).all()
    assert np.concatenate([np.arange(100)[results.instances_of(b)] for b in range(3)]).tolist() == list(
        range(results.prediction.offsets[3])
    )


def changed(name, change):
    return lambda tensors, texts, header: tensors.__setitem__(name, change(tensors[name]))


def at(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


def heads(**values):
    return lambda tensors, texts, header: header.update(values)


BREAKS = {
    "orientation of bags that are no scans": lambda tensors, texts, header: tensors.update(
        orientation=np.zeros((len(tensors["truth"]), 6))
    ),
    "missing array": lambda tensors, texts, header: tensors.pop("latent_mean"),
    "unknown array": lambda tensors, texts, header: tensors.__setitem__("more", np.zeros(3)),
    "missing truth": lambda tensors, texts, header: tensors.pop("truth"),
    "wrong dtype": changed("offsets", lambda a: a.astype(np.int32)),
    "float16": changed("bag_prob", lambda a: a.astype(np.float16)),
    "too short": changed("instance_variance", lambda a: a[:-1]),
    "too long": changed("truth", lambda a: np.append(a, a[:1])),
    "a matrix": changed("latent_mean", lambda a: a[:, None]),
    "a scalar": changed("latent_mean", lambda a: a[0]),
    "offsets a scalar": changed("offsets", lambda a: a[0]),
    "nan": changed("latent_variance", at(2, np.nan)),
    "infinite": changed("bag_log_odds", at(0, np.inf)),
    "probability above 1": changed("bag_prob", at(0, 1.0000001)),
    "probability below 0": changed("bag_prob", at(0, -1e-9)),
    "instance probability above 1": changed("instance_log_p", at(0, 1e-9)),
    "variance below 0": changed("instance_variance", at(0, -1e-9)),
    "label 2": changed("truth", at(0, 2)),
    "label -2": changed("instance_truth", at(0, -2)),
    "offsets from 1": changed("offsets", at(0, 1)),
    "offsets beyond": changed("offsets", lambda a: at(-1, a[-1] + 1)(a)),
    "offsets falling": changed("offsets", lambda a: at(1, a[2] + 1)(a)),
    "empty bag": changed("offsets", lambda a: at(1, 0)(a)),
    "a row twice": changed("rows", lambda a: at(0, a[1])(a)),
    "a row beyond": changed("rows", lambda a: at(0, len(a) + 5)(a)),
    "effects without features": lambda tensors, texts, header: tensors.pop("features"),
    "feature without a name": changed("features", at((0, 0), 6)),
    "fewer effects": changed("effects", lambda a: a[:, 1:]),
    "positions of numbers": lambda tensors, texts, header: tensors.__setitem__(
        "positions", np.zeros(len(tensors["rows"]))
    ),
    "images of numbers": lambda tensors, texts, header: tensors.__setitem__(
        "images", np.zeros((len(tensors["rows"]), 2, 2), np.uint8)
    ),
    "heat of numbers": lambda tensors, texts, header: tensors.__setitem__(
        "heat", np.zeros((len(tensors["rows"]), 2, 2), np.uint8)
    ),
    "heat without images": lambda tensors, texts, header: (
        header.update(kind_of_bags="ct"),
        [tensors.pop(name) for name in ("features", "values", "effects")],
        tensors.__setitem__("positions", np.zeros(len(tensors["rows"]))),
        tensors.__setitem__("heat", np.zeros((len(tensors["rows"]), 2, 2), np.uint8)),
    ),
    "empty images": lambda tensors, texts, header: (
        header.update(kind_of_bags="images"),
        tensors.__setitem__("images", np.zeros((len(tensors["rows"]), 0, 2), np.uint8)),
    ),
    "scans without positions": heads(kind_of_bags="ct"),
    "unknown kind": heads(kind_of_bags="video"),
    "kind a list": heads(kind_of_bags=["ct"]),
    "unknown aggregate": heads(aggregate="mean"),
    "unknown header": heads(more=1),
    "missing header": lambda tensors, texts, header: header.pop("level"),
    "threshold text": heads(threshold="0.5"),
    "threshold 2": heads(threshold=2.0),
    "threshold true": heads(threshold=True),
    "model a text": heads(model="G-VGPMIL"),
    "model of numbers": heads(model=[["inducing", 5]]),
    "ids of another kind": heads(ids="numbers"),
    "ids unknown": heads(ids="pickles"),
    "ids missing": lambda tensors, texts, header: texts["ids"].pop(),
    "ids numbers": lambda tensors, texts, header: texts["ids"].__setitem__(0, 3),
    "notes missing": lambda tensors, texts, header: texts["notes"].pop(),
    "series missing": lambda tensors, texts, header: texts.pop("series"),
    "texts unknown": lambda tensors, texts, header: texts.__setitem__("more", []),
    "texts no JSON": lambda tensors, texts, header: tensors.__setitem__("text", np.frombuffer(b"{", np.uint8)),
    "texts a list": lambda tensors, texts, header: tensors.__setitem__("text", np.frombuffer(b"[]", np.uint8)),
    "texts nested": lambda tensors, texts, header: tensors.__setitem__("text", np.frombuffer(b"[" * 100_000, np.uint8)),
    "texts not UTF-8": lambda tensors, texts, header: tensors.__setitem__("text", np.frombuffer(b'"\xff"', np.uint8)),
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS)
def test_what_breaks_the_schema_is_refused(fitted, tmp_path, change):

    results_of(fitted, IDS["text"]).write(tmp_path / NAME)
    tensors, texts, header = read_result(tmp_path / NAME)
    packed = tensors["text"]
    change(tensors, texts, header)
    if tensors["text"] is packed:
        tensors["text"] = np.frombuffer(json.dumps(texts).encode(), np.uint8)
    sealed.write_tensors(tmp_path / NAME, KIND, {k: np.ascontiguousarray(v) for k, v in tensors.items()}, header)
    with pytest.raises(InputError, match=r"^results\.safetensors: ") as caught:
        ResultSet.load(tmp_path)
    assert str(tmp_path) not in str(caught.value) and "bag/é" not in str(caught.value)


def test_an_unbroken_copy_is_read(fitted, tmp_path):
    results_of(fitted, IDS["text"]).write(tmp_path / NAME)
    tensors, _, header = read_result(tmp_path / NAME)
    sealed.write_tensors(tmp_path / NAME, KIND, tensors, header)
    assert len(ResultSet.load(tmp_path)) == 20


def test_damaged_files_are_refused_at_every_place(fitted, tmp_path):
    results_of(fitted, IDS["text"]).write(tmp_path / NAME)
    good = (tmp_path / NAME).read_bytes()
    rng = np.random.default_rng(0)
    for place in [*range(0, 64, 3), *rng.integers(0, len(good), 150).tolist()]:
        flipped = bytearray(good)
        flipped[place] ^= 1 << int(rng.integers(8))
        (tmp_path / NAME).write_bytes(flipped)
        with pytest.raises(InputError):
            ResultSet.load(tmp_path)
    for length in [0, 1, 7, 8, 9, 100, *rng.integers(0, len(good), 50).tolist()]:
        (tmp_path / NAME).write_bytes(good[:length])
        with pytest.raises(InputError):
            ResultSet.load(tmp_path)


def test_a_missing_and_a_foreign_file_are_told_apart(fitted, tmp_path):
    with pytest.raises(MissingFile, match="psimil predict") as caught:
        ResultSet.load(tmp_path / "nowhere")
    assert str(tmp_path) not in str(caught.value)
    fitted[0].save(tmp_path / NAME)  # a model is not a result
    with pytest.raises(InputError, match="damaged or is something else"):
        ResultSet.load(tmp_path)


def test_a_file_above_the_limit_is_not_read_and_never_written(fitted, tmp_path, monkeypatch):
    results = results_of(fitted)
    results.write(tmp_path / NAME)
    monkeypatch.setattr(sealed, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="above the limit"):
        ResultSet.load(tmp_path)
    monkeypatch.setattr("psimil.results.result_set.MAX_BYTES", 1000)
    with opened(tmp_path / "run") as run:
        with pytest.warns(DataWarning, match="left out"):
            results.save(run)
        assert not run.file(NAME).exists()


def test_results_that_break_the_schema_are_not_written(fitted, tmp_path):
    prediction = results_of(fitted).prediction
    with pytest.raises(InputError, match="truth"):
        ResultSet.of(prediction, truth=np.zeros(3)).write(tmp_path / NAME)
    with pytest.raises(InputError, match="one note"):
        ResultSet.of(prediction, notes=("odd",)).write(tmp_path / NAME)
    assert not (tmp_path / NAME).exists()


def test_every_field_of_the_schema_is_written_by_some_result(fitted, tmp_path):
    prediction = results_of(fitted, IDS["integers"], joint=True).prediction
    ends = Bounds(prediction.lower, prediction.upper, prediction.instance_lower, prediction.instance_upper)
    scans = ResultSet.of(
        dataclasses.replace(prediction, bounds=ends),  # as of the sampled posterior
        kind="ct",
        positions=np.zeros(len(fitted[1].X)),
        images=np.zeros((len(fitted[1].X), 2, 2), np.uint8),
        heat=np.zeros((len(fitted[1].X), 2, 2), np.uint8),
        orientation=np.zeros((len(prediction.ids), 6)),
        owed=(np.zeros(len(fitted[1].X)), np.ones(len(fitted[1].X))),  # as of a model in context
    )
    seen, folds = set(), np.arange(len(prediction.ids))
    for results in (scans, dataclasses.replace(results_of(fitted), fold=folds)):
        results.write(tmp_path / NAME)
        seen |= set(read_result(tmp_path / NAME)[0])
    assert seen == set(FIELDS)


def test_the_card_names_the_model_file(tmp_path, fitted):
    import hashlib

    from psimil.results.model_card import model_card

    fitted[0].save(tmp_path / "m.safetensors")
    digest = hashlib.sha256((tmp_path / "m.safetensors").read_bytes()).hexdigest()
    assert digest.startswith(model_card(fitted[0], tmp_path / "m.safetensors")["sha256"])
