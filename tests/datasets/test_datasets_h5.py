import sys

import numpy as np
import pytest

from psimil import Bags, datasets, read_bags
from psimil.foundations.errors import InputError, MissingFile, OutputError

h5py = pytest.importorskip("h5py")
BAGS = Bags.from_list([np.arange(6.0).reshape(3, 2), [[7.0, 8.0]]], ids=["slide_b", "slide_a"])
LABELS = {"slide_b": 1, "slide_a": 0}


@pytest.fixture
def folder(tmp_path):
    datasets.write_h5(tmp_path / "h5", BAGS, coords=np.arange(8).reshape(4, 2))
    return tmp_path / "h5"


def rewrite(path, **datasets_):
    with h5py.File(path, "w") as file:
        for key, value in datasets_.items():
            file.create_dataset(key, data=value)


def test_round_trip_in_the_order_of_the_labels(folder):
    bags, y, y_instances = datasets.read_h5(folder, LABELS)
    assert bags.ids.tolist() == ["slide_b", "slide_a"]
    np.testing.assert_array_equal(bags.X, BAGS.X)
    assert bags.offsets.tolist() == [0, 3, 4]
    assert y.tolist() == [1, 0]
    assert y_instances.tolist() == [-1] * 4


def test_files_are_what_other_tools_read(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["slide_a.h5", "slide_b.h5"]
    with h5py.File(folder / "slide_b.h5", "r") as file:
        assert sorted(file) == ["coords", "features"]
        np.testing.assert_array_equal(file["features"][:], [[0, 1], [2, 3], [4, 5]])
        np.testing.assert_array_equal(file["coords"][:], [[0, 1], [2, 3], [4, 5]])
        assert file["coords"].dtype.kind == "i"
    datasets.write_h5(folder, Bags.from_list([[[1.0]]], ids=["slide_a"]))  # replaces one file and leaves the other
    with h5py.File(folder / "slide_a.h5", "r") as file:
        assert list(file) == ["features"]
    assert (folder / "slide_b.h5").exists()


def test_slides_without_a_label_are_not_read(folder):
    (folder / "slide_b.h5").write_bytes(b"not even HDF5")
    assert datasets.read_h5(folder, {"slide_a": 1}).bags.ids.tolist() == ["slide_a"]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_leading_axis_and_other_precisions_are_read(folder, dtype):
    rewrite(folder / "slide_a.h5", features=np.array([[[0.5, 1], [2, 3]]], dtype=dtype), coords=np.zeros((2, 2)))
    bags, _, _ = datasets.read_h5(folder, {"slide_a": 1})
    assert bags.X.tolist() == [[0.5, 1], [2, 3]]
    assert bags.X.dtype == (np.float32 if dtype == np.float32 else np.float64)


def test_labels_from_a_table(folder, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("case_id,slide_id,label\n1,slide_a,1\n2,slide_b,0\n")
    bags, y, _ = datasets.read_h5(folder, path)
    assert bags.ids.tolist() == ["slide_a", "slide_b"]
    assert y.tolist() == [1, 0]
    assert datasets.read_h5(str(folder), str(path)).y.tolist() == [1, 0]


def test_numeric_slide_names_keep_their_zeros(tmp_path):
    datasets.write_h5(tmp_path, Bags.from_list([[[1.0]]], ids=["007"]))
    (tmp_path / "labels.csv").write_text("slide_id,label\n007,1\n")
    assert datasets.read_h5(tmp_path, tmp_path / "labels.csv").bags.ids.tolist() == ["007"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slide,label\nslide_a,1\n", 'labels.csv has no column "slide_id"'),
        ("slide_id,y\nslide_a,1\n", 'labels.csv has no column "label"'),
        ("slide_id,label\nslide_a,1\nslide_a,1\n", "names slide slide_a twice"),
        ("slide_id,label\nslide_a,tumor\n", "all labels are 'tumor'; a fit needs bags of two classes"),
        ("slide_id,label\nslide_a,tumor\nslide_b,normal\n", "Say which is positive: --positive tumor"),
        ("slide_id,label\nslide_a,2\n", "label of bag slide_a is 2"),
        ("slide_id,label\nslide_a,\n", "label of bag slide_a is nan"),
        ("slide_id,label\n", "labels are empty"),
        ("slide_id,label\n../h5/slide_a,1\n", "cannot be a file name"),
    ],
)
def test_broken_tables_of_labels_are_refused(folder, tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        datasets.read_h5(folder, tmp_path / "labels.csv")


def test_missing_files_and_empty_labels(folder, tmp_path):
    with pytest.raises(MissingFile, match=r"slide_c.h5 was not found in .* take the slide out of the labels"):
        datasets.read_h5(folder, {"slide_c": 1})
    with pytest.raises(MissingFile, match=r"labels.csv was not found"):
        datasets.read_h5(folder, tmp_path / "labels.csv")
    with pytest.raises(InputError, match="labels are empty"):
        datasets.read_h5(folder, {})


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"coords": [[1, 2]]}, r'slide_a.h5 has no dataset "features". It has coords'),
        ({}, "It has nothing"),
        ({"features": [1.0, 2.0]}, r"slide_a.h5: features have shape \(2,\)"),
        ({"features": np.zeros((2, 3, 4))}, r"features have shape \(2, 3, 4\)"),
        ({"features": 1.0}, r"features have shape \(\)"),
        ({"features": [["a", "b"]]}, "slide_a.h5 must be real numbers"),
        ({"features": np.zeros((0, 2))}, "bag slide_a has 0 instances"),
        ({"features": [[np.nan]]}, "non-finite values, first at bag slide_a"),
    ],
)
def test_files_that_break_a_rule(folder, stored, message):
    rewrite(folder / "slide_a.h5", **stored)
    with pytest.raises(InputError, match=message):
        datasets.read_h5(folder, {"slide_a": 1})


