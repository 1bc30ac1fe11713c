"""What every request must pass before a route sees it, and the headers that every answer carries."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psimil.viewer.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1 << 20
SESSION = "psimil.session"  # in the scope of a request with the cookie of this start
MAX_HEAD = 16 << 10
SECONDS = 10.0
SAFE = ("GET", "HEAD")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "private, no-store",
}
_log = logging.getLogger("psimil")


@dataclass(frozen=True)
class Refusal(Exception):
    """An answer that ends a request; its words are fixed and repeat nothing of the request."""

    status: int
    words: str


class Guard:
    """ASGI middleware: Host, origin, session and size of a request; headers of an answer.

    Parameters
    ----------
    app : what is guarded.
    settings : who may ask.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = _Answer(send)
        try:
            _check_size(scope)
            if has_session(scope["headers"], self.settings):
                scope[SESSION] = True
            check(scope["method"], scope["path"], scope["headers"], self.settings)
            body = await _body(scope["headers"], receive)
            await self.app(scope, _replay(body, receive), answer)
        except Refusal as refusal:
            _log.info("viewer: refused a request with %d", refusal.status)
            await answer.refuse(refusal)
        except Exception as error:
            _log.error("viewer: %s in a request", type(error).__name__)  # no traceback: it can show what a scan says
            await answer.refuse(Refusal(500, "this is a bug in psimil."))


def check(method: str, path: str, headers: list[tuple[bytes, bytes]], settings: Settings) -> None:
    """Refuse a request by its head.

    Raises
    ------
    Refusal
        403 for another Host or a page of another site, 401 without a session, 413 and 415 for a body that is too
        large or not JSON.

    Examples
    --------
    >>> check("GET", "/", [(b"host", b"127.0.0.1:8123")], Settings(8123))
    >>> check("GET", "/", [(b"host", b"evil.example")], Settings(8123))
    Traceback (most recent call last):
    psimil.viewer.security.Refusal: (403, 'this address is not served here.')
    """
    host = _values(headers, b"host")
    if len(host) != 1 or not settings.allows_host(host[0]):
        raise Refusal(403, "this address is not served here.")
    if not _same_origin(method, path, headers, host[0], settings):
        raise Refusal(403, "requests of other pages are refused.")
    if not _is_open(method, path) and not has_session(headers, settings):
        raise Refusal(401, "no session. Open the address that psimil view printed.")
    length = _values(headers, b"content-length")
    if length and not _is_small(length[0]):
        raise Refusal(413, "the request is above the limit of 1 MB.")
    if method not in SAFE and _values(headers, b"content-type")[:1] != ["application/json"]:
        raise Refusal(415, "the request must be JSON.")


def has_session(headers: list[tuple[bytes, bytes]], settings: Settings) -> bool:
    """Whether the request carries the cookie of this start.

    Examples
    --------
    >>> settings = Settings(8123)
    >>> has_session([(b"cookie", f"a=b; {settings.cookie}={settings.session}".encode())], settings)
    True
    """
    wanted = f"{settings.cookie}={settings.session}".encode()
    given = [part.strip() for line in _values(headers, b"cookie") for part in line.split(";")]
    return any([secrets.compare_digest(part.encode("latin-1"), wanted) for part in given])


def _same_origin(method: str, path: str, headers: list[tuple[bytes, bytes]], host: str, settings: Settings) -> bool:
    """Whether one of our pages asks, or the user's own hand; a request that changes something must prove it."""
    if _values(headers, b"upgrade"):
        return False
    visit = path == "/" and _values(headers, b"sec-fetch-mode") == ["navigate"]  # a link to the page without data
    if not visit and any(site not in ("same-origin", "none") for site in _values(headers, b"sec-fetch-site")):
        return False
    origins = _values(headers, b"origin")
    if method in SAFE and not origins:
        return True
    return len(origins) == 1 and settings.allows_origin(origins[0], host)


def _is_open(method: str, path: str) -> bool:
    if method in SAFE:
        return path == "/" or path.startswith("/static/")
    return method == "POST" and path == "/session"


def _check_size(scope: Scope) -> None:
    """The parser counts a head that arrives in pieces; this counts one that arrives at once."""
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    if size + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEAD:
        raise Refusal(431, "the head of the request is above the limit of 16 KB.")


def _is_small(length: str) -> bool:
    return length.isascii() and length.isdecimal() and len(length) <= 7 and int(length) <= MAX_BODY


def _values(headers: list[tuple[bytes, bytes]], name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


async def _body(headers: list[tuple[bytes, bytes]], receive: Receive) -> bytes:
    """The whole body, within the limits of size and time."""
    if not _values(headers, b"content-length") and not _values(headers, b"transfer-encoding"):
        return b""
    body = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(408, "the request ended early.")
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    raise Refusal(413, "the request is above the limit of 1 MB.")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise Refusal(408, "the request took too long.") from None


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive function that gives the body once, and what the server says after it."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


class _Answer:
    """A send function that adds our headers."""

    def __init__(self, send: Send) -> None:
        self.send, self.started = send, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [(n.lower().encode(), v.encode()) for n, v in HEADERS.items() if n.lower().encode() not in given]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await self.send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, and close: the rest of the request is not read."""
        if self.started:
            return
        data = json.dumps({"error": refusal.words}).encode()
        headers: list[Any] = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
        await self(
            {"type": "http.response.start", "status": refusal.status, "headers": [*headers, (b"connection", b"close")]}
        )
        await self.send({"type": "http.response.body", "body": data})
