"""Files of torch.save: real ones are read, and none that would run anything."""

import os
import pickle
import zipfile

import numpy as np
import pytest

from psimil.data import torch_file
from psimil.data.torch_file import read_tensors
from psimil.foundations.errors import InputError

torch = pytest.importorskip("torch")
BOTH = ("features", "coords")
NUMBERS = torch.arange(12, dtype=torch.float32).reshape(4, 3) / 8


class Hostile:
    """Runs a command when it is unpickled."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "slide.pt"


def archive(path, program, packed=zipfile.ZIP_STORED, **members):
    """A file as torch.save writes it, with a program of ours."""
    with zipfile.ZipFile(path, "w", packed) as file:
        file.writestr("slide/data.pkl", program)
        for name, content in members.items():
            file.writestr(f"slide/data/{name.lstrip('_')}", content)


def program_of(path):
    with zipfile.ZipFile(path) as file:
        return file.read(next(name for name in file.namelist() if name.endswith("data.pkl")))


def refused(path, message="describes more than dense tensors of numbers"):
    with pytest.raises(InputError, match=message) as info:
        read_tensors(path, BOTH)
    assert "\n" not in str(info.value)
    assert str(path.parent) not in str(info.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
def test_real_tensors(path, dtype):
    tensor = NUMBERS.to(getattr(torch, dtype))
    torch.save(tensor, path)
    found = read_tensors(path, BOTH)["features"]
    assert found.dtype == ("float32" if dtype == "bfloat16" else dtype)
    np.testing.assert_array_equal(found, tensor.to(torch.float64).numpy())


def test_the_whole_range_of_bfloat16(path):
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    torch.save(every, path)
    np.testing.assert_array_equal(read_tensors(path, BOTH)["features"], every.float().numpy())


@pytest.mark.parametrize(
    "tensor",
    [
        NUMBERS[1:3],
        NUMBERS[None],
        NUMBERS[:0],
        NUMBERS.clone().requires_grad_(),
        NUMBERS[:, :1].contiguous(),
        NUMBERS[0],
    ],
    ids=["part of a storage", "leading axis", "empty", "with gradient", "one column", "one row"],
)
def test_tensors_of_other_shapes(path, tensor):
    torch.save(tensor, path)
    np.testing.assert_array_equal(read_tensors(path, BOTH)["features"], tensor.detach().numpy())


def test_a_dict_of_tensors(path):
    torch.save({"features": NUMBERS.half(), "coords": torch.ones(4, 2, dtype=torch.long), "more": NUMBERS}, path)
    found = read_tensors(path, BOTH)
    assert sorted(found) == ["coords", "features"]
    np.testing.assert_array_equal(found["features"], NUMBERS.numpy())
    assert found["coords"].tolist() == [[1, 1]] * 4
    torch.save({"features": NUMBERS}, path)
    assert list(read_tensors(path, BOTH)) == ["features"]


@pytest.mark.parametrize(
    "thing",
    [
        NUMBERS.T,
        NUMBERS.to_sparse(),
        NUMBERS > 0,
        NUMBERS.to(torch.complex64),
        [NUMBERS],
        {"features": NUMBERS, "slide": "name"},
        {1: NUMBERS},
        {},
        torch.nn.Parameter(NUMBERS),
        torch.nn.Linear(2, 2),
        NUMBERS.numpy(),
        "text",
        None,
    ],
    ids=str,
)
def test_everything_else_is_refused(path, thing):
    torch.save(thing, path)
    refused(path)


def test_other_protocols_and_the_old_format_are_refused(path):
    torch.save(NUMBERS, path, pickle_protocol=4)
    refused(path)
    torch.save(NUMBERS, path, _use_new_zipfile_serialization=False)
    refused(path, r"slide.pt is not a file of torch.save \(1.6 or newer\)")


def test_nothing_is_run(path, tmp_path):
    """The proof that these files are hostile is that torch, told to trust them, runs them."""
    mark = tmp_path / "was here"
    hostile = Hostile(f"touch '{mark}'")
    for thing in (hostile, {"features": NUMBERS, "coords": hostile}, [NUMBERS, hostile]):
        torch.save(thing, path)
        refused(path)
        assert not mark.exists()
    torch.load(path, weights_only=False)
    assert mark.exists()
    mark.unlink()
    torch.save(NUMBERS, path)
    honest = program_of(path)
    for program in (
        pickle.dumps(hostile, 2),
        pickle.dumps(hostile, 0),
        pickle.dumps(hostile, 5),
        honest[:-1] + pickle.dumps(hostile, 2)[2:],  # a tensor, and more
        pickle.dumps(hostile, 2)[:-1] + b"0" + honest[2:],  # run, dropped, and a tensor
        honest.replace(b"torch._utils\n_rebuild_tensor_v2", b"posix\nsystem"),
        honest.replace(b"torch\nFloatStorage", b"posix\nsystem"),
        honest.replace(b"collections\nOrderedDict", b"posix\nsystem"),
        honest.replace(b"collections\nOrderedDict", b"torch._utils\n_rebuild_tensor_v2"),
    ):
        archive(path, program, _0=bytes(48))
        refused(path)
        assert not mark.exists()


def test_the_rest_of_a_program_is_not_read(path):
    """Nor does the pickle machine read it: it stops at the same place."""
    torch.save(NUMBERS, path)
    archive(path, program_of(path) + pickle.dumps(Hostile("false")), _0=NUMBERS.numpy().tobytes())
    np.testing.assert_array_equal(read_tensors(path, BOTH)["features"], NUMBERS.numpy())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"X\x01\x00\x00\x000", b"X\x0a\x00\x00\x00../secret0"),  # the member of the storage
        (b"X\x03\x00\x00\x00cpu", b"X\x04\x00\x00\x00cuda"),
        (b"X\x07\x00\x00\x00storage", b"X\x07\x00\x00\x00storagf"),
        (b"K\x04K\x03\x86", b"J\xff\xff\xff\xffK\x03\x86"),  # a shape of -1 rows
        (b"K\x03K\x01\x86", b"K\x00K\x00\x86"),  # strides that repeat one number
        (b"\x89", b"\x88\x88"),  # one argument more
        (b"\x86", b"\x85"),
        (b"t", b"0"),
        (b"(", b""),
        (b"R", b"\x93"),
    ],
)
def test_programs_that_are_almost_right(path, old, new):
    torch.save(NUMBERS, path)
    program = program_of(path)
    assert old in program
    archive(path, program.replace(old, new), _0=NUMBERS.numpy().tobytes())
    refused(path)


def test_sizes_that_lie(path):
    torch.save(NUMBERS, path)
    program, content = program_of(path), NUMBERS.numpy().tobytes()
    for wrong in (content[:-1], content + b"0", b""):
        archive(path, program, _0=wrong)
        refused(path, r"a tensor of shape \(4, 3\) is more than the file holds, or less")
    many = b"K\x04K\x03\x86", b"J\xff\xff\xff\x7fK\x03\x86"  # two thousand million rows
    archive(path, program.replace(*many), _0=content)
    refused(path, "more than the file holds")
    archive(path, program.replace(b"K\x0ct", b"\x8a\x05\x00\x00\x00\x00\x02t"), _0=content)
    refused(path, "a tensor is above the limit of 16 GB")
    archive(path, program)
    refused(path, r"slide.pt lacks a part \(0\)")


def test_bombs(path, monkeypatch):
    torch.save(NUMBERS, path)
    program = program_of(path)
    archive(path, program, zipfile.ZIP_DEFLATED, _0=bytes(1 << 24))
    assert path.stat().st_size < 1 << 16
    refused(path, "a part is packed or above its limit")
    archive(path, b"\x80\x02" + b")" * torch_file.PROGRAM_BYTES)
    refused(path, "a part is packed or above its limit")
    for deep in (b")" + b"\x85" * 60_000, b"(" * 60_000, b"}" * 60_000):
        archive(path, b"\x80\x02" + deep + b".")
        refused(path)
    archive(path, b"\x80\x02" + b"X\x07\x00\x00\x00storage)" + b"\x85" * 60_000 + b"\x86Q.")  # nothing is hashed
    refused(path)


def test_damaged_files(path):
    torch.save(NUMBERS, path)
    good = path.read_bytes()
    for length in range(0, len(good), 7):
        path.write_bytes(good[:length])
        refused(path, "slide.pt")
    rng = np.random.default_rng(0)
    for _ in range(300):
        flipped = bytearray(good)
        flipped[rng.integers(len(good))] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        try:
            found = read_tensors(path, BOTH)["features"]
        except InputError:
            continue
        np.testing.assert_array_equal(found, NUMBERS.numpy())
    archive(path, b"\x80\x02.")
    refused(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other", "")
    refused(path, "is a zip archive but not one of torch.save")


def test_big_endian_files(path):
    torch.save(NUMBERS, path)
    program = program_of(path)
    archive(path, program, _0=NUMBERS.numpy().astype(">f4").tobytes())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("slide/byteorder", "big")
    np.testing.assert_array_equal(read_tensors(path, BOTH)["features"], NUMBERS.numpy())
