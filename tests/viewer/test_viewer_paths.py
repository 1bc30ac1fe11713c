"""Paths that lead out of a folder where they are believed lead nowhere here: no file is opened for any of them."""

import itertools
import socket
import sys

from viewed import serving, viewed_of

SECRET = "CANARY-OUTSIDE-THE-VIEWER"


def path_payloads():
    """More than 200 paths that lead out of a folder where they are believed."""
    ups = [
        "../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..\\", "%252e%252e%252f", "....//", "..;/", "%c0%ae%c0%ae/",
        "%e0%80%ae%e0%80%ae%c0%af", "..%c0%af", "%uff0e%uff0e/", "..%00/",
        ".%2e/", "%2e./", "//", "/./../", "..%ef%bc%8f",
    ]  # fmt: skip
    targets = ["etc/passwd", "secret.txt", "feedback.csv", "results.safetensors"]
    absolute = [
        "/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "file:///etc/passwd", "C:/Windows/win.ini", "C:%5cboot.ini",
        "\\\\host\\share\\x", "%5c%5chost%5cshare", "\\\\?\\C:\\x", "//host/share", "CON", "NUL", "aux.js", "/dev/zero",
        "/proc/self/environ", "%00", "session.js%00.png", "viewer.css/", "viewer.css/../../app.py", "a" * 5000, "~root",
        "$HOME", "?url=http://evil.example", "..", ".", "%2e", "",
        " ", "%20", "*", "app.py", "../app.py", ".git/config",
    ]  # fmt: skip
    roots = ["/static/", "/bag/", "/api/bags/"]
    climbing = [f"{root}{up * 6}{target}" for root, up, target in itertools.product(roots, ups, targets)]
    return [*climbing, *(f"{root}{path}" for root, path in itertools.product(roots, absolute))]


OPENED = []
WATCH = [False]


def _note(event, arguments):
    if WATCH[0] and event == "open":
        OPENED.append(str(arguments[0]))


def raw(settings, target):
    """Status and body of a request whose target is sent as it is."""
    head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{settings.port}\r\nConnection: close\r\n"
    head += f"Cookie: {settings.cookie}={settings.session}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", settings.port), timeout=300) as connection:
        connection.sendall(head.encode("latin-1"))
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    return int(answer.split(b" ", 2)[1]), answer


def test_no_path_leads_to_a_file(tmp_path):
    viewed = viewed_of("features", tmp_path)
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "feedback.csv").write_text(SECRET)
    sys.addaudithook(_note)
    with serving(viewed) as settings:
        assert raw(settings, "/worklist")[0] == 200
        for warm in ("/bag/x", "/api/bags/x", "/static/x", "/nothing"):  # what the framework reads once: its own source
            assert raw(settings, warm)[0] in (404, 422)
        OPENED.clear()
        WATCH[0] = True
        try:
            found = {target: raw(settings, target) for target in path_payloads()}
        finally:
            WATCH[0] = False
    assert len(found) >= 200
    statuses = {target: status for target, (status, _) in found.items()}
    served = {target for target, status in statuses.items() if status not in (400, 404, 422)}
    assert not served
    for _, answer in found.values():
        assert SECRET.encode() not in answer and b"root:" not in answer and b"import " not in answer
    assert OPENED == []
