"""``psimil view``: what it prints, where it listens, what it leaves, and what it refuses."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from commands import ROOT, call, fails
from psimil.foundations.extras import install_command
from psimil.viewer.server import bound_socket
from viewed import ct_results, feature_results

NOTE = "Research use only, not a medical device."


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    feature_results().write(folder / "results.safetensors")
    return folder


@contextlib.contextmanager
def viewing(*arguments, **more):
    """A running ``psimil view``: its process and the link that it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1", **more}
    command = [sys.executable, "-m", "psimil", "view", *map(str, arguments)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as found:
        try:
            yield found, found.stdout.readline().strip()
        finally:
            found.kill()


@contextlib.contextmanager
def client_of(link):
    """A client with a session, after one question without."""
    address, token = link.split("/#")
    with httpx.Client(base_url=address, headers={"Origin": address}, timeout=300) as client:
        assert client.get("/api/set").status_code == 401
        assert client.post("/session", json={"token": token}).status_code == 204
        yield client


def stopped(process, sent=signal.SIGINT):
    process.send_signal(sent)
    return process.communicate(timeout=600)


def test_it_serves_this_computer_alone_and_ends_quietly(results):
    with viewing(results, "--no-browser") as (process, link):
        address, token = link.split("/#")
        assert address.startswith("http://127.0.0.1:") and len(token) >= 43
        with client_of(link) as client:
            assert client.get("/api/set").json()["bags"] == 30
            assert client.get("/worklist").status_code == 200
        port = f"{int(address.rsplit(':')[-1]):04X}"
        lines = [
            line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()
        ]
        assert [line[1] for line in lines if line[3] == "0A" and line[1].endswith(f":{port}")] == [f"0100007F:{port}"]
        for name in ("cmdline", "environ"):
            assert token.encode() not in Path(f"/proc/{process.pid}/{name}").read_bytes()
        more = [process.stdout.readline().strip() for _ in range(2)]
        printed, complaints = stopped(process)
    assert process.returncode == 0 and complaints == ""
    assert more == [NOTE, "Stop with Ctrl-C."] and printed == ""  # the token once
    assert [path.name for path in results.iterdir()] == ["results.safetensors"]


def test_a_killed_viewer_leaves_nothing_after_the_next_but_feedback_for_its_owner(results):
    with viewing(results, BROWSER="true %s", DISPLAY=":9") as (process, _):
        process.stdout.readline()
        stopped(process, signal.SIGKILL)
    with viewing(results, "--no-browser") as (process, link):
        with client_of(link) as client:
            assert [path.name for path in results.iterdir()] == ["results.safetensors"]
            key = client.get("/api/bags").json()["bags"][0]["key"]
            assert client.post("/api/feedback", json={"bag": key, "verdict": "agree"}).status_code == 200
        stopped(process)
    assert sorted(path.name for path in results.iterdir()) == ["feedback.csv", "results.safetensors"]
    assert stat.S_IMODE((results / "feedback.csv").stat().st_mode) == 0o600


def test_the_link_reaches_the_browser_in_a_private_file(results, tmp_path):
    script = tmp_path / "browser.py"
    script.write_text(
        "import os, shutil, sys\n"
        f"open({str(tmp_path / 'arguments')!r}, 'w').write(' '.join(sys.argv))\n"
        f"shutil.copy({str(results / 'open-viewer.html')!r}, {str(tmp_path / 'seen.html')!r})\n"
        f"os.rename({str(tmp_path / 'arguments')!r}, {str(tmp_path / 'done')!r})\n"
    )
    with viewing(results, BROWSER=f"{sys.executable} {script} %s", DISPLAY=":9") as (process, link):
        page = results / "open-viewer.html"
        with client_of(link):
            pass
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert link in page.read_text()
        stopped(process)
    assert not page.exists()
    arguments = (tmp_path / "done").read_text()
    assert arguments.endswith("open-viewer.html") and link.split("#")[1] not in arguments


@pytest.mark.slow
def test_scans_are_found_again_in_their_folder(tmp_path):
    found, studies = ct_results(tmp_path / "phantoms")
    (tmp_path / "run").mkdir()
    found.write(tmp_path / "run" / "results.safetensors")
    key = tmp_path / "id.key"
    key.write_bytes(b"0" * 32)  # the key of viewed.HASHER
    key.chmod(0o600)
    with viewing(tmp_path / "run", "--dicom", studies, "--no-browser", PSIMIL_ID_KEY_FILE=str(key)) as (process, link):
        with client_of(link) as client:
            assert client.get("/api/set").json()["has_volumes"] is True
            for row in client.get("/api/bags").json()["bags"]:
                assert len(client.get(f"/api/bags/{row['key']}/slices/0").content) == 2 * 32 * 32
        _, complaints = stopped(process)
    assert complaints == ""


def test_other_computers_need_a_word_of_understanding(results):
    fails(call("view", results, "--host", "0.0.0.0"), 2, "--i-understand-no-tls")
    fails(call("view", results, "--host", "192.0.2.1", "--i-understand-no-tls"), 74, "not of this computer")
    with viewing(results, "--host", "0.0.0.0", "--i-understand-no-tls", "--no-browser") as (process, link):
        with client_of(link) as client:
            port = client.base_url.port
            assert client.get("/api/set", headers={"Host": f"rebound.example:{port}"}).status_code == 403
        _, complaints = stopped(process)
    assert complaints.startswith("WARNING: other computers can reach this viewer") and "encrypted" in complaints


def test_what_cannot_be_shown_is_told(results, tmp_path):
    fails(call("view", tmp_path / "none"), 66, "was not found (results.safetensors)")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "results.safetensors").write_bytes(b"x" * 100)
    fails(call("view", tmp_path / "bad"), 65, "results file")
    fails(call("view", results, "--dicom", tmp_path), 2, "psimil ct predict")
    with bound_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        fails(call("view", results, "--port", port), 74, f"port {port} is in use; try --port {port + 1}")
    (results / "feedback.csv").write_text("x")
    fails(call("view", results, "--no-browser"), 65, "feedback.csv must have the columns")


def test_missing_packages_are_named(results, monkeypatch):
    monkeypatch.setattr("psimil.cli.next_steps.find_spec", lambda name: None)
    fails(call("view", results), 65, install_command("viewer"))


def test_nothing_of_the_server_is_imported_without_it():
    code = (
        "import sys, psimil\nfrom psimil.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([n for n in ('fastapi', 'starlette', 'uvicorn', 'jinja2', 'pydantic', 'anyio') if n in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]" and "view" in done.stdout
