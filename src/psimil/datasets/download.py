"""Downloads over https, in memory and limited in size."""

from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from psimil.foundations.errors import InputError, MissingFile

SCHEMES = ("https",)
TIMEOUT = 60.0


def download(url: str, limit: int) -> bytes:
    """The bytes at an address.

    Parameters
    ----------
    url : beginning with ``https://``; redirections are followed to such addresses only.
    limit : most bytes that are accepted.

    Returns
    -------
    received : at most ``limit`` bytes.

    Raises
    ------
    MissingFile
        When the address does not answer, or answers that there is no such file.
    InputError
        When the address is not https, or sends more than ``limit`` bytes.

    Examples
    --------
    >>> download("http://example.org/data.csv", 1000)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: http://example.org/data.csv is not an https address; nothing was downloaded.
    """
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
