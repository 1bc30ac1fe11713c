"""Damaged, foreign and crafted model files (B36, B37, B38, F9, F10, T3): all refused, nothing run."""

import io
import json
import pickle
import random
import time
import zipfile

import numpy as np
import pytest

from model_files import put_together, raw_file, take_apart
from psimil import PsiVGPMIL
from psimil.foundations.errors import InputError, ModelFileError
from tiny import fitted, problem


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "m.safetensors"
    fitted().save(path)
    return path.read_bytes()


@pytest.fixture
def refused(tmp_path):
    path = tmp_path / "m.safetensors"

    def check(data, start=""):
        path.write_bytes(data)
        with pytest.raises(ModelFileError) as caught:
            PsiVGPMIL.load(path)
        text = str(caught.value)
        assert text.startswith(start), text
        assert "\n" not in text
        return text

    return check


def test_the_untouched_file_loads(good, tmp_path):
    tensors, text = take_apart(good)
    (tmp_path / "m").write_bytes(put_together(tensors, text))
    bags, _, _ = problem()
    np.testing.assert_array_equal(PsiVGPMIL.load(tmp_path / "m").predict_proba(bags), fitted().predict_proba(bags))


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code ran')",))


@pytest.mark.parametrize("protocol", range(2, 6))
def test_b36_a_pickle_is_refused_unread(refused, protocol):
    message = refused(pickle.dumps(Bomb(), protocol=protocol))
    assert message.startswith("model file is a Python pickle; such files can run code and are not loaded. Convert with")


def test_b36_a_long_header_is_not_taken_for_a_pickle(good, tmp_path):
    size = int.from_bytes(good[:8], "little")
    padded = good[8 : 8 + size] + b" " * (0x010480 - size)
    data = len(padded).to_bytes(8, "little") + padded + good[8 + size :]
    assert data[:2] == b"\x80\x04"  # what a pickle of protocol 4 begins with
    (tmp_path / "m").write_bytes(data)
    assert PsiVGPMIL.load(tmp_path / "m").n_features_in_ == 3


def test_b36_a_torch_archive_is_refused_unread(refused):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb()))
    refused(stream.getvalue(), "model file is a Python pickle; such files can run code and are not loaded.")


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"\x00" * 8, b"PAR1", b"\x93NUMPY\x01\x00", b"\x89HDF\r\n\x1a\n", pickle.dumps(Bomb(), protocol=0),
     b"not a model at all, but long enough to look like one " * 20],
    ids=["empty", "one byte", "zeros", "parquet", "npy", "hdf5", "old pickle", "text"],
)  # fmt: skip
def test_b36_other_files(refused, data):
    refused(data, "model file is not valid: ")


def test_b36_a_directory_and_an_oversized_file(tmp_path, monkeypatch, good):
    with pytest.raises(ModelFileError, match=r" is not a file\.$"):
        PsiVGPMIL.load(tmp_path)
    (tmp_path / "m").write_bytes(good)
    monkeypatch.setattr("psimil.files.sealed.MAX_BYTES", len(good) - 1)
    with pytest.raises(ModelFileError, match=r"^model file m is above the limit of \d+ bytes\.$"):
        PsiVGPMIL.load(tmp_path / "m")


def test_f9_every_bit_flip_is_detected(good, tmp_path, faults):
    path, chance, damaged = tmp_path / "m", random.Random(1), bytearray(good)
    header = 8 + int.from_bytes(good[:8], "little")
    messages = set()
    for turn in range(faults.repeats("F9")):  # half of the flips hit the header, where most can go wrong
        position = chance.randrange(header if turn % 2 else len(good))
        bit = 1 << chance.randrange(8)
        damaged[position] ^= bit
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError) as caught:
            PsiVGPMIL.load(path)
        messages.add(str(caught.value))
        damaged[position] ^= bit
    assert bytes(damaged) == good
    assert "model file: checksum differs: file is damaged or was changed." in messages
    faults.add("F9", faults.repeats("F9"))


def test_f10_every_truncation_is_detected(good, tmp_path, faults):
    path, chance = tmp_path / "m", random.Random(2)
    header = 8 + int.from_bytes(good[:8], "little")
    some = (chance.randrange(header, len(good)) for _ in range(faults.repeats("F10")))
    lengths = [*range(0, header + 1, 1 if faults.full else 10), *some, len(good) - 1]
    for length in lengths:
        path.write_bytes(good[:length])
        with pytest.raises(ModelFileError, match=r"^model file is not valid: "):
            PsiVGPMIL.load(path)
    faults.add("F10", len(lengths))


