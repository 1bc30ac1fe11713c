"""Exit codes, the one line that an error leaves on stderr, and memory that is short before the work begins."""

from __future__ import annotations

import errno
import mmap
import resource
import sys
import traceback
from typing import Any

import typer

USAGE, DATA, MISSING, BUG, OUTPUT, TERMINATED = 2, 65, 66, 70, 74, 143
BLAS = 192 << 20  # bytes: the buffers of the two BLAS that NumPy and SciPy bring, and some room
NOTE = "Research use only, not a medical device."

_state = {"debug": False}


class UsageProblem(typer.TyperException):
    """The command line or the config file asks for something that does not exist."""

    exit_code = USAGE


def set_debug(value: bool) -> bool:
    """Callback of ``--debug``: show tracebacks from here on."""
    _state["debug"] = value
    return value


def printable(text: object) -> str:
    r"""The text on one line, with everything that could steer a terminal escaped.

    Examples
    --------
    >>> printable("a\nb\x1b[31m")
    'a b\\x1b[31m'
    """
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in line)


def report(error: Exception) -> int:
    """Write the error as one line (after its traceback under ``--debug``) and return the exit code."""
    if _state["debug"]:
        traceback.print_exception(error)
    code, message = exit_code(error)
    typer.echo(f"error: {printable(message)}", err=True)
    return code


def exit_code(error: Exception) -> tuple[int, str]:
    """The exit code of an error and its message.

    Examples
    --------
    >>> exit_code(OSError(28, "No space left on device"))
    (74, 'No space left on device.')
    >>> exit_code(ImportError("libtorch.so: failed to map segment from shared object"))[1][:14]
    'out of memory.'
    >>> exit_code(KeyError("x"))[0]
    70
    """
    if isinstance(error, typer.TyperException):
        message = error.format_message()
        missing: Any = getattr(error, "param", None) if "Missing" in message else None
        meaning = getattr(missing, "help", None)  # says what to give
        return USAGE, f"{message} {meaning}" if meaning else message
    known: Any = sys.modules.get("psimil.foundations.errors")  # not loaded: not one of ours
    if known is not None and isinstance(error, known.PsimilError):
        codes = {known.MissingFile: MISSING, known.OutputError: OUTPUT, known.ServerFault: OUTPUT}
        return next((code for kind, code in codes.items() if isinstance(error, kind)), DATA), str(error)
    if _memory_is_short(error):
        return BUG, "out of memory. A fit needs less with --chunk-size, --dtype float32 or fewer inducing points."
    if isinstance(error, OSError):
        where = f" ({error.filename})" if error.filename else ""
        return OUTPUT, f"{error.strerror or error}{where}."
    kind = type(error).__name__
    return (
        BUG,
        f"this is a bug in psimil: {kind}: {error}. Please report it with the output of the same command --debug.",
    )


def _memory_is_short(error: Exception) -> bool:
    """Whether memory ran out; libraries that cannot be loaded and torch say so in words only."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    if isinstance(error, SystemError):  # the interpreter has lost a MemoryError on its way
        return _limited() and "without setting an exception" in str(error)
    words = ("cannot allocate memory", "can't allocate memory", "failed to map segment")
    return isinstance(error, ImportError | OSError | RuntimeError) and any(w in str(error).lower() for w in words)


def _limited() -> bool:
    """Whether the memory of this process has a limit."""
    kinds = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(kind)[0] != resource.RLIM_INFINITY for kind in kinds)


def check_memory() -> None:
    """Take the buffers of BLAS now, or refuse to compute.

    With a limit (``ulimit -v``) that leaves less than a buffer, OpenBLAS asks for ever, and hears no signal.

    Raises
    ------
    OSError
        When the limit leaves too little; the command line calls it out of memory.
    """
    if not _limited():
        return
    mmap.mmap(-1, BLAS).close()
    import numpy as np
    from scipy.linalg import lapack

    lapack.dtrtri(np.eye(300) @ np.eye(300))
