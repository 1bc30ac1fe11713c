import numpy as np
import pytest

from psimil import Bags, datasets
from psimil.datasets import torchmil
from psimil.foundations.errors import InputError, MissingFile, OutputError

BAGS = Bags.from_list([[[1.5, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 10], [11, 12]]], ids=["b", "a", "scan 3.1"])
Y, Y_INSTANCES = [1, 0, 1], [0, 1, 0, -1, -1, 1]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "data"
    datasets.write_torchmil(path, BAGS, Y, Y_INSTANCES, split=["train", "test", "train"])
    return path


def test_round_trip(folder):
    bags, y, y_instances = datasets.read_torchmil(folder)
    assert bags.ids.tolist() == ["a", "b", "scan 3.1"]
    assert y.tolist() == [0, 1, 1]
    assert y_instances.tolist() == [0, 0, 1, -1, -1, 1]
    for name in bags.ids:
        np.testing.assert_array_equal(bags[str(name)], BAGS[str(name)])


def test_files_are_what_torchmil_loads(folder):
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*"))
    parts = ("features", "inst_labels", "labels")
    assert names == sorted([*(f"{part}/{name}.npy" for part in parts for name in BAGS.ids), "splits.csv"])
    features, label = np.load(folder / "features" / "b.npy"), np.load(folder / "labels" / "b.npy")
    assert (features.shape, features.dtype, label.shape, label.tolist()) == ((2, 2), np.float64, (1,), [1])
    assert np.load(folder / "inst_labels" / "b.npy").tolist() == [0, 1]
    assert (folder / "splits.csv").read_text() == "bag_name,split\nb,train\na,test\nscan 3.1,train\n"


def test_what_is_not_given_is_not_written(tmp_path):
    datasets.write_torchmil(tmp_path / "deep" / "data", BAGS, Y)
    assert sorted(path.name for path in (tmp_path / "deep" / "data").iterdir()) == ["features", "labels"]
    assert (datasets.read_torchmil(tmp_path / "deep" / "data").y_instances == -1).all()


def test_coordinates_and_float32_are_kept(tmp_path):
    coords = np.arange(12).reshape(6, 2)
    datasets.write_torchmil(
        tmp_path / "data", Bags(BAGS.X.astype(np.float32), BAGS.offsets, BAGS.ids), Y, coords=coords
    )
    np.testing.assert_array_equal(np.load(tmp_path / "data" / "coords" / "scan 3.1.npy"), coords[3:])
    assert datasets.read_torchmil(tmp_path / "data").bags.X.dtype == np.float32


def test_written_as_its_own_scans_are(tmp_path):
    theirs = pytest.importorskip("torchmil.datasets").RSNAMILDataset
    options = {"split": ["train", "test", "train"], "features": "resnet50", "instance_labels": "slice_labels"}
    datasets.write_torchmil(tmp_path / "data", BAGS, Y, [0, 1, 0, 0, 0, 1], **options)
    found = theirs(str(tmp_path / "data"), bag_keys=["X", "Y", "y_inst"], load_at_init=False)
    assert found.get_bag_names() == ["b", "scan 3.1"]
    assert found[0]["X"].tolist() == BAGS["b"].tolist() and found[1]["y_inst"].tolist() == [0, 0, 1]
    assert datasets.read_torchmil(tmp_path / "data", "test").y.tolist() == [0]


@pytest.mark.parametrize(("split", "names"), [("train", ["b", "scan 3.1"]), ("test", ["a"])])
def test_one_split(folder, split, names):
    bags, y, _ = datasets.read_torchmil(folder, split)
    assert bags.ids.tolist() == names
    assert y.tolist() == [int(name != "a") for name in names]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"bag_name,split\na,test\n", 'puts no bag in "train". It has test'),
        (b"bag,split\na,train\n", "must have rows with the columns bag_name and split"),
        (b"", "must have rows"),
        (b"\xff\xfe", "splits.csv cannot be read"),
        (b"bag_name,split\n../labels/a,train\n", "'../labels/a' cannot be a file name"),
        (b"bag_name,split\nc,train\n", "features/c.npy was not found in"),
    ],
)
def test_broken_splits_are_refused(folder, content, message):
    (folder / "splits.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        datasets.read_torchmil(folder, "train")


def test_no_splits(folder):
    (folder / "splits.csv").unlink()
    with pytest.raises(MissingFile, match=r"splits.csv was not found in .* Leave split out"):
        datasets.read_torchmil(folder, "train")


@pytest.mark.parametrize("value", [1, [1], [[1.0]], True])
def test_labels_of_any_shape_with_one_number(folder, value):
    np.save(folder / "labels" / "a.npy", np.array(value))
    assert datasets.read_torchmil(folder).y.tolist() == [1, 1, 1]


def test_instance_labels_may_be_a_column(folder):
    np.save(folder / "inst_labels" / "b.npy", np.array([[1.0], [0.0]]))
    assert datasets.read_torchmil(folder).y_instances.tolist() == [0, 1, 0, -1, -1, 1]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("labels/a", np.array([0, 1]), r"labels/a.npy has shape \(2,\), expected one number"),
        ("labels/a", np.array(2), "label of bag a is 2; labels must be 0 or 1"),
        ("labels/a", np.array(np.nan), "label of bag a is nan"),
        ("labels/a", np.array(["1"]), "labels/a.npy must hold numbers, got <U1"),
        ("inst_labels/b", np.array([1]), "bag b has 1 instance labels for 2 instances"),
        ("inst_labels/b", np.array([1, 7]), "instance label of bag b is 7; instance labels must be 0, 1 or -1"),
        ("features/b", np.zeros(3), r"bag b has shape \(3,\)"),
        ("features/b", np.zeros((3, 5)), "bag b has 5 features, expected 2"),
        ("features/b", np.array([[np.nan, 1]]), "non-finite values, first at bag b"),
        ("features/b", np.zeros((0, 2)), "bag b has 0 instances"),
    ],
)
def test_arrays_that_break_a_rule(folder, place, value, message):
    np.save(folder / f"{place}.npy", value)
    with pytest.raises(InputError, match=message):
        datasets.read_torchmil(folder)


