"""The folder that a store is written in: one writer at a time, and the old store stays until the new is complete."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psimil.files.atomic import REASONS, atomic_write, flush_folder
from psimil.files.paths import as_path, lock_folder, take_folder
from psimil.foundations.errors import InputError, OutputError
from psimil.store.manifest import MANIFEST, SEGMENT, Manifest, is_store, read_manifest


class Transaction:
    """Work on a store, which its readers see when it is committed.

    A new store is written into a hidden folder beside its own, which takes its name in the end. A store that is there
    gets a further segment, which counts from the moment its manifest is replaced. Segments and folders that a killed
    writer left are removed by the next one.

    Parameters
    ----------
    path : folder of the store.
    append, overwrite : what may happen to a store that is there.

    Attributes
    ----------
    earlier : manifest of the store that is there, or None; also None when it is overwritten and cannot be read.

    Examples
    --------
    >>> work = Transaction("store")
    >>> segment = work.new_segment().name
    >>> work.close()  # without a commit nothing is there
    >>> segment, list(Path().iterdir())
    ('part-0001', [])
    """

    def __init__(self, path: str | Path, *, append: bool = False, overwrite: bool = False) -> None:
        if append and overwrite:
            raise InputError("a store is either appended to or overwritten. Choose one.")
        self.path, self._name = Path(os.path.realpath(as_path(path))), Path(path).name
        self.earlier = self._earlier(append, overwrite)
        self._fresh = not is_store(self.path)
        with self.explained():
            digest = hashlib.sha256(os.fsencode(self.path.name)).hexdigest()[:8]
            self._root = self.path.parent / f".psimil-{digest}.tmp" if self._fresh else self.path
            self._lock = take_folder(self._root) if self._fresh else lock_folder(self._root)
            if self._lock is None:
                raise OutputError(
                    f"cannot write {self._name}: another process is writing to it. Wait until it is done."
                )
        if not self._fresh:
            try:
                self.earlier = self._earlier(append, overwrite)  # nobody else can change it now
            except BaseException:
                self.close()
                raise
            if self.earlier is not None:
                _remove_unnamed(self._root, self.earlier)

    def new_segment(self) -> Path:
        """Where the next segment goes."""
        return self._root / _segment_name(max(_segment_numbers(self._root), default=0) + 1)

    def commit(self, manifest: Manifest) -> None:
        """Make the store what the manifest says."""
        content = manifest.encoded()
        with self.explained():
            flush_folder(self._root / manifest.parts[-1].name)
            atomic_write(self._root / MANIFEST, lambda stream: stream.write(content))
            if self._fresh:
                os.replace(self._root, self.path)
                self._root = self.path
                flush_folder(self.path.parent)
        _remove_unnamed(self._root, manifest)

    def close(self) -> None:
        """Let others write; what was not committed of a new store goes."""
        if self._root != self.path:
            shutil.rmtree(self._root, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn failures of the file system into an OutputError that says whether a store was kept."""
        try:
            yield
        except OutputError:
            raise
        except OSError as error:
            reason = REASONS.get(error.errno or 0, (error.strerror or str(error)).lower())
            kept = " (old store kept)" if is_store(self.path) else ""
            raise OutputError(f"cannot write {self._name}: {reason}{kept}.") from error

    def _earlier(self, append: bool, overwrite: bool) -> Manifest | None:
        """The manifest of the store that is there, if it may be touched."""
        if append:
            return read_manifest(self.path)
        if not self.path.exists():
            return None
        if not self.path.is_dir():
            raise OutputError(f"cannot write {self._name}: it is not a directory.")
        if not is_store(self.path):
            if any(self.path.iterdir()):
                raise OutputError(f"cannot write {self._name}: it holds files that are not of a store. Name another.")
            return None
        if not overwrite:
            raise OutputError(
                f"cannot write {self._name}: a store is there already. Append to it, overwrite it or name another."
            )
        try:
            return read_manifest(self.path)
        except InputError:
            return None


def _remove_unnamed(root: Path, manifest: Manifest) -> None:
    """Delete parts that the manifest does not name: of killed writers, or replaced."""
    named = {segment.name for segment in manifest.parts}
    for number in _segment_numbers(root):
        if _segment_name(number) not in named:
            shutil.rmtree(root / _segment_name(number), ignore_errors=True)


def _segment_name(number: int) -> str:
    return f"part-{number:04d}"


def _segment_numbers(root: Path) -> list[int]:
    """Of all segments in a folder, named by its manifest or not."""
    return [int(path.name[5:]) for path in root.iterdir() if SEGMENT.fullmatch(path.name)]
