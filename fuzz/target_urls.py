"""Requests to the viewer: method, path, query, headers and body."""

from __future__ import annotations

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import numpy as np
from mutator import changed_bytes
from target import Target

from psimil.predictive.aggregates import NoisyOr
from psimil.predictive.moments import instance_moments
from psimil.predictive.prediction import Prediction
from psimil.results.result_set import ResultSet
from psimil.viewer.app import create_app
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.security import HEADERS
from psimil.viewer.settings import Settings
from psimil.viewer.state import ViewerState
from psimil.viewer.volumes import Volumes

# An input is a request as text; KEY and SESSION in it stand for a bag's key and for the cookie of the session.
KINDS = ("features", "images", "ct")
HEAD = b"host: 127.0.0.1:8123\ncookie: SESSION\n"
POST = HEAD + b"origin: http://127.0.0.1:8123\ncontent-type: application/json\ncontent-length: 9\n\n"
PATHS = (
    b"/",
    b"/worklist",
    b"/bag/KEY",
    b"/api/set",
    b"/api/bags",
    b"/api/bags?sort=id&descending=0&show=refer&limit=2",
)
PATHS += (
    b"/api/bags/KEY",
    b"/api/bags/KEY/slices/0",
    b"/api/bags/KEY/sprite",
    b"/static/session.js",
    b"/api/openapi.json",
)
PATHS += (
    b"/api/bags?offset=1&limit=500&sort=uncertainty&show=noted",
    b"/static/..%2fapp.py",
    b"/bag/%00",
    b"//",
    b"/%2e%2e/",
)
BODIES = (b'{"bag": "KEY", "verdict": "agree"}', b'{"bag": "KEY", "instance": 1, "verdict": null, "note": "=a\\u0000"}')
BODIES += (b'{"bag": "KEY", "instance": 1e9}', b'{"token": "x"}', b"[", b'{"note": "\\ud800"}')
WORDS = (
    b"?",
    b"&",
    b"=",
    b"%00",
    b"%2e%2e/",
    b"%c0%ae",
    b"%ff",
    b"%",
    b";",
    b"#",
    b"..\\",
    b"//evil.example",
    b"KEY",
    b"SESSION",
)
WORDS += (b"gzip;q=0", b"bytes=0-1,2-3", b"accept-encoding: gzip\n", b"range: bytes=0-\n", "\U0001f600".encode())
WORDS += (
    b"transfer-encoding: chunked\n",
    b"upgrade: websocket\n",
    b"sec-fetch-site: cross-site\n",
    b"content-length: 4294967296\n",
)
WORDS += (
    b"\n",
    b": ",
    b"POST ",
    b"HEAD ",
    b"OPTIONS ",
    b"limit=",
    b"sort=size",
    b"show=disagreed",
    b"\xff",
    b"\0",
    *PATHS[:9],
)
ROUTES = (
    "/",
    "/session",
    "/worklist",
    "/bag/.*",
    "/static/.*",
    "/api/set",
    "/api/feedback",
    "/api/openapi.json",
    "/api/bags",
)
ROUTES += ("/api/bags/[^/]*", "/api/bags/.*/sprite", "/api/bags/.*/slices/.*")
LINE = re.compile(rb"[^\n]*\n?")


def target(folder: Path) -> Target:
    """Sends a request to each kind of viewer in turn; an answer of 500 and above, or without our headers, fails."""
    settings = Settings(8123)
    viewers = [_viewer(kind, folder / kind, settings) for kind in KINDS]
    loop, expected = asyncio.new_event_loop(), {name.lower().encode() for name in HEADERS}
    cookie = f"{settings.cookie}={settings.session}".encode()

    def run(data: bytes) -> str:
        app, key = viewers[len(data) % len(viewers)]
        scope, body = request_of(data.replace(b"KEY", key).replace(b"SESSION", cookie))
        sent: list[dict[str, Any]] = []
        loop.run_until_complete(_asked(app, scope, body, sent))
        assert sent and sent[0]["type"] == "http.response.start", "no answer"
        status, names = sent[0]["status"], {name for name, _ in sent[0]["headers"]}
        assert status < 500, f"status {status}"
        assert expected <= names, "headers are missing"
        if status >= 400 and scope["method"] != "HEAD":
            assert set(json.loads(sent[1]["body"])) == {"error"}
        route = next((name for name in ROUTES if re.fullmatch(name, scope["path"])), "elsewhere")
        return f"{scope['method'] if status < 400 else 'refused'} {status} {route}"

    return Target("urls", run, seeds, change, WORDS, bombs, loop.close)


async def _asked(app: Any, scope: dict[str, Any], body: bytes, sent: list[dict[str, Any]]) -> None:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)


