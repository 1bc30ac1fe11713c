"""Where the viewer listens, and who may ask it."""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address

LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Settings:
    """Address, secrets and choices of one start.

    Parameters
    ----------
    port : that the server listens on.
    host : name or address that it is bound to.
    show_ids : name bags by their ids where these are not hashes.
    token : opens a session; 256 random bits, new at every start.
    session : value of the session's cookie; 256 other bits.

    Examples
    --------
    >>> settings = Settings(8123)
    >>> settings.allows_host("localhost:8123"), settings.allows_host("evil.example:8123")
    (True, False)
    """

    port: int
    host: str = "127.0.0.1"
    show_ids: bool = False
    token: str = field(default_factory=partial(secrets.token_urlsafe, 32), repr=False)
    session: str = field(default_factory=partial(secrets.token_urlsafe, 32), repr=False)

    @property
    def cookie(self) -> str:
        """Name of the cookie; browsers share cookies among ports, so each port has its own."""
        return f"psimil-{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether other computers cannot reach it."""
        return self.host in LOOPBACK

    @property
    def address(self) -> str:
        """Where a browser on this computer finds it."""
        name = "127.0.0.1" if self.host in EVERYWHERE else self.host
        return f"http://{_bracketed(name)}:{self.port}"

    @property
    def link(self) -> str:
        """The address with the token in its fragment, which browsers never send."""
        return f"{self.address}/#{self.token}"

    def allows_host(self, value: str) -> bool:
        """Whether a Host header names this server; a page of another name must not reach it."""
        name, colon, port = value.rpartition(":")
        if not colon or value.endswith("]"):
            name, port = value, "80"
        if port != str(self.port):
            return False
        if name.lower() in {_bracketed(known) for known in (*LOOPBACK, self.host)}:
            return True
        return self.host in EVERYWHERE and _is_address(name)  # a rebound name is never an address

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether an Origin header is that of our own pages, as the Host header names us."""
        return origin == f"http://{host}" and self.allows_host(host)


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        return ip_address(name.removeprefix("[").removesuffix("]")).version == (6 if name.startswith("[") else 4)
    return False
