"""Who may ask the viewer: hosts, origins, sessions; and what every answer carries."""

import json
import logging

import pytest

from psimil.viewer.security import CONTENT_POLICY, MAX_BODY
from psimil.viewer.settings import Settings
from viewed import Browser, viewed_of

SECRET = "CANARY-OUTSIDE-THE-VIEWER"
OURS = "http://127.0.0.1:8123"

BAD_HOSTS = [
    "evil.example", "evil.example:8123", "127.0.0.1", "localhost", "[::1]", "127.0.0.1:8124", "localhost:80",
    "127.0.0.1:8123.evil.example", "localhost.evil.example:8123", "evil.example@127.0.0.1:8123", "127.0.0.1:08123",
    "127.0.0.1:8123:8123", "0.0.0.0:8123", "127.1:8123", "2130706433:8123", "[::ffff:127.0.0.1]:8123", "[::1%lo]:8123",
    "", ":8123", "127.0.0.1:", "localhost:8123/", "127.0.0.1 :8123", "192.168.0.7:8123",
]  # fmt: skip
GOOD_HOSTS = ["127.0.0.1:8123", "localhost:8123", "LOCALHOST:8123", "[::1]:8123"]

JSON = {"Content-Type": "application/json"}
FOREIGN = {
    "no origin": {"Origin": None},
    "null": {"Origin": "null"},
    "another site": {"Origin": "http://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:8124"},
    "no port": {"Origin": "http://127.0.0.1"},
    "another scheme": {"Origin": "https://127.0.0.1:8123"},
    "another name of this computer": {"Origin": "http://localhost:8123"},
    "our name as a prefix": {"Origin": "http://127.0.0.1:8123.evil.example"},
    "our name as a user": {"Origin": "http://127.0.0.1:8123@evil.example"},
    "our name in a path": {"Origin": "http://evil.example/127.0.0.1:8123"},
    "a file": {"Origin": "file://"},
    "an empty origin": {"Origin": ""},
    "a cross-site fetch": {"Sec-Fetch-Site": "cross-site"},
    "a same-site fetch": {"Sec-Fetch-Site": "same-site"},
    "a form": {"Origin": "http://evil.example", "Content-Type": "application/x-www-form-urlencoded"},
    "a form with a file": {"Origin": None, "Content-Type": "multipart/form-data; boundary=x"},
    "text without preflight": {"Origin": None, "Content-Type": "text/plain"},
    "an upgrade": {"Upgrade": "websocket", "Connection": "Upgrade"},
}


@pytest.fixture
def viewed(tmp_path):
    return viewed_of("features", tmp_path)


@pytest.fixture
def client(viewed):
    return Browser(viewed)


@pytest.fixture
def stranger(viewed):
    return Browser(viewed, signed_in=False)


def changed(client, headers):
    """The client's headers with others; None takes one away."""
    for name, value in headers.items():
        client.headers.pop(name, None)
        if value is not None:
            client.headers[name] = value
    return client


