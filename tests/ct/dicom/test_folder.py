import os
import socket

import pytest

from ct_files import write_series, write_slice
from psimil.ct.dicom.folder import list_folder, open_file
from psimil.foundations.errors import InputError, MissingFile


def test_what_is_no_slice_is_counted_and_never_opened(tmp_path):
    """B34, T8: pipes would block the test for ever when opened."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    write_slice(root / "b.dcm")
    write_slice(root / "sub" / "a")
    secret = write_slice(outside / "secret.dcm")
    (root / "link.dcm").symlink_to(secret)
    (root / "dangling").symlink_to(tmp_path / "nothing")
    (root / "folder").symlink_to(outside, target_is_directory=True)
    (root / "same.dcm").symlink_to(root / "b.dcm")
    (root / ".DS_Store").write_bytes(b"x")
    write_slice(root / ".hidden" / "c.dcm")
    (root / "DICOMDIR").write_bytes(b"x")
    (root / "labels.csv").write_bytes(b"x")
    (root / "empty.dcm").write_bytes(b"")
    os.mkfifo(root / "pipe.dcm")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(root)  # names of sockets are short
        try:
            listener.bind("s")
        finally:
            os.chdir(here)
        found = list_folder(root)
    assert [file.path.name for file in found.files] == ["b.dcm", "a"]
    assert found.skipped == {
        "DICOMDIR": 1,
        "empty": 1,
        "hidden": 2,
        "links": 4,
        "of another type": 1,
        "pipes, sockets or devices": 2,
    }
    assert found.words.startswith("skipped 11 files that are not slices (1 DICOMDIR, 1 empty, 2 hidden, 4 links")


def test_a_link_inside_stands_for_its_file_once(tmp_path):
    path = write_slice(tmp_path / "z.dcm")
    (tmp_path / "a.dcm").symlink_to(path)
    found = list_folder(tmp_path)
    assert [file.path for file in found.files] == [path]
    assert found.skipped == {"links": 1}


def test_files_are_numbered_by_name_in_each_folder(tmp_path):
    write_series(tmp_path / "one", 3)
    write_series(tmp_path / "two", 2)
    assert [(f.path.parent.name, f.path.name, f.number) for f in list_folder(tmp_path).files] == [
        ("one", "001.dcm", 1),
        ("one", "002.dcm", 2),
        ("one", "003.dcm", 3),
        ("two", "001.dcm", 1),
        ("two", "002.dcm", 2),
    ]


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(MissingFile, match=r"the folder was not found"):
        list_folder(tmp_path / "canary")
    path = write_slice(tmp_path / "canary.dcm")
    with pytest.raises(InputError, match=r"a folder was expected") as caught:
        list_folder(path)
    assert "canary" not in str(caught.value)
    assert list_folder(tmp_path).words == ""


def test_a_file_that_became_a_link_or_pipe_is_not_opened(tmp_path):
    path = write_slice(tmp_path / "canary.dcm")
    os.close(open_file(path))
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "gone"):
        with pytest.raises(InputError) as caught:
            open_file(tmp_path / name)
        assert str(tmp_path) not in str(caught.value)
