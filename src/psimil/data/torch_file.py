"""Tensors in files of ``torch.save``, as CLAM writes features: what they say is read, and nothing that they say is run.

Such a file is a zip archive: data.pkl is a program of the pickle machine that makes the tensors, and each of the other
members holds the numbers of a storage. Here the program is only looked at, instruction by instruction. It is refused
unless it does nothing but describe a tensor, or a dict of tensors by name.
"""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from psimil.data.chunks import explained
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError

MAX_BYTES = 16 << 30
PROGRAM_BYTES = 1 << 16  # a tensor is described in fewer than 200
KIND = "tensors of torch.save"
REBUILD, EMPTY_MAPPING = "torch._utils _rebuild_tensor_v2", "collections OrderedDict"
STORAGES = {
    "torch BFloat16Storage": "u2", "torch HalfStorage": "f2", "torch FloatStorage": "f4", "torch DoubleStorage": "f8",
    "torch IntStorage": "i4", "torch LongStorage": "i8",
}  # fmt: skip
CONSTANTS = {"BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"}
STORE, FETCH = {"BINPUT", "LONG_BINPUT"}, {"BINGET", "LONG_BINGET"}


class _Name(str):
    """What a program calls by its name; it stays a name."""


class _Mark:
    """Where the items of a tuple or of a dict begin."""


class _Storage(NamedTuple):
    """Numbers of one member: how they are written, which member, how many there are."""

    kind: _Name
    member: str
    length: int


