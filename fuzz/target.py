"""What is fuzzed: a function of bytes, inputs to start from, and changes that keep the format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random

NAMES = ("dicom", "models", "tables", "stores", "urls")
MAX_BYTES = 1 << 16
CORPUS = Path(__file__).with_name("corpus")


@dataclass(frozen=True)
class Target:
    """One door through which foreign bytes enter.

    Parameters
    ----------
    name : of the target.
    run : takes an input and says in a word what came of it; it may raise an ``InputError``, and nothing else.
    seeds : valid and invalid inputs, made in code.
    change : another input of the same format; checksums are made right again.
    words : bytes that mean something in the format.
    bombs : inputs that are larger than the mutator makes them, each tried once, by name.
    close : called at the end.
    """

    name: str
    run: Callable[[bytes], str]
    seeds: Callable[[], Sequence[bytes]]
    change: Callable[[bytes, Random], bytes]
    words: tuple[bytes, ...]
    bombs: Callable[[], dict[str, bytes]] = dict
    close: Callable[[], object] = dict


def target_named(name: str, folder: Path) -> Target:
    """The target of this name; it may write to ``folder``, which should be in memory."""
    found: Target = import_module(f"target_{name}").target(folder)
    return found


def kept_inputs(name: str) -> list[bytes]:
    """The inputs in the corpus: those that once failed, and those that reach far."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*")) if not path.name.startswith(".")]
