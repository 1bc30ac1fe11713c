"""The bytes of a file: read whole, inflated when gzipped; written whole or not at all."""

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO

from psimil.files.atomic import atomic_write
from psimil.foundations.errors import InputError, MissingFile, OutputError

GZIP_MAGIC = b"\x1f\x8b"


def read_content(path: Path, limit: int) -> bytes:
    """Content of a file, plain or gzipped; gzip is recognised by its first bytes, not by the name.

    Parameters
    ----------
    path : file to read.
    limit : largest content that is accepted, in bytes.

    Returns
    -------
    content : at most ``limit`` bytes.

    Raises
    ------
    MissingFile
        When there is no such file.
    InputError
        When the file cannot be read or inflated, or holds more than ``limit`` bytes.

    Examples
    --------
    >>> path = Path("greeting.gz")
    >>> _ = path.write_bytes(gzip.compress(b"hello"))
    >>> read_content(path, 100)
    b'hello'
    """
    try:
        with path.open("rb") as stream:
            return inflated(stream, limit, path.name)
    except FileNotFoundError:
        raise MissingFile(f"{path.name} was not found. Check the path.") from None
    except OSError as error:
        raise InputError(f"{path.name} cannot be read: {error}.") from error


def inflated(stream: BinaryIO, limit: int, name: str) -> bytes:
    """Content of a binary stream that can seek, see :func:`read_content`.

    Examples
    --------
    >>> import io
    >>> inflated(io.BytesIO(b"hello"), 100, "greeting")
    b'hello'
    """
    zipped = stream.read(2) == GZIP_MAGIC
    stream.seek(0)
    try:
        content = (gzip.GzipFile(fileobj=stream) if zipped else stream).read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name} cannot be read: {error}.") from error
    if len(content) > limit:
        size = f"{limit >> 20} MB" if limit >= 1 << 20 else f"{limit} bytes"
        raise InputError(f"{name}: content is above the limit of {size}.")
    return content


def write_content(path: Path, content: bytes) -> None:
    """Write a file atomically, see :func:`psimil.files.atomic.atomic_write`, and make its folder when it is not there.

    Examples
    --------
    >>> path = Path("new") / "greeting"
    >>> write_content(path, b"hello")
    >>> path.read_text()
    'hello'
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {path.parent}: {(error.strerror or str(error)).lower()}.") from error
    atomic_write(path, lambda stream: stream.write(content))
