"""Requests to one web server, which is not trusted: bounded in time and size, and never sent to another host."""

from __future__ import annotations

import netrc
import os
import ssl
import warnings
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from socket import SHUT_RDWR
from threading import Timer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from psimil.foundations.errors import DataWarning, InputError, ServerFault

USER, PASSWORD = "PSIMIL_DICOMWEB_USER", "PSIMIL_DICOMWEB_PASSWORD"
CHUNK, NO_CONTENT = 1 << 16, 204
PATIENCE = 20  # a whole answer may take so many times as long as the server may be silent
trusted = cache(ssl.create_default_context)  # it reads many certificates
ELSEWHERE = "it points to another place. Name that as URL"
WORDS = {
    401: f"it asks for a user and a password. Set {USER} and {PASSWORD}, or name the host in a netrc file",
    404: "it has nothing there. Check the URL",
} | dict.fromkeys((301, 302, 303, 307, 308), ELSEWHERE)


@dataclass(frozen=True)
class Connection:
    """One server, by the root of its services; every request has a connection of its own.

    Parameters
    ----------
    host, port, path, secure : of the root.
    query : that the URL of the root came with, for the caller.
    timeout : seconds for which the server may be silent.
    authorization : header that proves who asks; never shown.

    Examples
    --------
    >>> Connection.of("http://localhost:8042/dicom-web/?StudyDate=20260101-")
    Connection(host='localhost', port=8042, path='/dicom-web', secure=False, query={'StudyDate': '20260101-'}, ...)
    """

    host: str
    port: int | None
    path: str
    secure: bool
    query: Mapping[str, str]
    timeout: float = 30.0
    authorization: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str, timeout: float = 30.0) -> Connection:
        """The server of a URL, with the user and password of the environment or of a netrc file.

        Raises
        ------
        InputError
            When it is no URL of a web server, or holds a password.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or parts.scheme not in ("http", "https") or not url.isprintable() or " " in url:
            raise InputError("the URL must be the root of a DICOMweb server, as http://localhost:8042/dicom-web.")
        if "@" in parts.netloc:
            raise InputError(f"a URL with a password is seen by others. Set {USER} and {PASSWORD} instead.")
        secure, query, authorization = parts.scheme == "https", dict(parse_qsl(parts.query)), _authorization(host)
        if authorization and not secure and host not in ("localhost", "127.0.0.1", "::1"):
            warnings.warn("the password goes to the server in the clear. Use https.", DataWarning, stacklevel=2)
        return cls(host, port, parts.path.rstrip("/"), secure, query, timeout, authorization)

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        limit: int = 32 << 20,
        **headers: str,
    ) -> tuple[str, bytes]:
        """Content type and body of the server's answer.

        Parameters
        ----------
        path : below the root.
        limit : bytes that the body may have.
        headers : of the request, with _ for -.

        Raises
        ------
        ServerFault
            When there is no answer, no whole one, or another than success. Redirects are not followed.
        """
        sent = {name.replace("_", "-"): value for name, value in headers.items()} | {"Connection": "close"}
        if self.authorization:
            sent["Authorization"] = self.authorization
        target = f"{self.path}/{path}" + (f"?{urlencode(query)}" if query else "")
        tls: Any = {"context": trusted()} if self.secure else {}
        link = (HTTPSConnection if self.secure else HTTPConnection)(self.host, self.port, timeout=self.timeout, **tls)
        watchdog = Timer(PATIENCE * self.timeout, _hang_up, [link])
        watchdog.daemon = True
        watchdog.start()
        content = bytearray()
        try:
            with faults():
                link.request(method, target, body, sent)
                answer = link.getresponse()
                if answer.status // 100 != 2:
                    raise ServerFault(f"the server answers {answer.status}: {WORDS.get(answer.status, 'no success')}.")
                if answer.headers.get("Content-Encoding", "identity") != "identity":
                    raise ServerFault("the server answers in an encoding that it was not asked for.")
                while (piece := answer.read1(CHUNK)) and len(content) <= limit:
                    content += piece
        finally:
            watchdog.cancel()
            link.close()
        if len(content) > limit:
            raise ServerFault(f"the server answers with more than {limit >> 20} MB.")
        if answer.length or (method == "GET" and answer.status != NO_CONTENT and not content):
            raise ServerFault("the server's answer was cut.")
        return answer.headers.get("Content-Type", ""), bytes(content)


@contextmanager
def faults() -> Iterator[None]:
    """Say of what the network refuses that it is the server's fault; addresses and headers are not quoted.

    Examples
    --------
    >>> with faults():
    ...     raise ConnectionRefusedError(111, "Connection refused")
    Traceback (most recent call last):
    psimil.foundations.errors.ServerFault: the server cannot be reached (connection refused).
    """
    try:
        yield
    except ServerFault:
        raise
    except ssl.SSLCertVerificationError:
        cure = "Name the authority's file in SSL_CERT_FILE"
        raise ServerFault(f"the server's certificate is not one of a trusted authority. {cure}.") from None
    except TimeoutError:
        raise ServerFault("the server was silent for too long.") from None
    except OSError as error:
        raise ServerFault(f"the server cannot be reached ({(error.strerror or 'cut').lower()}).") from None
    except (HTTPException, ValueError):
        raise ServerFault("the server's answer was cut or is no HTTP.") from None


def _hang_up(link: HTTPConnection) -> None:
    with suppress(OSError, AttributeError):  # it has just ended, or never began
        link.sock.shutdown(SHUT_RDWR)


def _authorization(host: str) -> str:
    """The header for basic authentication, "" where nobody named a user."""
    user, password = os.environ.get(USER), os.environ.get(PASSWORD, "")
    if user is None:
        file = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
        if not file.is_file():
            return ""
        try:
            entry = netrc.netrc(str(file)).authenticators(host)
        except (netrc.NetrcParseError, OSError):
            raise InputError(f"the netrc file cannot be read. Mend it, or set {USER} and {PASSWORD}.") from None
        if entry is None:
            return ""
        user, password = entry[0], entry[2] or ""
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()
