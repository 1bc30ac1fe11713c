"""Data files that are not embedded: where they are found, whether they are the right ones, and how to get them."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path

from psimil.datasets.catalogue import PUBLISHED, Published
from psimil.datasets.content import GZIP_MAGIC, inflated, read_content, write_content
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile

FILES: Mapping[str, Published] = PUBLISHED
MAX_BYTES = 1 << 30


def locate(directory: str | Path, name: str) -> Path:
    """Path of a published file, plain or gzipped, in a directory or in its sub-folder for the dataset.

    Parameters
    ----------
    directory : folder of the files, or the folder above ``mnist/`` and ``ich/``.
    name : as in ``PUBLISHED``, without ``.gz``.

    Returns
    -------
    path : the first of ``name`` and ``name + ".gz"`` that exists.

    Raises
    ------
    MissingFile
        When neither exists.

    Examples
    --------
    >>> locate("no-such-folder", "rsna_f8_cnn0.csv")
    Traceback (most recent call last):
    psimil.foundations.errors.MissingFile: rsna_f8_cnn0.csv (or .csv.gz) was not found in no-such-folder ...
    """
    folder = _published(name).folder
    directory = as_path(directory, "directory")
    for parent in (directory, directory / folder):
        for path in (parent / name, parent / f"{name}.gz"):
            if path.is_file():
                return path
    ending = Path(name).suffix
    raise MissingFile(
        f"{name} (or {ending}.gz) was not found in {directory} or its sub-folder {folder}. "
        "Name the folder that holds it, or download it with psimil.datasets.fetch."
    )


def verify(path: str | Path, name: str) -> None:
    """Check that a file holds the published content, byte for byte.

    Parameters
    ----------
    path : file to check, plain or gzipped.
    name : as in ``PUBLISHED``.

    Raises
    ------
    InputError
        When it holds something else.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "rsna_f8_cnn0.csv"
    ...     _ = path.write_text("feature_0")
    ...     verify(path, "rsna_f8_cnn0.csv")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: rsna_f8_cnn0.csv: content is not the published file (SHA-256 ...
    """
    known, path = _published(name), as_path(path)
    _check(read_content(path, MAX_BYTES), known, path.name)


def fetch(directory: str | Path, name: str) -> Path:
    """Path of a published file, downloaded when it is absent; its content is checked either way.

    Parameters
    ----------
    directory : data folder; the download goes to its sub-folder for the dataset, unless it is that folder.
    name : as in ``PUBLISHED``.

    Returns
    -------
    path : the file, which appears only after its content was checked.

    Raises
    ------
    MissingFile
        When it is absent and cannot be downloaded.
    InputError
        When the file or the download does not hold the published content.

    Examples
    --------
    >>> fetch("data", "t10k-labels-idx1-ubyte")  # doctest: +SKIP
    PosixPath('data/mnist/t10k-labels-idx1-ubyte.gz')
    >>> fetch("data", "mnist.csv")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: mnist.csv is not a published file that is known. ...
    """
    known, directory = _published(name), as_path(directory, "directory")
    try:
        path = locate(directory, name)
    except MissingFile:
        folder = directory if directory.name == known.folder else directory / known.folder
        return _download(folder, name, known)
    verify(path, name)
    return path


def _download(folder: Path, name: str, known: Published) -> Path:
    from psimil.datasets.download import download

    limit = known.size + known.size // 100 + 1024  # a gzip file can be a little longer than its content
    try:
        received = download(known.url, limit)
    except MissingFile as error:
        raise MissingFile(
            f"{name} is not in {folder} and could not be downloaded: {error} Check the network, or download "
            f"{known.url} by hand and put it there as {name}."
        ) from error
    _check(inflated(io.BytesIO(received), limit, f"download of {name}"), known, f"download of {name}")
    path = folder / (f"{name}.gz" if received.startswith(GZIP_MAGIC) else name)
    write_content(path, received)
    return path


def _published(name: str) -> Published:
    if name not in FILES:
        raise InputError(f"{name} is not a published file that is known. Known: {', '.join(FILES)}.")
    return FILES[name]


def _check(content: bytes, known: Published, shown: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != known.sha256:
        raise InputError(
            f"{shown}: content is not the published file (SHA-256 {digest[:12]}..., expected {known.sha256[:12]}...). "
            f"Replace it by {known.url}."
        )
