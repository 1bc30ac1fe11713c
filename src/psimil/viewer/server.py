"""The viewer's server: one socket on this computer, limits on what clients send, connections that end by themselves."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from psimil.foundations.errors import OutputError
from psimil.viewer.security import MAX_HEAD, SESSION

BACKLOG = 128
CONNECTIONS = 64
SECONDS = 10.0
SLOWEST = 64 << 10  # bytes of an answer that a client must take in that time


class Connection(H11Protocol):
    """One connection; it is dropped when it is one too many, or when nothing moves on it for ten seconds.

    The head of a request must arrive in that time. The body is timed by :class:`psimil.viewer.security.Guard`.
    """

    _timer: asyncio.TimerHandle | None = None
    _unsent = 0
    _head_due = True
    _has_session = False
    _since = 0.0

    def connection_made(self, transport: Any) -> None:
        """Take a connection; where there are too many, drop the oldest that never showed a session, or this one."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._start()
        if len(self.connections) > CONNECTIONS:
            others: Any = self.connections - {self}
            strangers = [one for one in others if not one.has_session and not one.transport.is_closing()]
            min(strangers, key=lambda one: one._since, default=self).transport.abort()

    @property
    def has_session(self) -> bool:
        """Whether a request on this connection had the cookie of this start, as the guard has noted."""
        self._has_session = self._has_session or SESSION in (self.scope or {})
        return self._has_session

    def data_received(self, data: bytes) -> None:
        """The first byte of a head starts its time; its other bytes do not."""
        if not self._answering and not self._head_due:
            self._head_due = True
            self._start()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """What the client has yet to read is timed from here."""
        self._head_due, self._has_session = False, self.has_session  # the next request has a scope of its own
        self._unsent = self.transport.get_write_buffer_size()
        self._start()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop timing."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(SECONDS, self._look)

    def _look(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if unsent > max(0, self._unsent - SLOWEST) or (self._head_due and not self._answering):
            self.transport.abort()
        elif unsent or self._answering:
            self._unsent = unsent
            self._start()


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens: its port is known, and clients may come, before anything is served.

    Parameters
    ----------
    host : address or name of this computer.
    port : 0 for any that is free.

    Raises
    ------
    OutputError
        When the port is in use or the address is not of this computer.

    Examples
    --------
    >>> with bound_socket("127.0.0.1", 0) as listener:
    ...     listener.getsockname()[1] > 0
    True
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise OutputError(f"port {port} is in use; try --port {port % 65535 + 1}.") from None
        why = "the port needs more rights" if error.errno == errno.EACCES else "the address is not of this computer"
        raise OutputError(f"cannot listen on {host}: {why}. Try --host 127.0.0.1 and --port 0.") from None
    return listener


def server_of(app: Any) -> uvicorn.Server:
    """A server for the application, with its limits; run it with ``server.run(sockets=[...])``."""
    logging.getLogger("uvicorn").addHandler(logging.NullHandler())  # clients must not write to the user's terminal
    config = uvicorn.Config(
        app,
        http=Connection,
        backlog=BACKLOG,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)