def tensor(name, change):
    def apply(tensors, text):
        tensors[name] = change(tensors[name])

    return apply


def fact(name, value, *path):
    def apply(tensors, text):
        target = text["model"]
        for step in path:
            target = target[step]
        target[name] = value

    return apply


def header(name, value):
    def apply(tensors, text):
        text[name] = value

    return apply


def put(array, index, value):
    array[index] = value
    return array


NOT_PD = "is not the factor of a positive definite matrix."
OTHER_FACTOR = "the kernel's factor does not belong to kernel and inducing points."
SCHEMA = {
    "unknown tensor": (lambda t, h: t.update(extra=np.zeros(2)), 'tensor "extra" is unknown.'),
    "missing tensor": (lambda t, h: t.pop("posterior_mean"), 'tensor "posterior_mean" is missing.'),
    "missing points": (lambda t, h: t.pop("inducing_points"), 'tensor "inducing_points" is missing or not a matrix.'),
    "half a recalibration": (lambda t, h: t.pop("recalibration_log_odds"), "recalibration"),
    "other half": (lambda t, h: t.pop("recalibration_prob"), "recalibration"),
    "recalibrated to 4": (tensor("recalibration_prob", lambda a: a + 3.0), "has probabilities outside 0 and 1."),
    "recalibrated below 0": (tensor("recalibration_prob", lambda a: a - 1e-9), "has probabilities outside 0 and 1."),
    "recalibrated downwards": (tensor("recalibration_prob", lambda a: a[::-1]), "does not increase."),
    "unordered knots": (tensor("recalibration_log_odds", lambda a: a[::-1]), "does not increase."),
    "threshold 0": (fact("threshold", 0.0), "threshold must be a number between 0 and 1.0, got 0.0."),
    "instance threshold 1": (fact("instance_threshold", 1), "instance_threshold must be a number between 0 and 1.0"),
    "foreign factor": (tensor("kernel_factor", lambda a: np.eye(len(a))), OTHER_FACTOR),
    "factor, a bit": (tensor("kernel_factor", lambda a: put(a, (5, 2), a[5, 2] + 1e-6)), OTHER_FACTOR),
    "foreign points": (
        tensor("inducing_points", lambda a: a + 0.01 * np.arange(a.size).reshape(a.shape)),
        OTHER_FACTOR,
    ),
    "foreign kernel": (fact("variance", 2.0, "kernel"), OTHER_FACTOR),
    "foreign jitter": (fact("jitter", 1e-3), OTHER_FACTOR),
    "more positive bags than bags": (
        header("training_counts", {"bags": 3, "positive": 4, "instances": 9}),
        "the training counts exclude each other.",
    ),
    "dtype": (tensor("kernel_factor", lambda a: a.astype(np.float32)), "is float32, expected float64."),
    "integers": (tensor("posterior_mean", lambda a: a.astype(np.int64)), "is int64, expected float64."),
    "shape": (tensor("kernel_factor", lambda a: a[:, :-1]), 'tensor "kernel_factor" is (8, 7), expected (8, 8).'),
    "shape of S": (tensor("precision_factor", lambda a: a[:, 1:]), '"precision_factor" is (9, 8), expected (9, 9).'),
    "shape of m": (tensor("posterior_mean", lambda a: a[:-1]), 'tensor "posterior_mean" is (8,), expected (9,).'),
    "features": (tensor("feature_scale", lambda a: a[:-1]), 'tensor "feature_scale" is (2,), expected (3,).'),
    "nan": (tensor("posterior_mean", lambda a: put(a, 0, np.nan)), 'tensor "posterior_mean" has non-finite values.'),
    "inf": (tensor("inducing_points", lambda a: put(a, 0, np.inf)), 'tensor "inducing_points" has non-finite values.'),
    "not PD": (tensor("precision_factor", lambda a: put(a, (0, 0), -1.0)), f'tensor "precision_factor" {NOT_PD}'),
    "singular": (tensor("kernel_factor", lambda a: put(a, (3, 3), 0.0)), f'tensor "kernel_factor" {NOT_PD}'),
    "not triangular": (tensor("kernel_factor", lambda a: put(a, (0, 1), 1.0)), f'tensor "kernel_factor" {NOT_PD}'),
    "scale": (tensor("feature_scale", lambda a: -a), 'tensor "feature_scale" must be > 0.'),
    "v": (fact("variance", 0.0, "kernel"), "variance must be > 0, got 0.0."),
    "v nan": (fact("variance", float("nan"), "kernel"), "the parameters of kernel RBF are not numbers."),
    "v list": (fact("variance", [1.0, 2.0], "kernel"), "the parameters of kernel RBF are not numbers."),
    "v text": (fact("variance", "1", "kernel"), "the parameters of kernel RBF are not numbers."),
    "l": (fact("lengthscale", -1.0, "kernel"), "lengthscale must be > 0, got -1.0."),
    "l count": (fact("lengthscale", [1.0, 1.0], "kernel"), "kernel has 2 length scales but data has 3 features."),
    "l text": (fact("lengthscale", ["a", "b", "c"], "kernel"), ""),
    "kernel kind": (fact("kind", "os.system", "kernel"), "unknown kernel 'os.system'."),
    "kernel kind list": (fact("kind", ["RBF"], "kernel"), "unknown kernel ['RBF']."),
    "kernel key": (fact("power", 2.0, "kernel"), ""),
    "kernel private key": (
        lambda t, h: h["model"].update(kernel={"kind": "Matern32", "variance": 1.0, "_order": 9}),
        "",
    ),
    "kernel text": (fact("kernel", "RBF"), ""),
    "kernel sum": (fact("kernel", {"kind": "Sum", "left": {"kind": "Linear", "variance": 1.0}}), ""),
    "fact missing": (lambda t, h: h["model"].pop("seed"), "the model's facts are incomplete or unknown."),
    "fact unknown": (fact("code", "1"), "the model's facts are incomplete or unknown."),
    "facts text": (header("model", "none"), "the model's facts are incomplete or unknown."),
    "jitter": (fact("jitter", -1.0), "jitter must be a number"),
    "bias": (fact("bias", "3"), "bias must be a number"),
    "threshold": (fact("threshold", 1.5), "threshold must be a number between 0 and 1.0, got 1.5."),
    "threshold bool": (fact("threshold", True), "threshold must be a number"),
    "instance threshold": (fact("instance_threshold", float("inf")), "instance_threshold must be a number"),
    "residual": (fact("residual", "none"), "residual is 'none'."),
    "aggregate": (fact("aggregate", ["max"]), "aggregate is ['max']."),
    "dtype fact": (fact("dtype", "float16"), "dtype is 'float16'."),
    "expectation": (fact("expectation", None), "expectation is None."),
    "seed": (fact("seed", -1), "seed must be an integer >= 0, got -1."),
    "seed text": (fact("seed", "0"), "seed must be an integer >= 0, got 0."),
    "calibration": (fact("scale", -1.0, "calibration"), "the calibration is not increasing."),
    "calibration inf": (fact("spread", float("inf"), "calibration"), "the calibration is not increasing."),
    "calibration nan": (fact("shift", float("nan"), "calibration"), "the calibration is not increasing."),
    "calibration text": (fact("scale", "1", "calibration"), "the calibration is not increasing."),
    "calibration key": (fact("power", 1.0, "calibration"), ""),
    "context": (fact("context", "bag"), "context is 'bag'."),
    "context, features": (fact("context", True), "features are not those of instances in context."),
    "context, evidence": (fact("context_evidence", [1.0]), "the evidence for context is not two numbers."),
    "version": (header("format", 7), "made by version 7, this is version 6."),
    "names": (header("feature_names", ["a"]), "features need as many different names."),
    "names, kind": (header("feature_names", 3), "the names of the features are not text."),
    "one class": (header("classes", [1, 1]), "classes are not two different labels."),
    "classes, kinds": (header("classes", [0, "a"]), "classes are not two numbers or two texts."),
    "classes, nothing": (header("classes", [0, None]), "classes are not two numbers or two texts."),
    "header key": (header("hook", "x"), "header keys differ: hook."),
    "header key missing": (lambda t, h: h.pop("library"), "header keys differ: library."),
    "parameters": (header("parameters", [1]), "parameters are not a table."),
    "parameter list": (header("parameters", {"H": [1]}), "parameters: a list is not a parameter."),
    "parameter density": (
        header("parameters", {"density": {"kind": "GammaMixture", "alpha": 0.0}}),
        "parameters: gamma",
    ),
    "parameter density key": (
        header("parameters", {"density": {"kind": "GammaMixture", "gamma": 1.0}}),
        "parameters: ",
    ),
    "parameter density text": (header("parameters", {"density": {"kind": "StudentT", "nu": "3"}}), "parameters: "),
    "parameter kernel": (header("parameters", {"kernel": {"kind": "RBF", "variance": -1.0}}), "parameters: variance"),
    "parameter kernel key": (header("parameters", {"kernel": {"variance": 1.0}}), "parameters: "),
    "counts": (header("training_counts", {"bags": 1}), "the training counts are incomplete or unknown."),
    "counts negative": (
        header("training_counts", {"bags": -1, "positive": 0, "instances": 0}),
        "the training counts must",
    ),
    "fingerprint": (header("feature_fingerprint", 3), "library version and feature fingerprint must be text."),
    "bag_column": (header("bag_column", 3), "the column of the bags is not text."),
}


