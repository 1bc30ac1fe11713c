"""The layouts of torchmil's own datasets, read by psimil and by torchmil: the same bags."""

import shutil

import numpy as np
import pytest

from psimil import VGPMIL, DataWarning, read_bags
from psimil.datasets import read_torchmil
from psimil.datasets.torchmil_folder import is_torchmil, known_set
from psimil.foundations.errors import InputError, MissingFile
from psimil.store import import_bags, open_store
from torchmil_layout import scans


@pytest.fixture
def folder(tmp_path):
    return scans(tmp_path / "RSNA_ICH_MIL")


@pytest.mark.parametrize("features", ["resnet18", "resnet50"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_bags_are_those_that_torchmil_reads(folder, features, split):
    theirs = pytest.importorskip("torchmil.datasets").RSNAMILDataset(
        str(folder), features=features, partition=split, bag_keys=["X", "Y", "y_inst"], load_at_init=False
    )
    bags, y, known = read_torchmil(folder, split, features=features)
    assert bags.ids.tolist() == theirs.get_bag_names() and len(bags) == 12
    for number, (X, labels) in enumerate(zip(bags, bags.split(known), strict=True)):
        item = theirs[number]
        np.testing.assert_array_equal(X, item["X"].numpy())
        assert y[number] == item["Y"].item()
        np.testing.assert_array_equal(labels, item["y_inst"].numpy())


def test_sets_of_slides_are_read_as_torchmil_does(tmp_path):
    root = tmp_path / "CAMELYON16_MIL"
    scans(root / "patches_512", sets=("UNI",), instance_labels="patch_labels")
    shutil.move(root / "patches_512" / "splits.csv", root / "splits.csv")
    shutil.copytree(root / "patches_512" / "features" / "features_UNI", root / "patches_512" / "coords")
    theirs = pytest.importorskip("torchmil.datasets").CAMELYON16MILDataset(
        str(root), partition="test", bag_keys=["X", "Y", "y_inst"], load_at_init=False
    )
    for path in (root, root / "patches_512", root / "patches_512" / "features" / "features_UNI"):
        bags, y, known = read_torchmil(path, "test")
        assert bags.links is None  # coordinates on a plane are no order
        assert bags.ids.tolist() == theirs.get_bag_names()
        assert y.tolist() == [theirs[number]["Y"].item() for number in range(len(y))]
        assert known.tolist() == np.concatenate([theirs[n]["y_inst"].numpy() for n in range(len(y))]).tolist()
    (root / "patches_256" / "features").mkdir(parents=True)
    with pytest.raises(InputError, match=r"has patches_256, patches_512. Name one of these folders"):
        read_torchmil(root)


def test_features_have_the_name_of_their_set(folder):
    assert read_torchmil(folder, features="resnet18").bags.feature_names == ("resnet18_0", "resnet18_1")
    named = read_torchmil(folder / "features" / "features_resnet50").bags
    assert named.feature_names == ("resnet50_0", "resnet50_1", "resnet50_2")


def test_one_set_needs_no_name(tmp_path):
    assert read_torchmil(scans(tmp_path / "data", sets=("vit_b_32",))).bags.feature_names[0] == "vit_b_32_0"


@pytest.mark.parametrize(
    ("path", "features", "message"),
    [
        (".", None, r'has the features resnet18, resnet50. Choose one by name, such as "resnet18", or name its folder'),
        (".", "UNI", r"has no features 'UNI'. It has the features resnet18, resnet50"),
        (".", "../labels", r"has no features '../labels'"),
        ("features/features_resnet18", "resnet50", r"has the features resnet18, not resnet50"),
        ("features/features_resnet34", None, "has no folder features"),
    ],
)
def test_which_features_must_be_plain(folder, path, features, message):
    with pytest.raises(InputError, match=message):
        read_torchmil(folder / path, features=features)


def test_features_without_a_name_have_none_to_choose(folder):
    for file in (folder / "features" / "features_resnet18").iterdir():
        shutil.move(file, folder / "features" / file.name)
    shutil.rmtree(folder / "features" / "features_resnet18")
    shutil.rmtree(folder / "features" / "features_resnet50")
    assert read_torchmil(folder).bags.feature_names is None
    with pytest.raises(InputError, match=r"has one set, without a name. Leave the name out"):
        read_torchmil(folder, features="resnet18")


def test_bags_of_a_split_without_features_are_left_out(folder):
    """As torchmil does, but not silently."""
    (folder / "features" / "features_resnet50" / "ID_00.npy").unlink()
    with pytest.warns(DataWarning, match=r'1 of 12 bags of "train" have no features and are left out'):
        bags = read_torchmil(folder, "train", features="resnet50").bags
    assert bags.ids[0] == "ID_01" and len(bags) == 11


def test_coordinates_along_a_bag_are_its_order(tmp_path):
    """Rows of a file in any order: the model sees them in theirs, and answers in that of the file."""
    folder, rng = scans(tmp_path / "data", sets=("resnet50",)), np.random.default_rng(1)
    straight = read_torchmil(folder).bags
    (folder / "coords").mkdir()
    places = {}
    for name, X in zip(straight.ids, straight, strict=True):
        order = places[name] = rng.permutation(len(X))
        np.save(folder / "features" / "features_resnet50" / f"{name}.npy", X[order])
        labels = np.load(folder / "slice_labels" / f"{name}.npy")
        np.save(folder / "slice_labels" / f"{name}.npy", labels[order])
        np.save(folder / "coords" / f"{name}.npy", 5.0 * order[:, None])
    table = read_bags(folder)
    np.testing.assert_array_equal(table.bags.X, straight.X)
    assert table.y_instances.tolist() == read_torchmil(folder).y_instances.tolist()
    assert table.positions[: len(straight[0])].tolist() == (5.0 * np.arange(len(straight[0]))).tolist()
    assert table.bags.in_input_order(table.positions)[: len(straight[0])].tolist() == (5.0 * places["ID_00"]).tolist()
    import_bags(folder, tmp_path / "store")
    np.testing.assert_array_equal(open_store(tmp_path / "store").X[:], straight.X)
    model = VGPMIL(n_inducing=8, labels="chain", max_iter=5, random_state=0)
    first = model.fit(table.bags, table.y).predict_proba(table.bags)
    np.testing.assert_array_equal(first, model.predict_proba(straight.in_order()))


@pytest.mark.parametrize("rows", [-1, 1])
def test_coordinates_of_other_instances_are_refused(tmp_path, rows):
    """A bag with a row too few took the order from all bags, without a word."""
    folder = scans(tmp_path / "data", sets=("resnet50",))
    bags = read_torchmil(folder).bags
    (folder / "coords").mkdir()
    for name, X in zip(bags.ids, bags, strict=True):
        np.save(folder / "coords" / f"{name}.npy", np.arange(len(X) + (rows if name == "ID_03" else 0))[:, None])
    with pytest.raises(InputError, match=r"coords/ID_03.npy has shape .* expected one row for each of"):
        read_torchmil(folder)
    with pytest.raises(InputError, match=r"coords/ID_03.npy has shape"):
        import_bags(folder, tmp_path / "store")
    for far in (1e308, np.nan):
        np.save(folder / "coords" / "ID_03.npy", np.full(len(bags[3]), far))
        with pytest.raises(InputError, match=r"coords/ID_03.npy holds numbers that are no positions along a bag"):
            read_bags(folder, features="resnet50")
    np.save(folder / "coords" / "ID_03.npy", np.zeros((len(bags[3]), 2)))
    with pytest.raises(InputError, match="along one axis, others along several"):
        read_torchmil(folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ID_00,test", "puts bag ID_00 in train and in test. A bag has one split"),
        ("ID_00,", "a row without"),
        (",test", "a row without"),
    ],
)
def test_a_bag_has_one_split(folder, line, message):
    """Bags in train and test were trained on, and then scored."""
    with (folder / "splits.csv").open("a") as stream:
        stream.write(f"{line}\n")
    with pytest.raises(InputError, match=message):
        read_torchmil(folder, "test", features="resnet50")


def test_splits_that_are_not_utf8_are_refused_with_the_line(folder):
    (folder / "splits.csv").write_bytes("bag_name,split\nMüller,test\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"^splits.csv cannot be read as CSV: line 2 is not UTF-8\. Save the file as"):
        read_torchmil(folder, "test", features="resnet50")


def test_spaces_in_splits_do_not_drop_bags(folder):
    whole = read_torchmil(folder, "train", features="resnet50").bags.ids.tolist()
    path = folder / "splits.csv"
    path.write_text(path.read_text().replace(",train", ", train "))
    assert read_torchmil(folder, "train", features="resnet50").bags.ids.tolist() == whole


def test_a_model_finds_its_features_among_those_of_slides(tmp_path):
    folder = scans(tmp_path / "set" / "patches_512", sets=("resnet50", "vit"))
    names = tuple(f"vit_{d}" for d in range(read_torchmil(folder, features="vit").bags.n_features))
    assert known_set(tmp_path / "set", names) == known_set(folder, names) == "vit"
    assert known_set(tmp_path, names) is None


def test_columns_of_a_table_are_folders_of_a_folder(folder):
    shutil.copytree(folder / "labels", folder / "subdural")
    shutil.copytree(folder / "slice_labels", folder / "readings")
    table = read_bags(folder, features="resnet50", label="subdural", instance_label="readings", split="test")
    assert len(table.bags) == 12 and table.y_instances.sum() == 18 and table.positions is None
    for name in ("label", "instance_label", "position"):
        with pytest.raises(MissingFile, match="has no folder nowhere"):
            read_bags(folder, features="resnet50", **{name: "nowhere"})
        with pytest.raises(InputError, match="cannot be a file name"):
            read_bags(folder, features="resnet50", **{name: "../labels"})
    for name in ("bag", "positive"):
        with pytest.raises(InputError, match=rf"is a folder: {name}='x' would have no effect"):
            read_bags(folder, features="resnet50", **{name: "x"})
    with pytest.raises(InputError, match="read with one set of features, got a, b"):
        read_bags(folder, features=["a", "b"])


def test_labels_may_be_absent_where_they_are_optional(folder):
    assert read_bags(folder, features="resnet50", labels_optional=True).y.tolist() == [0, 1] * 12
    np.save(folder / "labels" / "ID_00.npy", np.array(3))
    with pytest.warns(DataWarning, match="labels are not used: those of RSNA_ICH_MIL are not all 0 or 1"):
        assert read_bags(folder, features="resnet50", labels_optional=True).y is None
    with pytest.raises(InputError, match="label of bag ID_00 is 3"):
        read_bags(folder, features="resnet50")
    shutil.rmtree(folder / "labels")
    assert read_bags(folder, features="resnet50", labels_optional=True).y is None
    with pytest.raises(MissingFile, match=r"labels/ID_00.npy was not found"):
        read_bags(folder, features="resnet50")


def test_slides_in_a_folder_called_features_are_no_torchmil_folder(tmp_path):
    (tmp_path / "features" / "features_uni").mkdir(parents=True)
    (tmp_path / "features" / "features_uni" / "a.h5").write_bytes(b"")
    assert not is_torchmil(tmp_path / "features" / "features_uni")
    assert is_torchmil(scans(tmp_path / "data") / "features" / "features_resnet18")


def test_only_folders_have_splits(folder, tmp_path):
    manifest = import_bags(folder, tmp_path / "store", features="resnet50", split="train")
    assert (manifest.bags, manifest.feature_names) == (12, ("resnet50_0", "resnet50_1", "resnet50_2"))
    (tmp_path / "bags.csv").write_text("bag,label,f\n1,0,1\n")
    for path in (tmp_path / "store", tmp_path / "bags.csv"):
        with pytest.raises(InputError, match=r"is no folder of bags with splits: split='train' would have no effect"):
            read_bags(path, split="train")
    with pytest.raises(InputError, match=r"is no folder of bags with splits"):
        import_bags(tmp_path / "bags.csv", tmp_path / "other", split="train")


def test_what_is_passed_over_is_named(folder):
    shutil.copytree(folder / "slice_labels", folder / "patch_labels")
    with pytest.warns(
        DataWarning, match=r"has the folders slice_labels, patch_labels, of which slice_labels is read\.$"
    ):
        read_torchmil(folder, features="resnet18")
    shutil.rmtree(folder / "patch_labels")
    shutil.rmtree(folder / "features" / "features_resnet18")
    np.save(folder / "features" / "stray.npy", np.zeros((1, 2)))
    with pytest.warns(DataWarning, match=r"features in features itself, which are not read, beside resnet50\.$"):
        assert read_torchmil(folder).bags.feature_names[0] == "resnet50_0"
