"""What a client can do to the server: too much, too slowly, too often, or half of it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2 as httpx
import pytest

from psimil.foundations.errors import OutputError
from psimil.viewer import security, server
from psimil.viewer.server import bound_socket
from viewed import serving, viewed_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def viewed(tmp_path_factory):
    return viewed_of("features", tmp_path_factory.mktemp("features"))


@pytest.fixture
def settings(viewed):
    with serving(viewed) as found:
        yield found


def head(settings, request="GET /api/set HTTP/1.1", *more, host=True):
    lines = [request, *more, f"Cookie: {settings.cookie}={settings.session}", f"Origin: {settings.address}"]
    lines += [f"Host: 127.0.0.1:{settings.port}"] if host else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def connected(settings):
    return socket.create_connection(("127.0.0.1", settings.port), timeout=300)


def everything(connection):
    """All that arrives until the server ends the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def answered(settings, data):
    with connected(settings) as connection:
        connection.sendall(data)
        return everything(connection)


def alive(settings):
    with connected(settings) as connection:
        connection.sendall(head(settings, "GET /api/set HTTP/1.1", "Connection: close"))
        return everything(connection).startswith(b"HTTP/1.1 200")


def test_four_gigabytes_are_refused_before_they_come(settings):
    for length in (1 << 32, (1 << 20) + 1, 10**40):
        post = head(
            settings, "POST /api/feedback HTTP/1.1", "Content-Type: application/json", f"Content-Length: {length}"
        )
        answer = answered(settings, post)
        assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), answer[:80]
    assert alive(settings)


def test_a_body_in_pieces_has_the_same_limit(settings):
    post = head(settings, "POST /api/feedback HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with connected(settings) as connection:
        connection.sendall(post)
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                connection.sendall(piece)
        answer = everything(connection)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
    assert alive(settings)


def test_a_get_with_a_body_is_read_within_the_limit(settings):
    answer = answered(
        settings, head(settings, "GET /api/set HTTP/1.1", "Content-Length: 4", "Connection: close") + b"abcd"
    )
    assert answer.startswith(b"HTTP/1.1 200")
    assert answered(settings, head(settings, "GET /api/set HTTP/1.1", "Content-Length: 99999999")).startswith(
        b"HTTP/1.1 413"
    )


def test_long_heads_are_refused(settings):
    answer = answered(settings, head(settings, "GET /api/set HTTP/1.1", "X-Long: " + "a" * 70_000))
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
    answer = answered(settings, head(settings, f"GET /{'a' * 70_000} HTTP/1.1"))
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))
    assert alive(settings)


@pytest.mark.parametrize(
    "lines",
    [
        ("GET /api/set HTTP/1.1", "Host: evil.example"),
        ("GET http://evil.example/api/set HTTP/1.1",),
        ("POST /api/feedback HTTP/1.1", "Content-Length: 4", "Content-Length: 5"),
        ("POST /api/feedback HTTP/1.1", "Content-Length: 4", "Transfer-Encoding: chunked"),
        ("POST /api/feedback HTTP/1.1", "Content-Length: -1"),
        ("GET /api/set",),
        ("\x16\x03\x01\x02",),
        ("GET /a b HTTP/1.1",),
        ("GET /api/set HTTP/1.1", "Bad Header: x"),
        ("GET /api/set HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        ("CONNECT evil.example:443 HTTP/1.1",),
        ("GET * HTTP/1.1",),
    ],
)
def test_odd_requests_get_no_data(settings, lines):
    answer = answered(settings, head(settings, *lines) + b"\r\n\r\n")
    assert b"HTTP/1.1 200" not in answer and b"HTTP/1.1 5" not in answer and b'"kind"' not in answer
    assert alive(settings)


def test_a_request_without_host_is_refused(settings):
    assert answered(settings, head(settings, "GET /api/set HTTP/1.0", host=False)).startswith(b"HTTP/1.1 403")


def test_ranges_are_ignored(settings):
    ranges = ",".join(f"{n}-{n + 1}" for n in range(0, 2000, 2))
    answer = answered(
        settings, head(settings, "GET /static/session.js HTTP/1.1", f"Range: bytes={ranges}", "Connection: close")
    )
    assert answer.startswith(b"HTTP/1.1 200") and b"multipart" not in answer


def test_a_head_that_does_not_end_is_cut_off(viewed, monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.3)
    with serving(viewed) as settings, connected(settings) as silent, connected(settings) as slow:
        with contextlib.suppress(ConnectionError):
            for byte in b"GET /api/set HTTP/1.1\r\n" * 3:
                slow.send(bytes([byte]))
                time.sleep(0.02)
        assert everything(silent) == b"" and everything(slow) == b""
        assert alive(settings)


def test_a_second_head_has_its_own_time(viewed, monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.5)
    with serving(viewed) as settings, connected(settings) as connection:
        for _ in range(2):
            connection.sendall(head(settings))
            answer = connection.recv(65536)
            while not answer.endswith(b"}}"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(0.7)  # between requests a connection may wait
        connection.sendall(b"GET ")
        assert everything(connection) == b""
        assert alive(settings)


def test_a_body_that_does_not_end_is_cut_off(viewed, monkeypatch):
    monkeypatch.setattr(security, "SECONDS", 0.3)
    with serving(viewed) as settings:
        post = head(settings, "POST /api/feedback HTTP/1.1", "Content-Type: application/json", "Content-Length: 100")
        assert answered(settings, post + b"{").startswith(b"HTTP/1.1 408")


def test_a_client_that_does_not_read_is_cut_off(viewed, monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.5)
    monkeypatch.setitem(security.HEADERS, "X-Filler", "a")
    with serving(viewed) as settings:
        before = descriptors(os.getpid())
        lazy = socket.socket()
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.connect(("127.0.0.1", settings.port))
        with contextlib.suppress(ConnectionError):
            for _ in range(3000):
                lazy.sendall(head(settings, "GET /api/bags HTTP/1.1"))  # answers that nobody takes
        settled(lambda: descriptors(os.getpid()) <= before + 1)
        assert alive(settings)
        lazy.close()


def test_there_are_at_most_64_connections(viewed):
    with serving(viewed) as settings, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(settings)) for _ in range(64)]
        for connection in held:
            connection.sendall(head(settings))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        extra = stack.enter_context(connected(settings))
        with contextlib.suppress(ConnectionError):
            extra.sendall(head(settings))
        assert everything(extra) == b""
        held[0].close()
        settled(lambda: alive(settings))