@pytest.mark.parametrize("case", SCHEMA)
def test_b37_schema(good, refused, case):
    change, message = SCHEMA[case]
    tensors, text = take_apart(good)
    change(tensors, text)
    assert message in refused(put_together(tensors, text), "model file: ")


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"format": "1"}', "{}", "{", "[" * 100_000], ids=lambda t: t[:12])
def test_b37_metadata_that_is_not_ours(good, refused, text):
    tensors, _ = take_apart(good)
    refused(put_together(tensors, text), "model file is not valid: ")


def test_b37_a_changed_value_with_the_old_checksum(good, refused):
    assert good.count(b'\\"threshold\\": 0.5') == 1
    refused(
        good.replace(b'\\"threshold\\": 0.5', b'\\"threshold\\": 0.1'), "model file: checksum differs: file is damaged"
    )


def entry(begin, end, shape=None, dtype="F64"):
    return {"dtype": dtype, "shape": [(end - begin) // 8] if shape is None else shape, "data_offsets": [begin, end]}


OURS = {"__metadata__": {"psimil": json.dumps({"format": 1}), "sha256": "0" * 64}}
CRAFTED = {
    "huge header length": (2**63).to_bytes(8, "little") + b"{}",
    "header above the limit": (2**22 + 1).to_bytes(8, "little") + b" " * (2**22 + 1),
    "header beyond the file": (100).to_bytes(8, "little") + b"{}",
    "overlap": raw_file(OURS | {"a": entry(0, 16), "b": entry(8, 24)}, b"\0" * 24),
    "hole": raw_file(OURS | {"a": entry(0, 8), "b": entry(16, 24)}, b"\0" * 24),
    "shape overflow": raw_file(OURS | {"a": entry(0, 8, [2**62, 2**62, 16])}, b"\0" * 8),
    "negative shape": raw_file(OURS | {"a": entry(0, 8, [-1])}, b"\0" * 8),
    "offsets reversed": raw_file(OURS | {"a": entry(8, 0)}, b"\0" * 8),
    "offsets beyond": raw_file(OURS | {"a": entry(0, 80)}, b"\0" * 8),
    "trailing bytes": raw_file(OURS | {"a": entry(0, 8)}, b"\0" * 9),
    "unknown dtype": raw_file(OURS | {"a": entry(0, 8, dtype="PY_OBJECT")}, b"\0" * 8),
    "deep nesting": raw_file(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "deep lists": raw_file(b"[" * 100_000),
    "no metadata": raw_file({"a": entry(0, 8)}, b"\0" * 8),
    "metadata of numbers": raw_file({"__metadata__": {"psimil": 3}}),
    "metadata list": raw_file({"__metadata__": []}),
    "a list": raw_file([1, 2]),
    "a number": raw_file(b"12"),
    "not UTF-8": raw_file(b'{"\xff": 1}'),
    "many tensors": raw_file(OURS | {f"t{i}": entry(0, 0) for i in range(50_000)}),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_b38_crafted_files(refused, case):
    started = time.process_time()  # of this process alone, however busy the machine is
    refused(CRAFTED[case], "model file is not valid: ")
    assert time.process_time() - started < 2.0


def test_every_refusal_is_an_input_error():
    assert issubclass(ModelFileError, InputError)
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize("version", [0, -1, True, "4", None])
def test_b37_no_file_has_such_a_format(good, refused, version):
    tensors, text = take_apart(good)
    assert refused(put_together(tensors, text | {"format": version})) == "model file is not valid: no format version."
