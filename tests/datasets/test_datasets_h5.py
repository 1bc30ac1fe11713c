import shutil
import sys

import numpy as np
import pytest

from psimil import Bags, datasets, read_bags
from psimil.foundations.errors import DataWarning, InputError, MissingFile, OutputError
from psimil.model.labels import Classes
from psimil.store import import_bags, open_store

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


# The files of CLAM and TRIDENT


@pytest.fixture
def slides(tmp_path):
    """Three slides of two patients, as ``.h5`` files with coords, and CLAM's table of them."""
    bags = Bags.from_list([[[1.0], [2.0]], [[3.0]], [[4.0], [5.0]]], ids=["s1", "s2", "s3"])
    datasets.write_h5(tmp_path / "slides", bags, coords=np.arange(10).reshape(5, 2))
    text = "case_id,slide_id,label\n07,s1,normal_tissue\n07,s2,tumor_tissue\n8,s3,normal_tissue\n"
    (tmp_path / "slides" / "dataset.csv").write_text(text)
    return tmp_path / "slides"


def test_labels_in_words(slides):
    bags, y, known = datasets.read_h5(slides, slides / "dataset.csv", positive="tumor_tissue")
    assert bags.ids.tolist() == ["s1", "s2", "s3"]
    assert y.tolist() == [0, 1, 0]
    assert known.tolist() == [-1] * 5
    assert datasets.read_h5(slides, slides / "dataset.csv", positive="normal_tissue").y.tolist() == [1, 0, 1]


def test_a_patient_is_the_bag_of_all_slides(slides):
    bags, y, known = datasets.read_h5(slides, slides / "dataset.csv", bag="case_id", positive="tumor_tissue")
    assert bags.ids.tolist() == ["07", "8"]
    assert bags["07"].tolist() == [[1.0], [2.0], [3.0]]
    assert y.tolist() == [1, 0]
    assert known.tolist() == [0, 0, -1, -1, -1]  # the patches of a negative slide of a positive patient


def test_slides_of_a_patient_of_two_encoders(slides):
    rewrite(slides / "s2.h5", features=np.ones((2, 7)))
    with pytest.raises(InputError, match=r"the slides of bag 07 have 1 and 7 features. Use one encoder"):
        datasets.read_h5(slides, slides / "dataset.csv", bag="case_id", positive="tumor_tissue")


def test_a_folder_of_slides_is_read_as_a_table(slides):
    table = read_bags(slides, positive="tumor_tissue")
    assert table.classes == ("normal_tissue", "tumor_tissue")
    assert table.labels.tolist() == ["normal_tissue", "tumor_tissue", "normal_tissue"]
    assert table.y_instances is None
    assert [(slide.name, slide.rows) for slide in table.slides] == [
        ("s1", slice(0, 2)),
        ("s2", slice(2, 3)),
        ("s3", slice(3, 5)),
    ]
    patients = read_bags(slides, bag="case_id", positive="tumor_tissue")
    assert [slide.rows for slide in patients.slides] == [slide.rows for slide in table.slides]
    assert patients.y_instances.tolist() == [0, 0, -1, -1, -1]
    np.testing.assert_array_equal(np.concatenate([slide.coords for slide in table.slides]), np.arange(10).reshape(5, 2))


def test_tables_are_optional_where_labels_are(slides):
    (slides / "dataset.csv").unlink()
    table = read_bags(slides)
    assert table.y is None
    assert table.bags.ids.tolist() == ["s1", "s2", "s3"]
    for column in ({"bag": "case_id"}, {"label": "grade"}):
        with pytest.raises(InputError, match=r"needs a table of the slides: a CSV file with slide_id in slides"):
            read_bags(slides, **column)
    (slides / "dataset.csv").write_text("slide_id,case_id\ns1,a\ns3,a\n")
    with pytest.warns(DataWarning, match="1 of 3 slides are not in the table"):
        assert read_bags(slides, bag="case_id", labels_optional=True).bags.ids.tolist() == ["a"]
    with pytest.raises(InputError, match=r'dataset.csv has no column "label". It needs slide_id, case_id, label'):
        read_bags(slides, bag="case_id")
    (slides / "dataset.csv").write_text("slide_id,case_id\ns1,a\ns3,\n")
    with pytest.raises(InputError, match='slide s3 has no bag \\(column "case_id"\\)'):
        read_bags(slides, bag="case_id", labels_optional=True)
    (slides / "other.csv").write_text("slide_id,label\ns1,1\n")
    with pytest.raises(InputError, match=r"has 2 tables with slide_id: dataset.csv, other.csv"):
        read_bags(slides)


def test_labels_that_a_model_does_not_know(slides):
    with pytest.raises(InputError, match="label of bag s1 is 'normal_tissue'; the classes are 0 and 1"):
        read_bags(slides, classes=Classes(0, 1))
    with pytest.warns(DataWarning, match="labels are not used"):
        assert read_bags(slides, classes=Classes(0, 1), labels_optional=True).y is None
    with pytest.raises(
        InputError, match=r"slides is a folder of slides, not a table: drop=\['f'\] would have no effect"
    ):
        read_bags(slides, drop=["f"])


def test_a_store_of_patients(slides, tmp_path):
    manifest = import_bags(slides, tmp_path / "store", bag="case_id", positive="tumor_tissue")
    assert manifest.bags == 2
    table = open_store(tmp_path / "store").table()
    assert table.classes == ("normal_tissue", "tumor_tissue")
    assert table.y.tolist() == [1, 0]
    assert table.y_instances.tolist() == [0, 0, -1, -1, -1]


def test_pt_files_beside_h5_files(slides, tmp_path):
    torch = pytest.importorskip("torch")
    clam = tmp_path / "clam"
    (clam / "pt_files").mkdir(parents=True)
    (clam / "h5_files").mkdir()
    shutil.copy(slides / "s1.h5", clam / "h5_files")
    torch.save(torch.tensor([[9.0]]), clam / "pt_files" / "s1.pt")  # of two files that with coords is read
    torch.save(torch.tensor([[3.5]], dtype=torch.bfloat16), clam / "pt_files" / "s2.pt")
    torch.save({"features": torch.tensor([[4.0]]), "coords": torch.tensor([[7, 8]])}, clam / "s3.pt")
    table = read_bags(clam)
    assert table.bags.X.tolist() == [[1.0], [2.0], [3.5], [4.0]]
    assert [slide.name for slide in table.slides] == ["s1", "s3"]
    assert table.slides[1].coords.tolist() == [[7, 8]]
    torch.save({"coords": torch.tensor([[7, 8]])}, clam / "s3.pt")
    with pytest.raises(InputError, match=r's3.pt holds a dict without "features"'):
        read_bags(clam)


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
