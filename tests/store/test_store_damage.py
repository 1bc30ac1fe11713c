"""Damaged stores are refused with the name of the file."""

import hashlib
import json
import shutil

import numpy as np
import pytest

from psimil.foundations.errors import InputError, MissingFile
from psimil.store import StoreWriter, digest, manifest, open_store, verify_store
from tiny import fitted, problem, quick

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
        ("ids.json", np.frombuffer(b'["one 0", "two 0"]', "i1"), "part-0002/ids.json of the store was changed"),
        ("ids.json", np.frombuffer(b'["one 1",         ', "i1"), "it is not JSON"),
        ("ids.json", np.frombuffer(b'["one 1",       5]', "i1"), "it does not hold 2 ids (text)"),
    ],
)
def test_opening_checks_what_it_reads(path, name, content, message):
    (path / "part-0002" / name).write_bytes(content.tobytes())
    with pytest.raises(InputError) as caught:
        open_store(path)
    assert message in str(caught.value) and name in str(caught.value)


def test_an_id_that_is_there_twice_is_refused_whatever_the_checksums_say(path, monkeypatch):
    (path / "part-0002" / "ids.json").write_bytes(b'["one 0", "two 0"]')
    monkeypatch.setattr("psimil.store.digest.BlockCheck.before", lambda self, start, stop: None)
    with pytest.raises(InputError, match="an id is there twice"):
        open_store(path)


def test_a_disk_that_fails(path, monkeypatch):
    def broken(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("psimil.store.digest.BlockCheck._sha256", broken)
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
    rewritten(path, lambda facts: facts.update(version=4, extra=1))
    with pytest.raises(InputError, match=r"the store has version 4; this psimil reads 3\. Update psimil"):
        open_store(path)


@pytest.fixture
def as_in_a_new_process(monkeypatch):
    """Nothing was read yet; damage of a disk leaves no trace in the times of a file."""
    return lambda: monkeypatch.setattr(digest, "_CHECKED", {})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store of a small problem and a model of it."""
    bags, y, known = problem()
    path = tmp_path_factory.mktemp("trained") / "store"
    with StoreWriter(path, 3, dtype="float64") as writer:
        writer.add_many(bags, y, np.concatenate(bags.split(known)))
    return path, fitted()


USES = {
    "fit": lambda bags, model: quick(max_iter=2, tol=0.0).fit(bags, bags.y),
    "streamed fit": lambda bags, model: quick(max_iter=2, tol=0.0, chunk_size=20).fit(bags, bags.y),
    "predict": lambda bags, model: model.predict_proba(bags),
    "partial_fit": lambda bags, model: quick(max_iter=2, tol=0.0).partial_fit(bags, bags.y),
    "array": lambda bags, model: np.asarray(bags.X),
    "rows": lambda bags, model: bags.X[[3]],
    "bags": lambda bags, model: bags[::-1],
    "one after another": lambda bags, model: list(bags),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_f19_damaged_bytes_are_not_used(trained, as_in_a_new_process, faults, use):
    path, model = trained
    use(open_store(path), model)  # whole
    chance = np.random.default_rng(3)
    for name in FILES:
        file, turns = path / "part-0001" / name, faults.repeats("F19") // 4
        content = file.read_bytes()
        for position in chance.choice(len(content), min(turns, len(content)), replace=False):
            damaged = bytearray(content)
            damaged[position] ^= 1 << chance.integers(8)
            as_in_a_new_process()
            file.write_bytes(damaged)
            with pytest.raises(InputError, match=f"part-0001/{name} of the store was changed"):
                use(open_store(path), model)
            faults.add("F19")
        file.write_bytes(content)
    as_in_a_new_process()
    use(open_store(path), model)


def test_only_what_is_read_is_checked_and_only_once(tmp_path, as_in_a_new_process, monkeypatch):
    for module in (digest, manifest):
        monkeypatch.setattr(module, "BLOCK", 64)
    with StoreWriter(tmp_path / "s", 2, dtype="float64") as writer:
        for n in range(20):
            writer.add(np.full((2, 2), float(n)))  # two bags in a block
    file = tmp_path / "s" / "part-0001" / "features.bin"
    content = bytearray(file.read_bytes())
    content[64 * 5 + 3] ^= 1
    as_in_a_new_process()
    file.write_bytes(content)
    store, hashed = open_store(tmp_path / "s"), []
    whole = digest.BlockCheck._sha256
    monkeypatch.setattr(digest.BlockCheck, "_sha256", lambda self, n: (hashed.append(n), whole(self, n))[1])
    rows = store.stream
    assert rows[:20].shape == (20, 2) and rows[24:].shape == (16, 2)
    for wrong in (slice(18, 21), slice(None), slice(20, 22)):
        with pytest.raises(InputError, match="its checksum differs between bytes 320 and 384"):
            rows[wrong]
    assert store[9].shape == (2, 2)
    for wrong in (lambda: store[10], lambda: store.X, lambda: store[:3]):
        with pytest.raises(InputError, match="its checksum differs between bytes 320 and 384"):
            wrong()
    assert [n for n in hashed if n != 5] == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert len(open_store(tmp_path / "s").stream[:20]) == 20
    assert [n for n in hashed if n != 5] == [0, 1, 2, 3, 4, 6, 7, 8, 9]  # a store that is opened again, too