def whole_answer(connection, settings):
    connection.sendall(head(settings))
    answer = connection.recv(65536)
    while answer and not answer.endswith(b"}}"):
        answer += connection.recv(65536)
    return answer


def test_strangers_do_not_shut_the_user_out(viewed):
    with serving(viewed) as settings, contextlib.ExitStack() as stack:
        mine = stack.enter_context(connected(settings))
        assert whole_answer(mine, settings).startswith(b"HTTP/1.1 200")
        strangers = [stack.enter_context(connected(settings)) for _ in range(100)]
        again = stack.enter_context(connected(settings))
        for connection in (again, mine):  # a new one of the user, and the one that was there before
            assert whole_answer(connection, settings).startswith(b"HTTP/1.1 200")
        assert everything(strangers[0]) == b""  # the oldest have gone
        assert alive(settings)


def test_clients_that_leave_early_do_no_harm(settings):
    before = descriptors(os.getpid())
    for _ in range(50):
        with connected(settings) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(head(settings, "GET /api/bags HTTP/1.1"))
    settled(lambda: descriptors(os.getpid()) <= before)
    assert alive(settings)


def test_a_port_in_use_is_told():
    with bound_socket("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(OutputError, match=f"port {port} is in use; try --port {port + 1}"):
            bound_socket("127.0.0.1", port)
    with pytest.raises(OutputError, match="not of this computer"):
        bound_socket("192.0.2.1", 0)


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident(pid):
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def settled(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the server did not come to rest"
        time.sleep(0.05)


@contextlib.contextmanager
def process(kind):
    """A server in a process of its own: its process, and a client with a session."""
    support = ROOT / "tests" / "support"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{support}", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(support / "viewed.py"), "0", kind]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split("/#")[0]
            limits = httpx.Limits(max_connections=32)
            with httpx.Client(base_url=address, headers={"Origin": address}, limits=limits, timeout=60) as client:
                assert client.post("/session", json={"token": "development"}).status_code == 204
                yield server, client
        finally:
            server.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_two_hundred_slow_clients(capsys):
    """F13: one byte per second each; the server lives, and its descriptors are back within ten seconds."""
    with process("features") as (server, client):
        port = client.base_url.port
        client.get("/api/set")
        before = descriptors(server.pid)
        for turn in range(2):
            slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
            started = time.monotonic()
            for byte in b"GET /api/set HTTP/1.1\r\n"[:12]:
                for connection in slow:
                    with contextlib.suppress(OSError):
                        connection.send(bytes([byte]))
                time.sleep(1.0)
            settled(lambda: descriptors(server.pid) <= before, 10)
            with capsys.disabled():
                print(f"\nturn {turn}: descriptors back to {before} after {time.monotonic() - started:.1f} s")
            assert client.get("/api/set").status_code == 200
            for connection in slow:
                connection.close()


@pytest.mark.slow
def test_a_storm_of_a_thousand_requests(capsys):
    """F14: slices of all scans in any order; memory stays within 200 MB of the start, descriptors come back."""
    with process("ct") as (server, client):
        keys = [row["key"] for row in client.get("/api/bags").json()["bags"]]
        sizes = [row["size"] for row in client.get("/api/bags").json()["bags"]]
        assert client.get(f"/api/bags/{keys[0]}/slices/0").status_code == 200
        memory, files = resident(server.pid), descriptors(server.pid)
        paths = [f"/api/bags/{keys[n % len(keys)]}/slices/{n * 7 % sizes[n % len(keys)]}" for n in range(1000)]
        with ThreadPoolExecutor(24) as pool:
            statuses = list(pool.map(lambda path: client.get(path).status_code, paths))
        grown = resident(server.pid) - memory
        settled(lambda: descriptors(server.pid) <= files + 32, 10)  # the client keeps its connections
        with capsys.disabled():
            print(f"\n1000 requests: {statuses.count(200)} answered, memory {grown / 2**20:+.1f} MB")
        assert statuses == [200] * 1000 and grown < 200 << 20
        client.close()
        settled(lambda: descriptors(server.pid) <= files, 10)