def test_damaged_and_foreign_files(folder):
    path = folder / "slide_b.h5"
    good = path.read_bytes()
    for content in (b"", b"hello", good[:100], good[: len(good) // 2], good[:-1]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"slide_b.h5 cannot be read as HDF5"):
            datasets.read_h5(folder, LABELS)


def test_nothing_outside_the_file_is_read(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(16))
    path = folder / "slide_a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("features", (2, 1), "f8", external=[(str(secret), 0, 16)])
    with pytest.raises(InputError, match=r"slide_a.h5: features must be a dataset stored in the file itself"):
        datasets.read_h5(folder, {"slide_a": 1})
    with h5py.File(path, "w") as file:
        file["features"] = h5py.ExternalLink(str(folder / "slide_b.h5"), "/features")
    with pytest.raises(InputError, match="stored in the file itself"):
        datasets.read_h5(folder, {"slide_a": 1})
    layout = h5py.VirtualLayout((3, 2), "f8")
    layout[:] = h5py.VirtualSource(str(folder / "slide_b.h5"), "features", (3, 2))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("features", layout)
    with pytest.raises(InputError, match="stored in the file itself"):
        datasets.read_h5(folder, {"slide_a": 1})
    with h5py.File(path, "w") as file:
        file.create_group("features")
    with pytest.raises(InputError, match="stored in the file itself"):
        datasets.read_h5(folder, {"slide_a": 1})


def test_a_dataset_that_claims_to_be_huge_is_refused(folder):
    with h5py.File(folder / "slide_a.h5", "w") as file:
        file.create_dataset("features", (1 << 40, 64), "f8", chunks=(64, 64))
    assert (folder / "slide_a.h5").stat().st_size < 10_000
    with pytest.raises(InputError, match="features are above the limit of 16 GB"):
        datasets.read_h5(folder, {"slide_a": 1})


def test_writing_checks_names_coordinates_and_place(tmp_path):
    with pytest.raises(InputError, match="cannot be a file name"):
        datasets.write_h5(tmp_path, Bags.from_list([[[1.0]]], ids=["../a"]))
    for coords in (np.zeros((3, 2)), np.zeros(4)):
        with pytest.raises(InputError, match=r"coords have shape .*, expected \(4, 2\)"):
            datasets.write_h5(tmp_path, BAGS, coords)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="cannot make the folder"):
        datasets.write_h5(tmp_path / "file", BAGS)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_interrupted_write_keeps_the_old_file(folder, monkeypatch):
    old = (folder / "slide_b.h5").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("psimil.files.atomic.os.fsync", full)
    with pytest.raises(OutputError, match=r"cannot write slide_b.h5: no space left \(old file kept\)"):
        datasets.write_h5(folder, BAGS)
    assert (folder / "slide_b.h5").read_bytes() == old
    assert len(list(folder.iterdir())) == 2


def test_without_h5py_the_message_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    for call in (lambda: datasets.read_h5(folder, LABELS), lambda: datasets.write_h5(folder, BAGS)):
        with pytest.raises(InputError, match=r"HDF5 files need h5py.*pip install .*\[h5\]"):
            call()


def test_a_bfloat16_dataset(folder):
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    with h5py.File(folder / "slide_a.h5", "w") as file:
        space = h5py.h5s.create_simple((2, 2))
        dataset = h5py.h5d.create(file.id, b"features", kind, space)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([[1.5, -2.0], [3e38, 1e-38]], np.float32))
    X = datasets.read_h5(folder, {"slide_a": 1}).bags.X
    np.testing.assert_allclose(X, [[1.5, -2.0], [3e38, 1e-38]], rtol=2**-8)


@pytest.mark.parametrize(
    "coords", [np.zeros((3, 2)), np.zeros((2, 3)), [["a", "b"]] * 2, [[0, np.nan]] * 2, [[0, 1e300]] * 2]
)
def test_coords_that_do_not_fit(folder, coords):
    rewrite(folder / "slide_a.h5", features=np.ones((2, 1)), coords=coords)
    with pytest.raises(InputError, match=r"slide_a.h5: coords have shape .*, expected \(2, 2\) of numbers"):
        datasets.read_h5(folder, {"slide_a": 1})


@pytest.mark.parametrize(
    ("attributes", "side"),
    [
        ({"patch_size": 256, "patch_size_level0": 512, "target_magnification": 20}, 512.0),  # TRIDENT
        ({"patch_size": 256, "downsample": (4.0, 4.0), "level_dim": (10, 10)}, 1024.0),  # CLAM
        ({"name": "a patient", "savetodir": "secret"}, 100.0),
    ],
)
def test_the_size_of_patches(folder, attributes, side):
    with h5py.File(folder / "slide_a.h5", "w") as file:
        file["features"], file["coords"] = np.ones((3, 2)), [[0, 0], [100, 0], [300, 100]]
        file["coords"].attrs.update(attributes)
    (slide,) = (slide for slide in read_bags(folder).slides if slide.name == "slide_a")
    assert slide.side == side
    assert not {"name", "savetodir"} & set(slide.attributes)
