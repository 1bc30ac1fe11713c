"""``psimil ct watch`` on a real archive: scans in, reports out, once each; and what must never be seen."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

pytest.importorskip("torch")

from pydicom import dcmread

from commands import ROOT, call, fails
from ct_files import uid_of, write_series
from ct_studies import FEW, SLICES, write_studies
from orthanc import PLUGIN, free_port, orthanc, plugin, program, why_not
from psimil.ct.dicomweb.archive import Archive
from psimil.ct.dicomweb.connection import Connection
from psimil.ct.scans.identity import Hasher

needs_orthanc = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
STUDIES = [uid_of(f"study 0 {number}") for number in range(2)]


@pytest.fixture(autouse=True, scope="module")
def key(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PSIMIL_ID_KEY_FILE", str(tmp_path_factory.mktemp("key") / "id.key"))
        yield


@pytest.fixture(scope="module")
def studies(tmp_path_factory):
    return write_studies(tmp_path_factory.mktemp("ct"))


@pytest.fixture(scope="module")
def model(studies, tmp_path_factory):
    out = tmp_path_factory.mktemp("trained") / "model"
    done = call("ct", "train", studies, "--labels", studies.parent / "scans.csv", "--out", out, *FEW)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture
def archive(tmp_path, studies):
    (tmp_path / "orthanc").mkdir()
    with orthanc(tmp_path / "orthanc") as archive:
        for number in range(2):
            archive.upload(*(studies / str(number)).iterdir())
        yield archive


def watch(archive, model, out, *more):
    return call("ct", "watch", archive.url, "--model", model, "--out", out, "--every", 0, *more)


@needs_orthanc
def test_scans_of_an_archive_are_reported_to_it_once(archive, studies, model, tmp_path):
    from psimil.ct import read_report

    out = tmp_path / "watch"
    bad = write_series(tmp_path / "bad", SLICES, spacing=20.0, study="bad", Rows=33)
    archive.upload(*bad)
    first = watch(archive, model, out)
    assert first.exit_code == 0, first.output
    assert "3 studies: 3 found." in first.stdout
    for _ in range(3):  # read and reported, their reports seen, nothing
        done = watch(archive, model, out, "--json")
        assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["studies"] == {"reported": 3}
    table = pd.read_csv(out / "studies.csv", keep_default_na=False).set_index("id")
    ids = {uid: Hasher.of_user()(uid) for uid in [*STUDIES, uid_of("bad")]}
    assert table["state"].to_dict() == dict.fromkeys(ids.values(), "reported")
    unread = "could not be analysed: cannot be read"
    assert table.loc[ids[uid_of("bad")], ["refer", "reason"]].tolist() == [True, unread]

    predicted = call("ct", "predict", studies, "--model", model, "--out", tmp_path / "run", "--figures", 0)
    assert predicted.exit_code == 0, predicted.output
    bags = pd.read_csv(tmp_path / "run" / "bags.csv", dtype={"bag": str}).set_index("bag")
    assert len(json.loads(archive.ask("studies"))) == 3  # the reports are filed in the studies, not beside them
    assert archive.ask(f"dicom-web/studies/{STUDIES[0]}").count(b"DICM") > SLICES
    for uid, (report,) in archive.reports().items():
        (tmp_path / "report.dcm").write_bytes(report)
        found = read_report(tmp_path / "report.dcm")
        assert found["reason"][0] == table.loc[ids[uid], "reason"]
        if uid == uid_of("bad"):
            assert found["obstacle"].tolist() == ["cannot be read"]
        else:
            assert len(found) == SLICES + 1
            assert found["prob"][0] == pytest.approx(bags["prob"][ids[uid]], abs=1e-12)

    files = [file for file in out.rglob("*") if file.is_file()]
    said = first.output + done.output + "".join(map(str, files))
    said += "".join(file.read_text(errors="replace") for file in files if file.suffix != ".dcm")
    assert "anary" not in said and not any(uid in said for uid in ids)


@needs_orthanc
def test_what_comes_back_from_the_archive_is_what_was_sent(archive, model, tmp_path):
    """STOW, QIDO, WADO: the same elements."""
    out = tmp_path / "watch"
    for _ in range(2):
        assert watch(archive, model, out).exit_code == 0
    sent = [dcmread(file) for file in sorted(out.rglob("*.dcm"))]
    assert [report.Modality for report in sent].count("SR") == 2
    found = Archive(Connection.of(archive.url), ("SR", "KO"))
    listed = {instance.uid: instance for uid in STUDIES for instance in found.instances(uid)}
    assert listed.keys() == {report.SOPInstanceUID for report in sent}
    for report in sent:
        found.fetch(listed[report.SOPInstanceUID], tmp_path / "back.dcm", 1 << 20)
        assert dcmread(tmp_path / "back.dcm") == report


def gone():
    return f"http://127.0.0.1:{free_port()}/dicom-web"


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_a_server_that_is_gone_ends_one_look_but_not_a_watch(model, tmp_path, monkeypatch, stop, code):
    done = call("ct", "watch", gone(), "--model", model, "--out", tmp_path / "a", "--every", 0, "--quiet")
    fails(done, 74, "cannot be reached (connection refused)")
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise stop

    monkeypatch.setattr("psimil.cli.ct_watch.time.sleep", sleep)
    done = call("ct", "watch", gone(), "--model", model, "--out", tmp_path / "b", "--every", 7)
    assert done.exit_code == code and slept == [7, 7, 7]
    assert "warning: the server cannot be reached (connection refused)." in done.stderr


@pytest.mark.slow
def test_signals_end_a_watch_without_a_traceback(model, tmp_path):
    command = [sys.executable, "-m", "psimil", "ct", "watch", gone(), "--model", str(model), "--every", "0.1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        running = subprocess.Popen(
            [*command, "--out", str(tmp_path / "b")], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )  # fmt: skip
        assert running.stderr.readline() == "warning: the server cannot be reached (connection refused).\n"
        time.sleep(0.3)
        running.send_signal(number)
        _, said = running.communicate(timeout=60)
        assert running.returncode == code and "Traceback" not in said
    assert not (tmp_path / "b" / "incoming").exists()


def test_a_watch_says_what_it_needs(model, tmp_path):
    url = "http://127.0.0.1:1/dicom-web"
    fails(call("ct", "watch", url, "--model", model), 2, "Missing option '--out'")
    fails(
        call("ct", "watch", "ftp://x", "--model", model, "--out", tmp_path / "a"), 65, "http://localhost:8042/dicom-web"
    )
    fails(call("ct", "watch", url, "--model", tmp_path / "none", "--out", tmp_path / "a"), 66)
    fails(call("ct", "watch", url, "--model", model, "--out", tmp_path / "a", "--show-ids"), 2, "No such option")
    fails(call("ct", "watch", url, "--model", model, "--out", model), 74, "not of a watch")


@needs_orthanc
@pytest.mark.slow
def test_the_page_on_archives_runs_as_it_is_written(tmp_path):
    """All blocks of its first section in one shell, but for what installs packages; the port is a free one."""
    page = (ROOT / "docs" / "how-to" / "pacs.md").read_text(encoding="utf-8").split("\n## ")[1]
    blocks = [
        block for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "sudo" not in block
    ]
    assert len(blocks) == 4
    script = "set -eu\ntrap 'kill $(jobs -p)' EXIT\n" + "\n".join(blocks)
    for written, here in (("8042", free_port()), ("/usr/sbin/Orthanc", program()), (f"/{PLUGIN}", plugin())):
        assert written in script
        script = script.replace(written, str(here))
    shim = tmp_path / "bin" / "psimil"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m psimil "$@"\n')
    shim.chmod(0o700)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PATH": f"{shim.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "3 studies: 3 found." in done.stdout and done.stdout.count("3 studies: 3 reported.") == 2
    assert done.stdout.splitlines()[-1] == "3"
