"""The viewer's server: one socket on this computer, limits on everything that a client can send."""

from __future__ import annotations

import errno
import logging
import socket
from typing import Any

import uvicorn

from psimil.foundations.errors import OutputError
from psimil.viewer.protocol import Connection
from psimil.viewer.security import MAX_HEAD

BACKLOG = 128


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