def test_there_are_as_many_attacks_as_promised():
    assert len(set(BAD_HOSTS)) >= 20 and len(FOREIGN) >= 15


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_other_hosts_are_refused_before_anything_else(client, host):
    for path in ("/", "/api/set", "/static/session.js", "/nothing"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403 and answer.json() == {"error": "this address is not served here."}
    answer = client.post("/session", json={"token": client.settings.token}, headers={"Host": host})
    assert answer.status_code == 403 and "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_our_own_hosts_are_served(client, host):
    assert changed(client, {"Origin": None}).get("/api/set", headers={"Host": host}).status_code == 200
    assert client.get("/", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200


def test_hosts_of_an_open_viewer():
    wide = Settings(8123, "0.0.0.0")
    assert wide.allows_host("192.168.0.7:8123") and wide.allows_host("[fe80::1]:8123")
    assert not wide.allows_host("rebound.example:8123") and not wide.allows_host("192.168.0.7:80")
    named = Settings(8123, "192.168.0.7")
    assert named.allows_host("192.168.0.7:8123") and not named.allows_host("192.168.0.8:8123")
    assert Settings(80).allows_host("127.0.0.1") and Settings(80).allows_host("[::1]")
    assert not wide.is_local and not named.is_local and Settings(1, "::1").address == "http://[::1]:1"


@pytest.mark.parametrize("variant", FOREIGN)
def test_other_pages_change_nothing(client, variant, tmp_path):
    body = json.dumps({"bag": client.viewed.keys[0], "verdict": "agree"})
    headers = {**JSON, **FOREIGN[variant]}
    answer = changed(client, headers).post("/api/feedback", content=body)
    assert answer.status_code == 403 and answer.json() == {"error": "requests of other pages are refused."}
    answer = client.post("/session", content=json.dumps({"token": client.settings.token}))
    assert answer.status_code == 403 and "set-cookie" not in answer.headers
    assert not (tmp_path / "feedback.csv").exists()
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_two_origins_are_none(client):
    headers = [("Origin", OURS), ("Origin", OURS), *JSON.items()]
    answer = client.post("/api/feedback", content="{}", headers=headers)
    assert answer.status_code == 403


def test_preflights_get_no_permission(client):
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/feedback", headers=asked)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_other_pages_read_nothing(client):
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        for path in ("/api/set", "/static/session.js", "/worklist"):
            assert changed(client, {"Origin": None, **headers}).get(path).status_code == 403
            client.headers.pop("Sec-Fetch-Site", None)


def test_a_link_leads_to_the_page_without_data_only(stranger):
    changed(stranger, {"Origin": None, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
    assert stranger.get("/").status_code == 200
    assert stranger.get("/worklist").status_code == 403
    assert changed(stranger, {"Sec-Fetch-Mode": "no-cors"}).get("/").status_code == 403


def test_web_sockets_are_closed(client):
    from starlette.websockets import WebSocketDisconnect

    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/api/set", headers={"Origin": OURS}):
        pass


def test_every_route_but_three_needs_the_session(stranger):
    key = stranger.viewed.keys[0]
    for path in ("/worklist", f"/bag/{key}", "/api/set", "/api/bags", f"/api/bags/{key}", f"/api/bags/{key}/sprite",
                 f"/api/bags/{key}/slices/0", "/api/openapi.json", "/nothing"):  # fmt: skip
        answer = stranger.get(path)
        assert answer.status_code == 401 and set(answer.json()) == {"error"}, path
    assert stranger.post("/api/feedback", json={"bag": key}).status_code == 401
    assert stranger.get("/").status_code == 200 and stranger.get("/static/session.js").status_code == 200


@pytest.mark.parametrize("value", ["", "x", "{session}x", "{token}", "{session} ", "\xe9", "a" * 5000])
def test_a_wrong_cookie_is_no_session(stranger, value):
    value = value.format(session=stranger.settings.session[:-1], token=stranger.settings.token)
    cookie = f"{stranger.settings.cookie}={value}".encode("latin-1")
    assert stranger.get("/api/set", headers={b"Cookie": cookie}).status_code == 401


def test_a_cookie_among_others_is_a_session(stranger):
    stranger.headers["Cookie"] = f"a=b; {stranger.settings.cookie}={stranger.settings.session}; c"
    assert stranger.get("/api/set").status_code == 200


def test_the_cookie_stays_in_the_browser(stranger):
    answer = stranger.post("/session", json={"token": stranger.settings.token})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=strict", "path=/"):
        assert part in cookie
    assert "domain" not in cookie and stranger.settings.token.lower() not in cookie


def test_secrets_are_long_and_not_shown():
    settings = Settings(8123)
    assert len(settings.token) >= 43 and len(settings.session) >= 43 and settings.token != settings.session
    assert settings.token not in repr(settings) and settings.session not in repr(settings)
    assert Settings(8123).token != settings.token
    assert settings.link == f"{OURS}/#{settings.token}"


@pytest.mark.parametrize("token", ["", "x", "é", "\ud800", 7, None, ["a"], "a" * 201])
def test_a_wrong_token_opens_nothing(stranger, token):
    answer = stranger.post("/session", content=json.dumps({"token": token}), headers=JSON)
    assert answer.status_code in (401, 422) and "set-cookie" not in answer.headers
    assert stranger.get("/api/set").status_code == 401


def test_every_answer_has_the_headers(client, stranger):
    asked = [client.get("/"), client.get("/worklist"), client.get("/api/set"), client.get("/static/session.js"),
             client.get("/nothing"), client.delete("/api/set", headers=JSON), client.get("/api/bags?limit=0"),
             stranger.get("/api/set"), client.get("/", headers={"Host": "evil.example"}),
             client.post("/api/feedback", content="x", headers=JSON)]  # fmt: skip
    assert {a.status_code for a in asked} == {200, 401, 403, 404, 405, 422}
    for answer in asked:
        assert answer.headers["content-security-policy"] == CONTENT_POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "private, no-store"
        assert "server" not in answer.headers
    assert "unsafe" not in CONTENT_POLICY and "default-src 'none'" in CONTENT_POLICY


def test_pages_have_no_inline_code(client):
    for path in ("/", "/worklist", f"/bag/{client.viewed.keys[0]}"):
        text = client.get(path).text.lower()
        assert "<script>" not in text and "<style" not in text and " style=" not in text and "javascript:" not in text
        assert " onload=" not in text and " onclick=" not in text and "http://" not in text and "https://" not in text


def test_bodies_are_limited(client):
    post = client.build_request("POST", "/api/feedback", content=b" " * (MAX_BODY + 1), headers=JSON)
    assert client.send(post).status_code == 413
    chunks = (b" " * 65536 for _ in range(32))
    assert client.post("/api/feedback", content=chunks, headers=JSON).status_code == 413
    assert client.get("/api/set", headers={"X-Long": "a" * 17_000}).status_code == 431
    deep = client.post("/api/feedback", content="[" * 100_000, headers=JSON)
    assert deep.status_code == 400 and set(deep.json()) == {"error"}


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json, text/plain", ""]
)
def test_posts_must_be_json(client, kind):
    answer = client.post("/api/feedback", content=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 415


def test_refusals_are_logged_without_what_was_asked(client, caplog):
    with caplog.at_level(logging.INFO, "psimil"):
        client.get("/api/bags/CANARY", headers={"Host": "canary.example"})
    assert [record.getMessage() for record in caplog.records] == ["viewer: refused a request with 403"]


def test_a_bug_is_told_without_its_words(client, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError(SECRET)

    monkeypatch.setattr("psimil.viewer.api.bag_list", broken)
    answer = client.get("/api/bags")
    assert answer.status_code == 500 and answer.json() == {"error": "this is a bug in psimil."}
    assert SECRET not in caplog.text and "RuntimeError" in caplog.text
