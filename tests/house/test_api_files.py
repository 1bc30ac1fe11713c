"""Files, stores and datasets as Python users meet them: wrong arguments are told in one line, nothing is left."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from psimil import Bags, datasets
from psimil.files.csv_table import write_table
from psimil.files.model_file import load_model, save_model
from psimil.files.paths import as_path
from psimil.foundations.errors import InputError
from psimil.results.feedback import Feedback, read_feedback, with_feedback, write_feedback
from psimil.store import StoreWriter, import_bags, is_store, open_store, read_manifest, verify_store
from psimil.store.tables import read_bags

BAGS = Bags.from_list([[[1.0]], [[2.0]]], ids=["a", "b"])
FRAME = pd.DataFrame({"a": [1]})

TAKE_PATHS = {
    "read_bags": (read_bags, "path"),
    "write_table": (lambda value: write_table(FRAME, value), "path"),
    "read_feedback": (read_feedback, "path"),
    "write_feedback": (lambda value: write_feedback(value, []), "path"),
    "save_model": (lambda value: save_model(value, None), "path"),
    "load_model": (load_model, "path"),
    "open_store": (open_store, "path"),
    "verify_store": (verify_store, "path"),
    "read_manifest": (read_manifest, "path"),
    "is_store": (is_store, "path"),
    "StoreWriter": (lambda value: StoreWriter(value, 1), "path"),
    "import_bags": (lambda value: import_bags(value, "store"), "source"),
    "import_bags to": (lambda value: import_bags("bags.csv", value), "store"),
    "read_h5": (lambda value: datasets.read_h5(value, {"a": 1}), "directory"),
    "read_h5 labels": (lambda value: datasets.read_h5("slides", value), "labels"),
    "write_h5": (lambda value: datasets.write_h5(value, BAGS), "directory"),
    "read_torchmil": (datasets.read_torchmil, "directory"),
    "write_torchmil": (lambda value: datasets.write_torchmil(value, BAGS, [0, 1]), "directory"),
    "read_idx": (datasets.read_idx, "path"),
    "read_classic": (datasets.read_classic, "path"),
    "locate": (lambda value: datasets.locate(value, "rsna_f8_cnn0.csv"), "directory"),
    "verify": (lambda value: datasets.verify(value, "rsna_f8_cnn0.csv"), "path"),
    "fetch": (lambda value: datasets.fetch(value, "rsna_f8_cnn0.csv"), "directory"),
    "load_mnist": (datasets.load_mnist, "directory"),
    "load_rsna": (datasets.load_rsna, "directory"),
    "load_cq500": (datasets.load_cq500, "directory"),
    "load_rsna_training": (lambda value: datasets.load_rsna_training(value, 8, 1), "directory"),
}
NOT_PATHS = {"None": (None, "got NoneType."), "number": (7, "got int."), "bytes": (b"a", "got bytes.")}


@pytest.mark.parametrize("kind", NOT_PATHS)
@pytest.mark.parametrize("name", TAKE_PATHS)
def test_what_is_no_path_is_named(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    if "h5" in name:
        pytest.importorskip("h5py")
    (call, what), (value, ending) = TAKE_PATHS[name], NOT_PATHS[kind]
    with pytest.raises(InputError) as caught:
        call(value)
    assert str(caught.value) == f"{what} must be a path (str or pathlib.Path), {ending}"
    assert list(tmp_path.iterdir()) == []


def test_paths_that_are_paths():
    assert as_path("a/b") == as_path(Path("a/b")) == Path("a/b")
    for value in ("", "a\0b"):
        with pytest.raises(InputError, match=r"^path must be a path \(str or pathlib.Path\), got '.*'. Name a file"):
            as_path(value)


def store(path, **arguments):
    return lambda: StoreWriter(path, **arguments)


def planned(ids, sizes):
    def call():
        with StoreWriter("store", 1) as writer:
            writer.plan(ids, sizes)

    return call


def added(bags):
    def call():
        with StoreWriter("store", 1) as writer:
            writer.add_many(bags)

    return call


WRONG = {
    "features as text": (store("s", n_features="a"), "n_features must be a whole number >= 1, got 'a'."),
    "half a feature": (store("s", n_features=2.5), "n_features must be a whole number >= 1, got 2.5."),
    "no feature": (store("s", n_features=0), "n_features must be a whole number >= 1, got 0."),
    "one name": (store("s", n_features=2, feature_names="ab"), "feature_names must be a sequence of names, got str."),
    "number for dtype": (store("s", n_features=1, dtype=4), 'dtype must be "float32" or "float64", got 4.'),
    "a list to add": (added([[[1.0]]]), "bags must be psimil.Bags, got list. Make them with Bags.from_list."),
    "nothing to add": (added(None), "bags must be psimil.Bags, got NoneType."),
    "a bag of none": (planned(["a", "b"], [2, 0]), "bag b has 0 instances. Remove it or add instances."),
    "a bag of less": (planned(["a"], [-1]), "bag a has -1 instances."),
    "a bag of half": (planned(["a"], [0.5]), "sizes must be 1 whole numbers, one for each id, got [0.5]."),
    "too few sizes": (planned(["a", "b"], [1]), "sizes must be 2 whole numbers, one for each id, got [1]."),
    "arrays to h5": (lambda: datasets.write_h5("h5", np.ones((2, 3))), "bags must be psimil.Bags, got ndarray."),
    "a list to torchmil": (lambda: datasets.write_torchmil("t", [[1]], [1]), "bags must be psimil.Bags, got list."),
    "a list as a frame": (lambda: write_table([1], "a.csv"), "frame must be a pandas DataFrame, got list."),
    "bags as text": (lambda: datasets.make_bags("a"), "n_bags must be a whole number >= 1, got 'a'."),
    "no features": (lambda: datasets.make_bags(n_features=0), "n_features must be a whole number >= 1, got 0."),
    "bag size of none": (
        lambda: datasets.make_bags(bag_size=0),
        "bag_size must be one number >= 1, or (smallest, larg",
    ),
    "bag sizes of three": (lambda: datasets.make_bags(bag_size=(1, 2, 3)), "bag_size must be one number >= 1"),
    "bag size backwards": (lambda: datasets.make_bags(bag_size=(5, 2)), "bag_size must be one number >= 1"),
    "bag size as text": (lambda: datasets.make_bags(bag_size="ab"), "bag_size must be one number >= 1"),
    "negative seed": (lambda: datasets.make_bags(seed=-1), "seed must be a whole number >= 0, got -1."),
    "no seed": (lambda: datasets.make_bags(seed=None), "seed must be a whole number >= 0, got None."),
    "rate as text": (lambda: datasets.make_bags(witness_rate="a"), "witness_rate must be a number >= 0, got 'a'."),
    "rate above 1": (lambda: datasets.make_bags(witness_rate=2), "witness_rate must be between 0 and 1, got 2."),
    "no separation": (lambda: datasets.make_bags(separation=None), "separation must be a finite number, got None."),
    "digits as text": (lambda: datasets.digits_bags("a"), "n_bags must be a whole number >= 0, got 'a'."),
    "digits of pairs": (
        lambda: datasets.digits_bags(bag_size=(1, 2)),
        "bag_size must be a whole number >= 1, got (1, 2)",
    ),
    "digits' seed": (lambda: datasets.digits_bags(4, seed=-1), "seed must be a whole number >= 0, got -1."),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_told_in_one_line(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    if "h5" in name:
        pytest.importorskip("h5py")
    call, start = WRONG[name]
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_one_number_is_the_size_of_all_bags():
    bags, _, _ = datasets.make_bags(n_bags=6, bag_size=5)
    assert bags.sizes.tolist() == [5] * 6
    same, _, _ = datasets.make_bags(n_bags=6, bag_size=(5, 5))
    np.testing.assert_array_equal(bags.X, same.X)


def test_feedback_without_labels_names_the_parameter_and_the_option(tmp_path):
    path = tmp_path / "bags.csv"
    path.write_text("bag,size\na,1\n")
    with pytest.raises(InputError, match=r"Name their column with label= of read_bags \(--label\)\.$"):
        with_feedback(read_bags(path), [Feedback("a", None, "agree", "", 1, "")])
