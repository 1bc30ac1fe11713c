import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from psimil.files import atomic
from psimil.files.atomic import atomic_write
from psimil.foundations.errors import OutputError

SRC = Path(atomic.__file__).parents[2]


def text(content):
    return lambda stream: stream.write(content.encode())


def failing(number):
    def write(stream):
        stream.write(b"half")
        raise OSError(number, os.strerror(number))

    return write


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "results.csv"
    path.write_text("old")
    assert os.listdir(tmp_path) == ["results.csv"]
    return path


def test_creates_and_replaces(target):
    fresh = target.with_name("fresh.csv")
    atomic_write(fresh, text("new"))
    atomic_write(str(target), text("new"))
    assert fresh.read_text() == target.read_text() == "new"
    assert sorted(os.listdir(target.parent)) == ["fresh.csv", "results.csv"]


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "no space left"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "input/output error"),
    ],
)
def test_failure_keeps_the_old_file(target, number, reason):
    with pytest.raises(OutputError) as caught:
        atomic_write(target, failing(number))
    assert str(caught.value) == f"cannot write results.csv: {reason} (old file kept)."
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == ["results.csv"]


def test_failure_without_an_old_file_does_not_promise_one(tmp_path):
    with pytest.raises(OutputError) as caught:
        atomic_write(tmp_path / "results.csv", failing(errno.ENOSPC))
    assert str(caught.value) == "cannot write results.csv: no space left."
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_other_exceptions_pass_through_and_leave_nothing(target, kind):
    def write(stream):
        stream.write(b"half")
        raise kind

    with pytest.raises(kind):
        atomic_write(target, write)
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == ["results.csv"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_failure_at_the_last_step_keeps_the_old_file(target, monkeypatch, step):
    def broken(*args):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(atomic.os, step, broken)
    with pytest.raises(OutputError, match="old file kept"):
        atomic_write(target, text("new"))
    assert target.read_text() == "old"
    assert os.listdir(target.parent) == ["results.csv"]


def test_error_without_a_number_is_shown_as_it_is(target):
    def write(stream):
        raise OSError("the disk is tired")

    with pytest.raises(OutputError, match=r"cannot write results.csv: the disk is tired .old file kept"):
        atomic_write(target, write)


def test_file_then_directory_are_flushed(target, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(atomic.os, "fsync", lambda fd: (calls.append(stat.S_ISDIR(os.fstat(fd).st_mode)), fsync(fd))[1])
    monkeypatch.setattr(atomic.os, "replace", lambda a, b: (calls.append("replace"), replace(a, b))[1])
    atomic_write(target, text("new"))
    assert calls == [False, "replace", True]


def test_directory_missing_folder_and_special_file(tmp_path):
    with pytest.raises(OutputError, match="it is a directory"):
        atomic_write(tmp_path, text("new"))
    with pytest.raises(OutputError, match=r"cannot write a\.csv: its folder does not exist\."):
        atomic_write(tmp_path / "none" / "a.csv", text("new"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="it is not a regular file"):
        atomic_write(tmp_path / "pipe", text("new"))


def test_permissions_are_kept_and_new_files_follow_the_umask(target):
    target.chmod(0o600)
    atomic_write(target, text("new"))
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    fresh, plain = target.with_name("fresh"), target.with_name("plain")
    atomic_write(fresh, text("new"))
    plain.write_text("new")
    assert fresh.stat().st_mode == plain.stat().st_mode


def test_a_link_stays_a_link(target):
    link = target.with_name("latest.csv")
    link.symlink_to(target.name)
    atomic_write(link, text("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("name", ["with space.csv", "line\nbreak", "n" * 255, "é" * 120, "-rf", "*.csv"])
def test_odd_names(tmp_path, name):
    atomic_write(tmp_path / name, text("new"))
    assert (tmp_path / name).read_text() == "new"
    assert len(os.listdir(tmp_path)) == 1


def test_many_writers_leave_one_complete_file(target):
    contents = [str(k) * 100_000 for k in range(8)]
    threads = [threading.Thread(target=lambda c=c: [atomic_write(target, text(c)) for _ in range(5)]) for c in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_text() in contents
    assert os.listdir(target.parent) == ["results.csv"]


def test_a_killed_writer_tears_nothing_and_is_cleaned_up(target):
    script = textwrap.dedent(
        """
        import sys, time
        from psimil.files.atomic import atomic_write
        def write(stream):
            stream.write(b"half"); stream.flush(); print("ready", flush=True); time.sleep(60)
        atomic_write(sys.argv[1], write)
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    with subprocess.Popen(
        [sys.executable, "-c", script, target], stdout=subprocess.PIPE, text=True, env=environment
    ) as writer:
        assert writer.stdout.readline() == "ready\n"
        atomic_write(target, text("meanwhile"))
        assert len(list(target.parent.iterdir())) == 2  # a live writer's file is left alone
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    assert target.read_text() == "meanwhile"
    atomic_write(target, text("new"))
    assert target.read_text() == "new"
    assert os.listdir(target.parent) == ["results.csv"]


def test_a_temporary_taken_for_abandoned_is_made_again(target, monkeypatch):
    flock, stolen = atomic.fcntl.flock, []

    def steal_first(descriptor, operation):
        if not stolen:
            stolen.extend(target.parent.glob(".psimil-*.tmp"))
            stolen[0].unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(atomic.fcntl, "flock", steal_first)
    atomic_write(target, text("new"))
    assert len(stolen) == 1
    assert target.read_text() == "new"
