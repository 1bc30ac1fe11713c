"""Opaque ids: identifiers of patients and studies become keyed hashes before they reach any output."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from psimil.foundations.errors import InputError, OutputError

KEY_BYTES = 32
KEY_FILE = "PSIMIL_ID_KEY_FILE"
PURPOSE = b"psimil-id"  # keeps these hashes apart from any other use of the same key


@dataclass(frozen=True)
class Hasher:
    """A keyed hash of identifiers: 16 hex digits that only the owner of the key can connect with the identifier.

    Parameters
    ----------
    key : 32 secret bytes; the same key gives the same ids.

    Examples
    --------
    >>> hasher = Hasher(bytes(32))
    >>> hasher("1.2.3"), hasher("1.2.3") == hasher("1.2.4")
    ('81280d9ba787a81e', False)
    >>> hasher
    Hasher()
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key, bytes) or len(self.key) != KEY_BYTES:
            raise InputError(f"the key of a Hasher must be {KEY_BYTES} bytes; make one with secrets.token_bytes(32).")

    def __call__(self, identifier: str) -> str:
        """Opaque id of an identifier."""
        content = identifier.encode("utf-8", "surrogateescape")
        return hashlib.blake2b(content, digest_size=8, key=self.key, person=PURPOSE).hexdigest()

    @classmethod
    def of_user(cls, path: str | Path | None = None) -> Hasher:
        """Hasher with the key of this user, which is made on first use.

        Parameters
        ----------
        path : key file; None takes that of :func:`key_path`.

        Raises
        ------
        InputError
            When the file is not a key, or others can read it.
        OutputError
            When there is no key and none can be written.

        Examples
        --------
        >>> path = Path("id.key")
        >>> Hasher.of_user(path)("1.2.3") == Hasher.of_user(path)("1.2.3"), oct(path.stat().st_mode & 0o777)
        (True, '0o600')
        """
        path = key_path() if path is None else Path(path)
        try:
            return cls(_read_key(path))
        except FileNotFoundError:
            _create_key(path)
            return cls(_read_key(path))


def key_path() -> Path:
    """Where the key of this user is: ``PSIMIL_ID_KEY_FILE``, or ``psimil/id.key`` in the user's data folder.

    Examples
    --------
    >>> key_path().suffix
    '.key'
    """
    if named := os.environ.get(KEY_FILE):
        return Path(named)
    folder = os.environ.get("XDG_DATA_HOME", "")
    data = Path(folder) if os.path.isabs(folder) else Path.home() / ".local" / "share"
    return data / "psimil" / "id.key"


def _read_key(path: Path) -> bytes:
    """The key, after a look at the very file that was opened; a pipe in its place is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"key file {path} cannot be read: {os.strerror(error.errno or 0).lower()}.") from error
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"key file {path} is not a regular file; remove it, and a key is made on next use.")
        if mode & 0o077:
            raise InputError(f"key file {path} can be read by others; protect it with: chmod 600 '{path}'.")
        key = os.read(descriptor, KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        raise InputError(
            f"key file {path} is not a key of {KEY_BYTES} bytes; restore it from a backup, "
            "or remove it to have a new one made (all ids then change)."
        )
    return key


def _create_key(path: Path) -> None:
    """A complete key file under its name in one step; of two processes at once, the first one's key stays."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(secrets.token_bytes(KEY_BYTES))
                stream.flush()
                os.fsync(descriptor)
            with suppress(FileExistsError):
                os.link(temporary, path)  # unlike a rename, this never replaces the key of another process
        finally:
            temporary.unlink()
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise OutputError(f"cannot write key file {path}: {reason}. Name another with {KEY_FILE}.") from error