def request_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The request in an input as a server hands it on, and its body."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, rest = first.partition(b" ")
    raw, _, query = rest.rpartition(b" ")[0].partition(b"?") if rest.endswith(b" HTTP/1.1") else rest.partition(b"?")
    split = [line.partition(b":") for line in lines if b":" in line]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method.decode("latin-1").upper() or "GET",
        "scheme": "http",
        "path": unquote(raw.decode("latin-1")),
        "raw_path": raw,
        "query_string": query,
        "root_path": "",
        "headers": [(name.strip().lower(), value.strip()) for name, _, value in split],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8123),
    }
    return scope, body


@cache
def seeds() -> list[bytes]:
    """A request for every route and of every kind of refusal."""
    found = [b"GET " + path + b" HTTP/1.1\n" + HEAD for path in PATHS]
    found += [b"POST /api/feedback HTTP/1.1\n" + POST + body for body in BODIES]
    found += [b"POST /session HTTP/1.1\n" + POST + BODIES[3], b"HEAD / HTTP/1.1\n" + HEAD, b"", b"GET /api/set\n\n"]
    return [*found, b"DELETE /api/set HTTP/1.1\n" + POST, found[7] + b"accept-encoding: gzip\n"]


def change(data: bytes, rng: Random) -> bytes:
    """Another request: lines exchanged, or any bytes of one line."""
    lines = LINE.findall(data)[:-1]
    other = LINE.findall(rng.choice(seeds()))[:-1]
    if not lines or not rng.randrange(6):
        return changed_bytes(data, rng, WORDS, b"".join(other))
    place = rng.choice((0, 0, 0, -1, -1, rng.randrange(len(lines))))
    if other and not rng.randrange(5):
        lines[place] = rng.choice(other)
    else:
        lines[place] = changed_bytes(lines[place], rng, WORDS, rng.choice(other) if other else b"")
    return b"".join(lines)


def bombs() -> dict[str, bytes]:
    """Requests that are long."""
    return {
        "long path": b"GET /" + b"a/" * 500_000 + b" HTTP/1.1\n" + HEAD,
        "long query": b"GET /api/bags?" + b"limit=1&" * 100_000 + b" HTTP/1.1\n" + HEAD,
        "long key": b"GET /api/bags/" + b"%41" * 300_000 + b" HTTP/1.1\n" + HEAD,
        "many headers": b"GET /api/set HTTP/1.1\n" + HEAD * 10_000,
        "deep body": b"POST /api/feedback HTTP/1.1\n" + POST + b"[" * 500_000,
        "long note": b"POST /api/feedback HTTP/1.1\n" + POST + b'{"bag": "KEY", "note": "' + b"x" * 900_000 + b'"}',
        "large body": b"POST /api/feedback HTTP/1.1\n" + POST + b" " * (2 << 20),
    }


def _viewer(kind: str, folder: Path, settings: Settings) -> tuple[Any, bytes]:
    """A viewer of three small bags, and the key of the first."""
    folder.mkdir(exist_ok=True)
    rng, offsets = np.random.default_rng(0), np.array([0, 2, 3, 6])
    mean, variance = rng.normal(size=6), rng.uniform(0.1, 2, 6)
    ids, instances = np.array(["a", "b", "c"]), instance_moments(mean, variance)
    bags = NoisyOr().moments(instances, offsets)
    prediction = Prediction(ids, offsets, None, mean, variance, instances, bags, "noisy_or")
    images = None if kind == "features" else np.zeros((6, 4, 4), np.uint8)
    effects = (np.zeros((6, 1), np.int64), rng.normal(size=(6, 1)), rng.normal(size=(6, 1)))
    results = ResultSet.of(
        prediction, kind=kind, truth=np.array([0, 1, -1]), images=images, feature_names=("f",),
        positions=np.arange(6.0) if kind == "ct" else None, series=("s", "s", "") if kind == "ct" else None,
        effects=effects if kind == "features" else None,
    )  # fmt: skip
    one: Any = SimpleNamespace(slices=(SimpleNamespace(rows=4, columns=4),), n_slices=2)
    volumes = (
        Volumes({"s": one}, lambda _: _Scan(np.zeros((2, 4, 4), np.int16), np.arange(2.0))) if kind == "ct" else None
    )
    viewed = ViewerState(results, FeedbackStore(folder), volumes)
    return create_app(viewed, settings), viewed.keys[0].encode()


class _Scan:
    """As much of a scan as the viewer asks for."""

    def __init__(self, hu: Any, positions: Any) -> None:
        self.hu, self.positions = hu, positions

    def __len__(self) -> int:
        return len(self.hu)
