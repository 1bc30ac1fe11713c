"""Numbers of model files at the ends of their ranges, and what is said about a file that is damaged."""

import pickle

import numpy as np
import pytest

from model_files import raw_file
from problems import make, random_posterior
from psimil.files.model_file import ModelFile, load_model, save_model
from psimil.files.schema import model_from, model_tensors
from psimil.foundations.errors import ModelFileError
from psimil.model.scaling import Scaling
from psimil.predictive.trained import TrainedModel


def small_model():
    _, gp = make()
    return TrainedModel(Scaling.identity(2), gp, random_posterior(gp.size))


@pytest.mark.parametrize("name", ["threshold", "instance_threshold"])
def test_thresholds_lie_between_zero_and_one(name):
    tensors, facts = model_tensors(small_model())
    for inside in (1e-300, 1.0 - 2.0**-53):
        assert getattr(model_from(tensors, facts | {name: inside}), name) == inside
    for outside in (0, 0.0, 1, 1.0, -1e-9, 4.0, np.nan, True, "0.5"):
        with pytest.raises(ModelFileError, match=f"{name} must be a number between 0 and"):
            model_from(tensors, facts | {name: outside})


@pytest.mark.parametrize(("name", "most"), [("bias", 1e6), ("jitter", 1e300)])
def test_numbers_lie_between_zero_and_their_largest(name, most):
    tensors, facts = model_tensors(small_model())
    for inside in (0, most):
        model_from(tensors, facts | {name: inside})
    for outside in (-1e-9, 1.001 * most, np.nan, True, "0.5"):
        with pytest.raises(ModelFileError, match=f"{name} must be a number between 0 and"):
            model_from(tensors, facts | {name: outside})


def test_a_calibration_is_increasing_and_of_sane_size():
    tensors, facts = model_tensors(small_model())
    for change in ({"scale": 1e6}, {"shift": -1e6}, {"spread": 1e-9}):
        model_from(tensors, facts | {"calibration": facts["calibration"] | change})
    for change in ({"scale": 0.0}, {"spread": -1.0}, {"scale": np.nan}, {"shift": "1"}):
        with pytest.raises(ModelFileError, match="calibration is not increasing"):
            model_from(tensors, facts | {"calibration": facts["calibration"] | change})
    for change in ({"scale": 1.1e6}, {"shift": -1.1e6}, {"spread": 1.1e6}):
        with pytest.raises(ModelFileError, match=r"calibration has numbers above 1e\+06"):
            model_from(tensors, facts | {"calibration": facts["calibration"] | change})


def test_the_reason_of_a_refusal_is_told(write):
    path = write(raw_file({})[:8] + b"x", "model.safetensors")
    with pytest.raises(ModelFileError, match=r"not valid: .*: header of 2 bytes in a file of 9\.$"):
        load_model(path)
    path = write(raw_file({str(k): {} for k in range(70)}), "model.safetensors")
    with pytest.raises(ModelFileError, match=r"not valid: .*: 70 tensors, above the limit of 64\.$"):
        load_model(path)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x06", b"PK", b"\x80" + 7 * b"\0"])
def test_a_file_of_a_few_bytes_is_no_model_and_no_pickle(write, data):
    with pytest.raises(ModelFileError, match=r"not valid: .*: header of"):
        load_model(write(data, "model.safetensors"))


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_pickle_is_named(write, protocol):
    with pytest.raises(ModelFileError, match="is a Python pickle"):
        load_model(write(pickle.dumps(list(range(9)), protocol), "model.safetensors"))


@pytest.mark.parametrize("length", range(9))
def test_tensors_begin_at_a_multiple_of_eight_bytes_whatever_the_header_says(tmp_path, length):
    counts = {"bags": 2, "positive": 1, "instances": 5}
    save_model(tmp_path / "m.safetensors", ModelFile(small_model(), {}, "x" * length, counts))
    data = (tmp_path / "m.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    assert size % 8 == 0
    assert len(data[8 : 8 + size].rstrip()) > size - 8
    assert load_model(tmp_path / "m.safetensors").feature_fingerprint == "x" * length
