"""Writing of a store: what is refused, and what remains when a writer fails or is killed."""

import errno
import os
import signal

import numpy as np
import pytest

from psimil import Bags, store
from psimil.foundations.errors import InputError, MissingFile, OutputError
from psimil.store import StoreWriter, digest, import_bags, open_store, read_manifest, verify_store
from psimil.store.digest import HashedFile, digest_file


@pytest.fixture
def path(tmp_path):
    """A store of two bags."""
    with StoreWriter(tmp_path / "store", 2, feature_names=["a", "b"]) as writer:
        writer.add([[1, 2], [3, 4]], 1, "one", [0, 1])
        writer.add([[5, 6]], 0, "two")
    return tmp_path / "store"


def intact(path):
    """The store of the fixture and nothing else is there."""
    assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith((".", "store"))] == ["store"]
    assert sorted(entry.name for entry in path.iterdir()) == ["manifest.json", "part-0001"]
    bags = open_store(path, verify=True)
    assert bags.X.tolist() == [[1, 2], [3, 4], [5, 6]] and bags.names.tolist() == ["one", "two"]
    assert bags.y.tolist() == [1, 0] and bags.y_instances.tolist() == [0, 1, -1]


def test_append(path):
    intact(path)
    with StoreWriter(path, 2, append=True) as writer:
        writer.add([[7, 8]], id=3)  # a number in a store with text as ids
    bags = open_store(path, verify=True)
    assert bags.names.tolist() == ["one", "two", "3"] and bags.y.tolist() == [1, 0, -1]
    assert bags.y_instances.tolist() == [0, 1, -1, -1] and bags["3"].tolist() == [[7, 8]]
    assert bags.feature_names == ("a", "b") and bags.X.dtype == np.float32
    manifest = read_manifest(path)
    assert [part.name for part in manifest.parts] == ["part-0001", "part-0002"] and manifest.generation == 2


def test_append_finds_the_features_by_name(path, write):
    import_bags(write("bag,b,c,a,label\nx,1,2,3,1\n"), path, append=True)
    assert open_store(path)["x"].tolist() == [[3, 1]]
    with pytest.raises(InputError, match='no column "a"'):
        import_bags(write("bag,b,label\ny,1,1\n"), path, append=True)
    with pytest.raises(InputError, match="bag x is in the store already"):
        import_bags(write("bag,a,b\nx,1,1\n"), path, append=True)
    assert len(open_store(path, verify=True)) == 3


def test_overwrite_replaces_all(path):
    old = open_store(path)
    with StoreWriter(path, 1, overwrite=True) as writer:
        writer.add([[9.0]], id=0)
        assert open_store(path).names.tolist() == ["one", "two"]
    assert old.X.tolist() == [[1, 2], [3, 4], [5, 6]]  # who has it open keeps it
    assert open_store(path, verify=True).X.tolist() == [[9]] and read_manifest(path).generation == 2
    assert sorted(entry.name for entry in path.iterdir()) == ["manifest.json", "part-0002"]
    (path / "manifest.json").write_text("{}")
    with StoreWriter(path, 1, overwrite=True) as writer:
        writer.add([[8.0]])
    assert open_store(path, verify=True).X.tolist() == [[8]] and len(list(path.iterdir())) == 2


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "store").mkdir()
    with StoreWriter(tmp_path / "store", 1) as writer:
        writer.add([[1.0]])
        writer.add([[2.0]])
    assert open_store(tmp_path / "store").names.tolist() == [0, 1]


