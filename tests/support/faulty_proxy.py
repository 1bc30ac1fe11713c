"""A proxy between a client and a web server that fails when it is told to, and remembers what was asked."""

import contextlib
import socket
import struct
import threading
import time


class FaultyProxy:
    """One connection, one request.

    Parameters
    ----------
    port : of the server on localhost.
    rng : chooses where requests and answers are cut.
    """

    def __init__(self, port, rng, delay=1.0):
        self.server, self.rng, self.delay = port, rng, delay
        self.asked, self.count, self.armed = [], 0, {}
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/dicom-web"
        threading.Thread(target=self._serve, daemon=True).start()

    def arm(self, after, fault, hook=None):
        """Fail the request that comes after so many others, once; "hook" calls the function before it is answered."""
        self.armed = {self.count + after: (fault, hook)}

    @property
    def fired(self):
        return not self.armed

    def close(self):
        self.listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            number, self.count = self.count, self.count + 1
            fault, hook = self.armed.pop(number, (None, None))
            threading.Thread(target=self._pass, args=(client, fault, hook), daemon=True).start()

    def _pass(self, client, fault, hook):
        with contextlib.suppress(OSError), client:
            if fault == "refused":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            request = message(client)
            line = request.split(b"\r\n", 1)[0].decode()
            if fault == "cut request":
                request = request[: int(self.rng.integers(1, len(request)))]
            answer = self._forward(request)
            self.asked.append((line, answer[:12], request))
            if fault == "hook":
                hook()
            if fault == "slow":
                time.sleep(self.delay)
            if fault in ("lost answer", "cut request"):
                answer = b""
            if fault == "cut answer":
                answer = answer[: int(self.rng.integers(1, len(answer)))]
            client.sendall(answer)

    def _forward(self, request):
        answer = b""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server), 5) as server:
            server.sendall(request)
            server.shutdown(socket.SHUT_WR)
            while piece := server.recv(1 << 16):
                answer += piece
        return answer


def message(client):
    """A whole request."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _piece(client)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    while len(body) < int(lengths[0] if lengths else 0):
        body += _piece(client)
    return head + b"\r\n\r\n" + body


def _piece(client):
    piece = client.recv(1 << 16)
    if not piece:
        raise ConnectionError
    return piece