class _Tensor(NamedTuple):
    """A part of a storage, by rows."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]


def read_tensors(path: Path, wanted: Collection[str]) -> dict[str, Array]:
    r"""Tensors of a file of ``torch.save``; torch is not needed.

    Parameters
    ----------
    path : one tensor, which is called "features", or a dict of tensors by name; bfloat16 is read as float32.
    wanted : names of those to read, if they are there.

    Raises
    ------
    InputError
        When the file is damaged, or is a program that does more than describe dense tensors on the CPU.

    Examples
    --------
    >>> path = Path("slide.pt")
    >>> _ = path.write_bytes(b"cos\nsystem\n(S'echo hello'\ntR.")
    >>> read_tensors(path, ["features"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: slide.pt is not a file of torch.save (1.6 or newer). Save the tensor again.
    """
    with explained(path, KIND):
        if not zipfile.is_zipfile(path):
            raise InputError(f"{path.name} is not a file of torch.save (1.6 or newer). Save the tensor again.")
    with explained(path, KIND), zipfile.ZipFile(path) as archive:
        root = _root(archive, path.name)
        described = _described(_member(archive, f"{root}data.pkl", PROGRAM_BYTES, path.name), path.name)
        order = ">" if _byte_order(archive, root, path.name) == b"big" else "<"
        named = {"features": described} if isinstance(described, _Tensor) else described
        return {
            key: _numbers(archive, root, order, tensor, path.name) for key, tensor in named.items() if key in wanted
        }


def _root(archive: zipfile.ZipFile, name: str) -> str:
    roots = [one.removesuffix("data.pkl") for one in archive.namelist() if one.endswith("/data.pkl")]
    if len(roots) != 1:
        raise InputError(f"{name} is a zip archive but not one of torch.save.")
    return roots[0]


def _member(archive: zipfile.ZipFile, member: str, limit: int, name: str) -> bytes:
    """The bytes of a member, stored as they are: torch packs none, and one that is packed could be of any size."""
    try:
        info = archive.getinfo(member)
    except KeyError:
        raise InputError(f"{name} lacks a part ({member.rpartition('/')[2]}). Save the tensor again.") from None
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.file_size > limit:
        raise InputError(f"{name}: a part is packed or above its limit, which torch.save does not write.")
    return archive.read(info)


def _byte_order(archive: zipfile.ZipFile, root: str, name: str) -> bytes:
    member = f"{root}byteorder"
    return _member(archive, member, 16, name) if member in archive.namelist() else b"little"


def _numbers(archive: zipfile.ZipFile, root: str, order: str, tensor: _Tensor, name: str) -> Array:
    (kind, member, count), offset, shape = tensor
    dtype = np.dtype(order + STORAGES[kind])
    if count * dtype.itemsize > MAX_BYTES:
        raise InputError(f"{name}: a tensor is above the limit of {MAX_BYTES >> 30} GB.")
    content = _member(archive, f"{root}data/{member}", MAX_BYTES, name)
    stop = offset + math.prod(shape)
    if len(content) != count * dtype.itemsize or stop > count:
        raise InputError(f"{name}: a tensor of shape {shape} is more than the file holds, or less.")
    numbers = np.frombuffer(content, dtype)[offset:stop].reshape(shape)
    if kind != "torch BFloat16Storage":
        return numbers
    return (numbers.astype(np.uint32) << 16).view(np.float32)  # the upper half of a float32


def _described(program: bytes, name: str) -> _Tensor | dict[str, _Tensor]:
    """What a program describes."""
    stack, memo = list[Any](), dict[int, Any]()
    try:
        for instruction, argument, _ in pickletools.genops(program):
            if instruction.name == "STOP":
                break
            _step(instruction.name, argument, stack, memo)
        (described,) = stack
    except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise _refused(name) from error
    tensors = list(described.values()) if isinstance(described, dict) else [described]
    if not tensors or not all(isinstance(tensor, _Tensor) for tensor in tensors):
        raise _refused(name)
    return described if isinstance(described, dict) else tensors[0]


def _step(instruction: str, argument: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """One instruction: it only moves constants, names, tuples and dicts about. ValueError where it would do more."""
    if instruction in CONSTANTS:
        stack.append(argument)
    elif instruction in STORE:
        memo[argument] = stack[-1]
    elif instruction in FETCH:
        stack.append(memo[argument])
    elif instruction == "GLOBAL":
        if argument not in STORAGES and argument not in (REBUILD, EMPTY_MAPPING):
            raise ValueError(argument)
        stack.append(_Name(argument))
    elif instruction == "SETITEMS":
        items = _since_mark(stack)
        stack[-1].update(_by_name(items))
    elif instruction == "SETITEM":
        value, key = stack.pop(), stack.pop()
        stack[-1].update(_by_name([key, value]))
    elif instruction == "BINPERSID":
        stack.append(_storage(*stack.pop()))
    elif instruction == "REDUCE":
        arguments, called = stack.pop(), stack.pop()
        stack.append(_rebuilt(called, arguments))
    elif instruction != "PROTO":
        stack.append(MADE[instruction](stack))


def _since_mark(stack: list[Any]) -> list[Any]:
    start = max(place for place, item in enumerate(stack) if isinstance(item, _Mark))
    items = stack[start + 1 :]
    del stack[start:]
    return items


def _last(count: int) -> Callable[[list[Any]], tuple[Any, ...]]:
    """Takes so many items from the stack, as a tuple."""
    return lambda stack: tuple(reversed([stack.pop() for _ in range(count)]))


MADE: dict[str, Callable[[list[Any]], Any]] = {
    "MARK": lambda stack: _Mark(),
    "NEWTRUE": lambda stack: True,
    "NEWFALSE": lambda stack: False,
    "EMPTY_DICT": lambda stack: {},
    "EMPTY_TUPLE": lambda stack: (),
    "TUPLE": lambda stack: tuple(_since_mark(stack)),
    "TUPLE1": _last(1),
    "TUPLE2": _last(2),
    "TUPLE3": _last(3),
}


def _by_name(items: list[Any]) -> dict[str, _Tensor]:
    keys, values = items[::2], items[1::2]
    if not all(type(key) is str for key in keys) or not all(isinstance(value, _Tensor) for value in values):
        raise ValueError("a dict of something else")
    return dict(zip(keys, values, strict=True))


def _storage(word: Any, kind: Any, member: Any, place: Any, count: Any) -> _Storage:
    if word != "storage" or not isinstance(kind, _Name) or kind not in STORAGES or place != "cpu":
        raise ValueError("no storage on the CPU")
    if type(member) is not str or not member.isdecimal() or not _whole(count):
        raise ValueError("no member of the archive")
    return _Storage(kind, member, count)


def _rebuilt(called: Any, arguments: Any) -> _Tensor | tuple[()]:
    if not isinstance(called, _Name) or not isinstance(arguments, tuple):
        raise ValueError("a call of something else")
    if called == EMPTY_MAPPING and arguments == ():
        return ()
    storage, offset, shape, strides, _, hooks = arguments
    if called != REBUILD or not isinstance(storage, _Storage) or hooks != () or not _whole(offset, *shape, *strides):
        raise ValueError("no dense tensor")
    steps = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    if len(strides) != len(shape) or any(a != b for n, a, b in zip(shape, strides, steps, strict=True) if n > 1):
        raise ValueError("not contiguous")
    return _Tensor(storage, offset, shape)


def _whole(*values: Any) -> bool:
    return all(type(value) is int and 0 <= value <= MAX_BYTES for value in values)


def _refused(name: str) -> InputError:
    return InputError(
        f"{name} is a Python pickle that describes more than dense tensors of numbers; such files can run code and are "
        "not loaded. Save one with: torch.save(features.cpu().contiguous(), path)"
    )