def test_damaged_and_hostile_files(folder):
    path = folder / "features" / "b.npy"
    good = path.read_bytes()
    for content in (b"", good[:20], good[:-1], b"PK\3\4" + good):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"features/b.npy cannot be read as an array of numbers"):
            datasets.read_torchmil(folder)
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"features/b.npy cannot be read .*Object arrays"):
        datasets.read_torchmil(folder)


def test_missing_parts(folder, tmp_path):
    (folder / "labels" / "a.npy").unlink()
    with pytest.raises(MissingFile, match=r"labels/a.npy was not found in .* Every bag needs one"):
        datasets.read_torchmil(folder)
    with pytest.raises(MissingFile, match="has no folder features"):
        datasets.read_torchmil(folder / "labels")
    (tmp_path / "empty" / "features").mkdir(parents=True)
    with pytest.raises(InputError, match=r"has no .npy files: 0 bags"):
        datasets.read_torchmil(tmp_path / "empty")


@pytest.mark.parametrize("name", ["../a", "a/b", ".a", "", "a\\b", "a\nb", "a\0b", "x" * 201, "-rf", "a:b"])
def test_unsafe_names_are_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"cannot be a file name|without NUL characters"):
        datasets.write_torchmil(tmp_path / "data", Bags.from_list([[[1.0]], [[2.0]]], ids=["a", name]), [0, 1])
    assert list(tmp_path.iterdir()) == []


def test_names_that_meet_on_some_systems_are_refused(tmp_path):
    with pytest.raises(InputError, match="would share a file"):
        datasets.write_torchmil(tmp_path / "data", Bags.from_list([[[1.0]], [[2.0]]], ids=["A", "a"]), [0, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": [1, 0]}, r"labels have shape \(2,\), expected \(3,\)"),
        ({"y": [1, 0, 2]}, "label of bag scan 3.1 is 2"),
        ({"y_instances": [0, 1]}, r"instance labels have shape \(2,\), expected \(6,\)"),
        ({"coords": np.zeros((5, 2))}, r"coords have shape \(5, 2\), expected \(6, k\)"),
        ({"split": ["train"]}, "3 bags but 1 entries of split"),
        ({"features": "../a"}, "'../a' cannot be a file name"),
        ({"instance_labels": "mine"}, "instance_labels must be one of inst_labels, slice_labels, patch_labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        datasets.write_torchmil(tmp_path / "data", BAGS, **({"y": Y} | options))
    assert list(tmp_path.iterdir()) == []


def test_nothing_of_the_users_is_replaced(folder, tmp_path):
    with pytest.raises(OutputError, match=r"something is there already. Name a new folder"):
        datasets.write_torchmil(folder, BAGS, [0, 0, 0])
    assert datasets.read_torchmil(folder).y.tolist() == [0, 1, 1]
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(OutputError, match="cannot write"):
            datasets.write_torchmil(path, BAGS, Y)
    (tmp_path / "empty").mkdir()
    datasets.write_torchmil(tmp_path / "empty", BAGS, Y)
    assert len(datasets.read_torchmil(tmp_path / "empty").bags) == 3


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    calls = []

    def full(path, *_, **__):
        calls.append(path)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(torchmil.np, "save", full)
    with pytest.raises(OutputError, match=r"cannot write .*data: no space left on device"):
        datasets.write_torchmil(tmp_path / "data", BAGS, Y)
    assert list(tmp_path.iterdir()) == []
