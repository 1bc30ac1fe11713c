import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from psimil.ct.scans.identity import Hasher, key_path
from psimil.foundations.errors import InputError, OutputError

KEY = bytes(range(32))


def test_ids_are_hex_stable_and_keyed():
    hasher = Hasher(KEY)
    ids = {hasher(f"1.2.{n}") for n in range(2000)}
    assert len(ids) == 2000
    assert all(len(i) == 16 and set(i) <= set("0123456789abcdef") for i in ids)
    assert hasher("1.2.3") == Hasher(KEY)("1.2.3") != Hasher(KEY[::-1])("1.2.3")
    assert hasher("Müller^Jürgen\udcff") != hasher("Müller^Jürgen")


def test_the_key_is_not_shown():
    assert "01" not in repr(Hasher(KEY)) and repr(Hasher(KEY)) == "Hasher()"


@pytest.mark.parametrize("key", [b"", b"short", bytes(33), "x" * 32])
def test_wrong_keys_are_refused(key):
    with pytest.raises(InputError, match="must be 32 bytes"):
        Hasher(key)


def test_the_key_of_a_user_is_made_once(tmp_path, monkeypatch):
    monkeypatch.delenv("PSIMIL_ID_KEY_FILE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    old = os.umask(0)
    try:
        first = Hasher.of_user()
    finally:
        os.umask(old)
    path = tmp_path / "data" / "psimil" / "id.key"
    assert path == key_path() and path.stat().st_mode & 0o777 == 0o600 and len(path.read_bytes()) == 32
    assert Hasher.of_user() == first == Hasher.of_user(path)
    assert [p.name for p in path.parent.iterdir()] == ["id.key"]  # nothing is left behind


def test_where_the_key_is(tmp_path, monkeypatch):
    monkeypatch.setenv("PSIMIL_ID_KEY_FILE", str(tmp_path / "mine"))
    assert key_path() == tmp_path / "mine"
    assert Hasher.of_user() == Hasher((tmp_path / "mine").read_bytes())
    monkeypatch.delenv("PSIMIL_ID_KEY_FILE")
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_DATA_HOME", value)
        assert key_path() == tmp_path / ".local" / "share" / "psimil" / "id.key"


def test_a_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "id.key"
    path.write_bytes(KEY)
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(InputError, match="can be read by others; protect it with: chmod 600"):
            Hasher.of_user(path)
    path.chmod(0o400)
    assert Hasher.of_user(path) == Hasher(KEY)


@pytest.mark.parametrize("content", [b"", KEY[:31], KEY + b"\n"])
def test_a_file_that_is_no_key_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "id.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InputError, match="is not a key of 32 bytes"):
        Hasher.of_user(path)
    assert path.read_bytes() == content


def test_a_pipe_and_a_folder_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder"):
        with pytest.raises(InputError, match="is not a regular file; remove it"):
            Hasher.of_user(tmp_path / name)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((OutputError, InputError), match="key file"):
        Hasher.of_user(tmp_path / "file" / "id.key")
    with pytest.raises(OutputError, match="Name another with PSIMIL_ID_KEY_FILE"):
        Hasher.of_user("/proc/psimil/id.key")


def test_of_many_that_start_together_one_makes_the_key(tmp_path):
    def ask(path, start):
        start.wait(timeout=300)
        return Hasher.of_user(path)

    with ThreadPoolExecutor(6) as pool:
        for attempt in range(20):
            path, start = tmp_path / str(attempt) / "id.key", threading.Barrier(6)
            found = list(pool.map(lambda _, p=path, s=start: ask(p, s), range(6)))
            assert all(hasher == Hasher(path.read_bytes()) for hasher in found)
            assert [entry.name for entry in path.parent.iterdir()] == ["id.key"]
