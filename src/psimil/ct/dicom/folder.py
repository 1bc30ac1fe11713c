"""Files of a folder that may be slices, and how large they may be; what else it holds is counted, never opened."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile

NIFTI, NIFTI_ENDINGS = "NIfTI", (".nii", ".nii.gz")
OTHER_FILES = frozenset(
    ".csv .gif .gz .htm .html .jpeg .jpg .json .log .md .pdf .png .py .tif .tsv .txt .xml .yaml .yml .zip".split()
)


@dataclass(frozen=True)
class Limits:
    """Largest files and images that are read; what is above is refused before anything of it is decoded.

    Parameters
    ----------
    side : rows and columns of an image.
    frames : of one multi-frame file.
    file_bytes : of a file with one image, and of a deflated file after inflation.
    multiframe_bytes : of a multi-frame file.
    scan_bytes : of all pixels of one scan.

    Examples
    --------
    >>> Limits().side, Limits(side=1024).side
    (4096, 1024)
    """

    side: int = 4096
    frames: int = 2048
    file_bytes: int = 64 << 20
    multiframe_bytes: int = 1 << 30
    scan_bytes: int = 4 << 30


LIMITS = Limits()


@dataclass(frozen=True)
class SliceFile:
    """A regular file.

    Parameters
    ----------
    path : never shown.
    number : place among the files of its directory that are not hidden, by name, from 1.
    size : bytes.
    folder : place of the directory among those with files, from 1.
    """

    path: Path = field(repr=False)
    number: int
    size: int
    folder: int = 1

    @property
    def words(self) -> str:
        """Name of the file in messages; its own may tell who somebody is."""
        return f"file {self.number}"


@dataclass(frozen=True)
class Listing:
    """Files that may be slices, and how many others were skipped, by kind.

    Examples
    --------
    >>> Listing((), {"hidden": 2, "empty": 1}).words
    'skipped 3 files that are not slices (2 hidden, 1 empty)'
    """

    files: tuple[SliceFile, ...] = field(repr=False)
    skipped: Mapping[str, int]

    @property
    def words(self) -> str:
        """The skipped in one line; empty when nothing was."""
        n = sum(self.skipped.values())
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.skipped.items())
        what = "1 file that is not a slice" if n == 1 else f"{n} files that are not slices"
        return f"skipped {what} ({kinds})" if n else ""


def list_folder(directory: str | Path) -> Listing:
    """Files below a directory, by the names of their directories and their own.

    Skipped are hidden files and directories, DICOMDIR, empty files, links (unless to a file inside the directory),
    pipes, sockets, devices, and files whose ending says that they are something else.

    Parameters
    ----------
    directory : the folder.

    Raises
    ------
    MissingFile, InputError
        When it is not there, or is no folder.

    Examples
    --------
    >>> _ = Path("a").write_bytes(b"image"), Path(".b").write_bytes(b"hidden")
    >>> list_folder(".")
    Listing(skipped=mappingproxy({'hidden': 1}))
    """
    root = Path(os.path.realpath(as_path(directory, "directory")))
    if not root.exists():
        raise MissingFile("the folder was not found. Check its name.")
    if not root.is_dir():
        raise InputError("a folder was expected, but this is a file.")
    files: list[SliceFile] = []
    skipped: Counter[str] = Counter()
    seen: set[tuple[int, int]] = set()
    folder = 1
    for parent, directories, names in os.walk(root, onerror=lambda _: skipped.update(["unreadable"])):
        skipped["links"] += sum(os.path.islink(os.path.join(parent, name)) for name in directories)
        skipped["hidden"] += sum(name.startswith(".") for name in directories)
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        number, before = 0, len(files)
        for name in sorted(names):
            number += not name.startswith(".")
            path, kind, status = _examined(Path(parent) / name, root)
            if status is None or (status.st_dev, status.st_ino) in seen:
                skipped[kind or "links"] += 1
                continue
            seen.add((status.st_dev, status.st_ino))
            files.append(SliceFile(path, number, status.st_size, folder))
        folder += len(files) > before
    return Listing(tuple(files), MappingProxyType({kind: n for kind, n in sorted(skipped.items()) if n}))


def open_file(path: Path) -> int:
    """Descriptor of a regular file; links and pipes that took its place meanwhile are not opened.

    Examples
    --------
    >>> Path("a").touch()
    >>> os.close(open_file(Path("a")))
    >>> open_file(Path("/dev/null"))
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot be opened ({os.strerror(error.errno or 0).lower()}).") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError("not a regular file.")
    return descriptor


def _examined(path: Path, root: Path) -> tuple[Path, str, os.stat_result | None]:
    """The file itself, why it is skipped, and its status when it is not."""
    kind = ""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            path = Path(os.path.realpath(path))
            if not path.is_relative_to(root):
                return path, "links", None
            status = os.lstat(path)
    except OSError:
        return path, "unreadable", None
    if path.name.startswith("."):
        kind = "hidden"
    elif not stat.S_ISREG(status.st_mode):
        kind = "pipes, sockets or devices"
    elif path.name.upper() == "DICOMDIR":
        kind = "DICOMDIR"
    elif status.st_size == 0:
        kind = "empty"
    elif path.name.lower().endswith(NIFTI_ENDINGS):
        kind = NIFTI
    elif path.suffix.lower() in OTHER_FILES:
        kind = "of another type"
    return path, kind, None if kind else status