BAD = {
    "shape": (lambda w: w.add([1, 2]), "expected (instances, features)"),
    "width": (lambda w: w.add([[1]]), "has 1 features, expected 2"),
    "empty": (lambda w: w.add(np.empty((0, 2))), "has 0 instances"),
    "text": (lambda w: w.add([["a", "b"]]), "must be real numbers"),
    "nan": (
        lambda w: w.add([[0, 1], [2, np.nan]], 1, "x"),
        "1 non-finite values, first at bag x, instance 1, feature 1.",
    ),
    "large": (lambda w: w.add([[0, 1e39]], 1, "x"), "too large for float32. Store the data as float64"),
    "label": (lambda w: w.add([[1, 2]], 2, "x"), "label of bag x is 2"),
    "known": (lambda w: w.add([[1, 2]], 1, "x", [5]), "an instance label is 5"),
    "known shape": (lambda w: w.add([[1, 2]], 1, "x", [1, 1]), "1 instances but instance labels of shape (2,)"),
    "twice": (lambda w: w.add([[1, 2]], 1, "one"), "bag one is in the store already"),
    "id": (lambda w: w.add([[1, 2]], 1, 1.5), "neither a whole number nor printable text"),
    "control": (lambda w: w.add([[1, 2]], 1, "a\nb"), "neither a whole number nor printable text"),
    "long": (lambda w: w.add([[1, 2]], 1, "a" * 1001), "neither a whole number nor printable text"),
    "labels": (lambda w: w.add_many(Bags.from_list([[[1, 2]]]), [1, 0]), "1 bags but labels of shape (2,)"),
    "rows": (lambda w: w.plan(["x"], [2]), "0 rows were given for 2 instances"),
    "place": (lambda w: w.place(np.array([0]), np.ones((1, 3))), "features have shape (1, 3), expected (1, 2)"),
    "label of none": (lambda w: w.label(np.array([1])), "one for each of 0 bags"),
    "none": (lambda w: None, "0 bags for the store"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_bags(path, case):
    act, message = BAD[case]
    with pytest.raises(InputError) as caught, StoreWriter(path, 2, append=True) as writer:
        act(writer)
    assert message in str(caught.value)
    intact(path)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, OutputError, "cannot write store: a store is there already."),
        ({"append": True, "overwrite": True}, InputError, "Choose one"),
        ({"append": True, "n_features": 3}, InputError, "the store has 2 features, got 3"),
        ({"append": True, "feature_names": ["a", "c"]}, InputError, 'feature "b" where the data has "c"'),
        ({"append": True, "dtype": "float64"}, InputError, "the store has float32"),
        ({"overwrite": True, "dtype": "int8"}, InputError, "dtype must be"),
        ({"overwrite": True, "n_features": 0}, InputError, "n_features must be a whole number >= 1, got 0."),
        ({"overwrite": True, "feature_names": ["a"]}, InputError, "2 features but 1 names"),
    ],
)
def test_bad_settings(path, arguments, error, message):
    with pytest.raises(error) as caught:
        StoreWriter(path, **{"n_features": 2, **arguments})
    assert message in str(caught.value)
    intact(path)


def test_text_does_not_fit_whole_numbers(tmp_path):
    with pytest.raises(InputError, match="is text, but the ids of the store are whole numbers"):
        with StoreWriter(tmp_path / "store", 1) as writer:
            writer.add([[1.0]], id=7)
            writer.add([[1.0]], id="seven")
    assert not list(tmp_path.iterdir())


