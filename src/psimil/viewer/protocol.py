"""HTTP connections that end by themselves: clients that send or read too slowly, and too many of them."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from psimil.viewer.security import SESSION

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
