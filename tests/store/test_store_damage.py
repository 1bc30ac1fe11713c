"""Damaged stores are refused with the name of the file."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from psimil.foundations.errors import InputError, MissingFile
from psimil.store import StoreWriter, open_store, verify_store

FILES = ["features.bin", "offsets.bin", "labels.bin", "instance_labels.bin", "ids.json"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "store"
    for part in range(2):
        with StoreWriter(path, 2, append=part > 0, feature_names=["a", "b"]) as writer:
            writer.add([[1, 2], [3, 4]], 1, f"one {part}", [0, 1])
            writer.add([[5, 6]], 0, f"two {part}")
    return path


@pytest.fixture
def path(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "store")


@pytest.mark.parametrize("part", ["part-0001", "part-0002"])
@pytest.mark.parametrize("name", FILES)
def test_every_file(path, part, name):
    file = path / part / name
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    for reader in (open_store, verify_store):
        with pytest.raises(InputError) as caught:
            reader(path)
        n = len(content)
        assert str(caught.value) == f"{part}/{name} of the store has {n - 1} of {n} bytes; it is cut short."
    file.write_bytes(content + b"x")
    with pytest.raises(InputError, match=f"{part}/{name} of the store was changed: it has"):
        open_store(path)
    for position in range(len(content)):
        file.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(InputError) as caught:
            open_store(path, verify=True)
        assert str(caught.value) == (
            f"{part}/{name} of the store was changed: its checksum differs. Import the data again."
        )
    file.unlink()
    with pytest.raises(InputError, match=f"{part}/{name} of the store is missing"):
        open_store(path)
    file.mkdir()
    with pytest.raises(InputError, match=f"{part}/{name} of the store is missing"):
        verify_store(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("offsets.bin", np.array([0, 4, 3], "<i8"), "does not fit the instances"),
        ("offsets.bin", np.array([0, 0, 3], "<i8"), "does not fit the instances"),
        ("offsets.bin", np.array([0, 2, 9], "<i8"), "does not fit the instances"),
        ("offsets.bin", np.array([1, 2, 3], "<i8"), "does not fit the instances"),
        ("labels.bin", np.array([1, 2], "i1"), "labels that are not 0, 1 or -1"),
        ("instance_labels.bin", np.array([1, 0, -2], "i1"), "labels that are not 0, 1 or -1"),
        ("ids.json", np.frombuffer(b'["one 0", "two 0"]', "i1"), "an id is there twice"),
        ("ids.json", np.frombuffer(b'["one 1",         ', "i1"), "it is not JSON"),
        ("ids.json", np.frombuffer(b'["one 1",       5]', "i1"), "it does not hold 2 ids (text)"),
    ],
)
def test_opening_checks_what_it_reads(path, name, content, message):
    (path / "part-0002" / name).write_bytes(content.tobytes())
    with pytest.raises(InputError) as caught:
        open_store(path)
    assert message in str(caught.value) and name in str(caught.value)


def test_a_disk_that_fails(path, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("psimil.store.reader.digest_file", broken)
    with pytest.raises(InputError, match=r"part-0001/features\.bin of the store cannot be read: input/output error"):
        verify_store(path)


def test_no_store(path, tmp_path):
    with pytest.raises(MissingFile, match=r"has no manifest\.json"):
        open_store(path / "part-0001")
    with pytest.raises(MissingFile, match="is not a store"):
        open_store(path / "manifest.json")
    shutil.rmtree(path / "part-0001")
    with pytest.raises(InputError, match=r"part-0001/features\.bin of the store is missing|part-0001/.* is missing"):
        open_store(path)


def test_every_byte_of_the_manifest(path):
    content = (path / "manifest.json").read_bytes()
    for position in range(0, len(content), 5):
        changed = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
        (path / "manifest.json").write_bytes(changed)
        with pytest.raises(InputError):
            open_store(path)
    for length in range(0, len(content), 50):
        (path / "manifest.json").write_bytes(content[:length])
        with pytest.raises(InputError, match=r"manifest\.json of the store is damaged: it is"):
            open_store(path)


def rewritten(path, change):
    """Change the manifest and, unless that was changed, give it the checksum that it then should have."""
    facts = json.loads((path / "manifest.json").read_text())
    before = facts["checksum"]
    change(facts)
    if facts.get("checksum") == before:
        del facts["checksum"]
        facts["checksum"] = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    (path / "manifest.json").write_text(json.dumps(facts, indent=1) + "\n")


def test_the_helper_makes_valid_manifests(path):
    rewritten(path, lambda facts: facts.update(feature_names=["x", "y"]))
    assert open_store(path, verify=True).feature_names == ("x", "y")


KEYS = ["format", "version", "generation", "dtype", "features", "feature_names", "ids", "finite", "bags"]
KEYS += ["instances", "parts", "checksum"]
PLACES = [(key,) for key in KEYS]
PLACES += [("parts", 1, key) for key in ("name", "bags", "instances", "files")]
PLACES += [("parts", 1, "files", "features.bin", key) for key in ("bytes", "sha256", "blocks")]
PLACES += [("parts", 1, "files", name) for name in FILES]


def holder(facts, place):
    for step in place[:-1]:
        facts = facts[step]
    return facts


def test_the_keys_are_all_there(path):
    assert sorted(json.loads((path / "manifest.json").read_text())) == sorted(KEYS)


@pytest.mark.parametrize("place", PLACES, ids=lambda place: "/".join(map(str, place)))
def test_every_key_of_the_manifest(path, place):
    original = (path / "manifest.json").read_bytes()
    value = holder(json.loads(original), place)[place[-1]]
    wrong = [[], {}, "", "x", -1, 0, 1.5, 10**30, True, False, [[[]]], "part-0001", "../part-0001", 2**63]
    changes = [lambda at, v=v: at.update({place[-1]: v}) for v in wrong if v != value or type(v) is not type(value)]
    if place[-1] not in ("feature_names",):
        changes.append(lambda at: at.update({place[-1]: None}))
    if place[-1] != "instance_labels.bin":
        changes.append(lambda at: at.pop(place[-1]))
    changes.append(lambda at: at.update(another=1))
    for change in changes:
        (path / "manifest.json").write_bytes(original)
        rewritten(path, lambda facts, change=change: change(holder(facts, place)))
        if place == ("generation",) and json.loads((path / "manifest.json").read_text()).get("generation") == 1:
            continue
        with pytest.raises(InputError) as caught:
            open_store(path)
        assert "of the store" in str(caught.value) or "the store has version" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("content", [b"[" * 100_000, b"1" * 5000, b"null", b"\xff\xfe", b'{"format": NaN}'])
def test_hostile_manifests(path, content):
    (path / "manifest.json").write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        open_store(path)


def test_a_newer_version_says_so(path):
    rewritten(path, lambda facts: facts.update(version=3, extra=1))
    with pytest.raises(InputError, match=r"the store has version 3; this psimil reads 2\. Update psimil"):
        open_store(path)