def test_what_is_in_the_way_stays(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").write_text("mine")
    for name, message in (("file", "not a directory"), ("folder", "files that are not of a store"), ("no/s", "folder")):
        for overwrite in (False, True):
            with pytest.raises(OutputError, match=message):
                StoreWriter(tmp_path / name, 1, overwrite=overwrite)
    with pytest.raises(MissingFile, match="not a store"):
        StoreWriter(tmp_path / "new", 1, append=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


def test_one_writer_at_a_time(path):
    with StoreWriter(path, 2, append=True) as writer:
        with pytest.raises(OutputError, match="another process is writing"):
            StoreWriter(path, 2, append=True)
        writer.add([[7, 8]], id="three")
    assert writer._segment is None
    with pytest.raises(InputError, match="finished"):
        writer.add([[7, 8]], id="four")
    assert len(open_store(path)) == 3


# A full disk


@pytest.mark.parametrize("moment", ["write", "complete", "manifest", "rename"])
@pytest.mark.parametrize("how", ["new", "append", "overwrite"])
def test_a_full_disk_keeps_the_old_store(path, tmp_path, monkeypatch, how, moment):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "store-new" if how == "new" else path
    what = {
        "write": (HashedFile, "write"),
        "complete": (HashedFile, "complete"),
        "manifest": (store.transaction, "atomic_write"),
        "rename": (os, "replace"),
    }[moment]
    with pytest.raises(OutputError) as caught, monkeypatch.context() as patch:
        with StoreWriter(target, 2, append=how == "append", overwrite=how == "overwrite") as writer:
            patch.setattr(*what, full)
            writer.add([[7, 8]], id="three")
    name, kind = ("manifest.json", "file") if moment == "rename" else (target.name, "store")
    kept = "" if how == "new" else f" (old {kind} kept)"
    assert str(caught.value) == f"cannot write {name}: no space left{kept}."
    intact(path)


# A killed writer


def write_and_die(target, how, moment):
    with StoreWriter(target, 2, append=how == "append", overwrite=how == "overwrite") as writer:
        writer.add([[7, 8]], id="three")
        if moment == "before the manifest":
            store.transaction.atomic_write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        elif moment == "after the manifest":
            real = store.transaction.atomic_write
            store.transaction.atomic_write = lambda *a: (real(*a), os.kill(os.getpid(), signal.SIGKILL))
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def kill(target, how, moment):
    """A writer in a process of its own, forked from this one, for a new one would take seconds to start."""
    child = os.fork()
    if child == 0:
        try:
            write_and_die(target, how, moment)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("how", "moment"),
    [("new", "after the manifest"), ("append", "in time"), ("overwrite", "before the manifest")],
)
def test_a_killed_writer_leaves_the_old_store(path, tmp_path, how, moment):
    target = tmp_path / "other" if how == "new" else path
    kill(target, how, moment)
    assert open_store(path, verify=True).names.tolist() == ["one", "two"]
    left = [*path.glob("part-0002"), *tmp_path.glob(".psimil-*")]
    assert len(left) == 1
    with StoreWriter(target, 2, append=how == "append", overwrite=how == "overwrite") as writer:
        assert not (left[0] / "manifest.json").exists()  # nothing of it is left in the folder of the next writer
        writer.add([[9, 9]], id="four")
    assert open_store(target, verify=True)["four"].tolist() == [[9, 9]]
    assert not list(tmp_path.glob(".psimil-*"))
    assert len(list(target.iterdir())) == 1 + len(read_manifest(target).parts)


def test_a_writer_killed_after_the_manifest_has_written(path):
    kill(path, "overwrite", "after the manifest")
    assert open_store(path, verify=True).names.tolist() == ["three"]
    assert (path / "part-0001").exists()  # replaced, not yet removed
    with StoreWriter(path, 2, append=True) as writer:
        writer.add([[9, 9]], id="four")
    assert open_store(path, verify=True).names.tolist() == ["three", "four"]
    assert sorted(entry.name for entry in path.iterdir()) == ["manifest.json", "part-0002", "part-0003"]


# Checksums


def test_checksums_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(digest, "BLOCK", 10)
    data = bytes(range(25))
    with HashedFile(tmp_path / "in-order") as one, HashedFile(tmp_path / "not") as other:
        for start in range(0, 25, 4):
            one.write(data[start : start + 4])
        for start in (12, 0):
            other.write(data[start : start + 13], at=start)
        digests = [one.complete(), other.complete()]
    assert digests[0] == digests[1] == digest_file(tmp_path / "not")
    assert digests[0].bytes == 25 and len(digests[0].blocks) == 3
    (tmp_path / "not").write_bytes(data[:11] + b"x" + data[12:])
    with pytest.raises(InputError, match="not of the store was changed: its checksum differs between bytes 10 and 20"):
        list(digest.BlockCheck(tmp_path / "not", digests[0], "not").again())


def test_verify_tells_its_progress(path):
    steps = []
    manifest = verify_store(path, lambda: steps.append(1))
    assert len(steps) == store.reader.verify_steps(manifest) == 5
