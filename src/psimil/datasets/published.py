"""Published files that are not embedded: where they are found, whether they are the right ones, and how to get them."""

import csv
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from importlib.resources import files
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from psimil.datasets.content import GZIP_MAGIC, inflated, read_content, write_content
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError, MissingFile

MAX_BYTES = 1 << 30
SCHEMES = ("https",)
TIMEOUT = 60.0


@dataclass(frozen=True)
class Published:
    """A file as its authors published it.

    Parameters
    ----------
    folder : sub-folder of a data directory in which it is kept.
    size : bytes of the uncompressed content.
    sha256 : of the uncompressed content, so that every gzip of it passes.
    url : where it can be downloaded, gzipped or plain.
    """

    folder: str
    size: int
    sha256: str
    url: str


def _catalogue() -> dict[str, Published]:
    with (files("psimil.datasets") / "data" / "published.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return {row["name"]: Published(row["folder"], int(row["size"]), row["sha256"], row["url"]) for row in rows}


PUBLISHED: Mapping[str, Published] = _catalogue()


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
    >>> path = Path("rsna_f8_cnn0.csv")
    >>> _ = path.write_text("feature_0")
    >>> verify(path, "rsna_f8_cnn0.csv")
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
    limit = known.size + known.size // 100 + 1024  # a gzip file can be a little longer than its content
    try:
        received = _received(known.url, limit)
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
    if name not in PUBLISHED:
        raise InputError(f"{name} is not a published file that is known. Known: {', '.join(PUBLISHED)}.")
    return PUBLISHED[name]


def _check(content: bytes, known: Published, shown: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != known.sha256:
        raise InputError(
            f"{shown}: content is not the published file (SHA-256 {digest[:12]}..., expected {known.sha256[:12]}...). "
            f"Replace it by {known.url}."
        )


def _received(url: str, limit: int) -> bytes:
    """At most ``limit`` bytes at an https address; redirections are followed to such addresses only."""
    _check_scheme(url)
    try:
        with build_opener(_Redirects).open(url, timeout=TIMEOUT) as response:
            received: bytes = response.read(limit + 1)
    except HTTPError as error:
        error.close()
        raise MissingFile(f"{urlsplit(url).netloc} answers {error.code} {error.reason}.") from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise MissingFile(f"{urlsplit(url).netloc} cannot be reached ({reason}).") from error
    if len(received) > limit:
        raise InputError(f"{url} sends more than the expected {limit} bytes; nothing was kept.")
    return received


class _Redirects(HTTPRedirectHandler):
    """Follows a redirection only to an address that could have been asked for in the first place."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        try:
            _check_scheme(newurl)
        except InputError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_scheme(url: str) -> None:
    if urlsplit(url).scheme not in SCHEMES:
        raise InputError(f"{url} is not an https address; nothing was downloaded.")
