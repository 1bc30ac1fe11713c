"""What the viewer's guard does with messages that no well-behaved browser sends."""

import asyncio
import json

import pytest

pytest.importorskip("starlette")

from psimil.viewer.security import Guard
from psimil.viewer.settings import Settings

HOST = (b"host", b"127.0.0.1:8123")


def answered(app, messages, *, kind="http", headers=(HOST,)):
    """Messages that the guard sends when it receives these."""
    waiting, sent = list(messages), []

    async def receive():
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "method": "GET", "path": "/", "query_string": b"", "headers": list(headers)}
    asyncio.run(Guard(app, Settings(8123))(scope, receive, send))
    return sent


async def never(scope, receive, send):
    raise AssertionError("the request should have been refused")


def test_the_start_and_the_end_of_the_server_are_let_through():
    seen = []

    async def app(scope, receive, send):
        seen.append(await receive())
        await send({"type": "lifespan.startup.complete"})

    assert answered(app, [{"type": "lifespan.startup"}], kind="lifespan") == [{"type": "lifespan.startup.complete"}]
    assert seen == [{"type": "lifespan.startup"}]


def test_a_body_that_ends_early_is_refused():
    half = {"type": "http.request", "body": b"{", "more_body": True}
    messages = [half, {"type": "http.disconnect"}]
    start, body = answered(never, messages, headers=(HOST, (b"content-length", b"9")))
    assert start["status"] == 408
    assert json.loads(body["body"]) == {"error": "the request ended early."}


def test_a_bug_after_the_first_byte_adds_nothing_to_the_answer():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("patient-1")

    sent = answered(app, [])
    assert [message["type"] for message in sent] == ["http.response.start"]
    assert "patient-1" not in repr(sent)
