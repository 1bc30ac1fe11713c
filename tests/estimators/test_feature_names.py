"""Names of features travel with bags, models and files; columns are told apart by name."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from psimil import VGPMIL, Bags, PsiVGPMIL, instancewise
from psimil.datasets import make_bags
from psimil.foundations.errors import DataWarning, InputError
from psimil.model.features import as_real
from psimil.store import StoreWriter, open_store

SETTINGS = {"n_inducing": 5, "max_iter": 3, "tol": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def frame():
    bags, y, _ = make_bags(n_bags=12, n_features=3, seed=0)
    table = pd.DataFrame(bags.X, columns=["size", "mass", "age"])
    return table.assign(bag=[f"b{n}" for n in bags.bag_index], label=y[bags.bag_index])


@pytest.fixture(scope="module")
def model(frame):
    return VGPMIL(**SETTINGS).fit(Bags.from_frame(frame), frame.groupby("bag")["label"].first())


def test_a_fit_on_a_frame_keeps_the_names(model):
    assert model.feature_names_in_.tolist() == ["size", "mass", "age"]


def test_columns_in_another_order_are_put_in_order(frame, model):
    expected = model.predict_proba(Bags.from_frame(frame))
    shuffled = frame[["age", "label", "mass", "bag", "size"]]
    np.testing.assert_array_equal(model.predict_proba(Bags.from_frame(shuffled)), expected)
    rows, ids = shuffled[["age", "mass", "size"]], shuffled["bag"]
    np.testing.assert_array_equal(model.predict_proba(rows, bag_ids=ids), expected)
    matrices = [part[["mass", "age", "size"]] for _, part in frame.groupby("bag", sort=False)]
    np.testing.assert_array_equal(model.predict_proba(matrices), expected)


def test_missing_columns_are_named_and_others_are_not_used(frame, model):
    with pytest.raises(InputError, match=r'lack the feature "mass" that the model was trained on. They have "size"'):
        model.predict(Bags.from_frame(frame.rename(columns={"mass": "weight"})))
    with pytest.warns(DataWarning, match='features that the model does not know are not used: "extra"'):
        found = model.predict_proba(Bags.from_frame(frame.assign(extra=1.0)))
    np.testing.assert_array_equal(found, model.predict_proba(Bags.from_frame(frame)))


def test_arrays_have_no_names_and_are_taken_by_their_number(frame, model):
    bags = Bags.from_frame(frame)
    np.testing.assert_array_equal(model.predict_proba(list(bags)), model.predict_proba(bags))
    with pytest.raises(InputError, match="model expects 3 features, got 2"):
        model.predict([np.ones((2, 2))])


def test_a_fit_on_arrays_forgets_the_names_of_an_earlier_one(frame):
    bags = Bags.from_frame(frame)
    model, y = VGPMIL(**SETTINGS), frame.groupby("bag")["label"].first()
    assert hasattr(model.fit(bags, y), "feature_names_in_")
    assert not hasattr(model.fit(list(bags), y[bags.ids].to_numpy()), "feature_names_in_")


def test_columns_named_by_numbers_have_names_like_any_other(frame):
    numbers = frame.rename(columns={"size": 0, "mass": 1, "age": 2})
    model = VGPMIL(**SETTINGS).fit(Bags.from_frame(numbers), frame.groupby("bag")["label"].first())
    assert model.feature_names_in_.tolist() == ["0", "1", "2"]
    swapped = Bags.from_frame(numbers[[2, 0, 1, "bag"]])
    np.testing.assert_array_equal(model.predict_proba(swapped), model.predict_proba(Bags.from_frame(numbers)))


def test_a_model_file_keeps_the_names(frame, model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = PsiVGPMIL.load(tmp_path / "model.safetensors")
    assert again.feature_names_in_.tolist() == ["size", "mass", "age"]
    shuffled = Bags.from_frame(frame[["age", "mass", "size", "bag"]])
    np.testing.assert_array_equal(again.predict_proba(shuffled), model.predict_proba(Bags.from_frame(frame)))


def test_a_store_has_one_order(frame, model, tmp_path):
    bags = Bags.from_frame(frame)
    for names in (["size", "mass", "age"], ["mass", "size", "age"], ["size", "mass", "weight"]):
        with StoreWriter(tmp_path / "-".join(names), 3, feature_names=names, dtype="float64") as writer:
            writer.add_many(bags)
    stored = open_store(tmp_path / "size-mass-age")
    np.testing.assert_array_equal(model.predict_proba(stored), model.predict_proba(bags))
    with pytest.raises(InputError, match=r'in the same order, "size", "mass", "age".*--features'):
        model.predict(open_store(tmp_path / "mass-size-age"))
    with pytest.raises(InputError, match='lack the feature "age"'):
        model.predict(open_store(tmp_path / "size-mass-weight"))


def test_partial_fit_and_evaluation_follow_the_names(frame):
    bags, y = Bags.from_frame(frame), frame.groupby("bag")["label"].first()
    shuffled = Bags.from_frame(frame[["age", "bag", "mass", "size"]])
    first, second = (VGPMIL(**SETTINGS).fit(bags, y).partial_fit(more, y) for more in (bags, shuffled))
    np.testing.assert_array_equal(first.predict_proba(bags), second.predict_proba(bags))
    with pytest.raises(InputError, match='lack the feature "age"'):
        VGPMIL(**SETTINGS).fit(bags, y, eval_set=(Bags.from_frame(frame.rename(columns={"age": "x"})), y))


def test_matrices_with_other_columns_are_refused():
    one, other = pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"a": [1.0], "c": [2.0]})
    with pytest.raises(InputError, match='bag 1 does not have the columns of the first bag: "b" is in only one'):
        Bags.from_list([one, other])
    assert Bags.from_list([one, one[["b", "a"]]]).X.tolist() == [[1.0, 2.0], [1.0, 2.0]]


class LazyFrame:
    """What polars and dask give: a table that is not there yet."""

    def __init__(self, frame):
        self.frame = frame

    def collect(self):
        return self.frame


def test_a_lazy_frame_is_collected(frame):
    assert Bags.from_frame(LazyFrame(frame)).ids.tolist() == Bags.from_frame(frame).ids.tolist()


@pytest.mark.parametrize("rows", [np.ones((6, 3)), np.ones((6, 3)).tolist()], ids=["array", "list"])
def test_one_matrix_for_all_bags_is_told_to_bring_ids(rows):
    with pytest.raises(InputError, match="bag_ids="):
        VGPMIL().fit(rows, [0, 1, 0, 1, 0, 1])


def test_bfloat16_is_read():
    torch = pytest.importorskip("torch")
    values = torch.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=torch.bfloat16)
    found = as_real(values, "features")
    assert found.dtype == np.float32
    assert found.tolist() == [[1.5, -2.0], [0.25, 3.0]]
    assert Bags.from_list([values, values]).sizes.tolist() == [2, 2]


def test_a_pipeline_follows_the_names(frame):
    bags, y = Bags.from_frame(frame), frame.groupby("bag")["label"].first()
    pipe = make_pipeline(instancewise(StandardScaler()), VGPMIL(**SETTINGS)).fit(bags, y)
    shuffled = Bags.from_frame(frame[["age", "mass", "size", "bag"]])
    np.testing.assert_array_equal(pipe.predict_proba(shuffled), pipe.predict_proba(bags))
    with pytest.raises(InputError, match='lack the feature "age"'):
        pipe.predict(Bags.from_frame(frame.rename(columns={"age": "x"})))


def test_a_digest_of_names_as_1_0_0_stored_it_is_checked(frame):
    bags, y = Bags.from_frame(frame), frame.groupby("bag")["label"].first()
    digest = "columns sha256:" + hashlib.sha256(b"size\0mass\0age").hexdigest()[:16]
    old = VGPMIL(feature_fingerprint=digest, **SETTINGS).fit(list(bags), y[bags.ids].to_numpy())
    assert len(old.predict(bags)) == 12
    with pytest.raises(InputError, match="not those of training, or in another order"):
        old.predict(Bags.from_frame(frame[["age", "mass", "size", "bag"]]))


def test_tables_and_arrays_are_not_mixed(frame):
    part = frame[["size", "mass", "age"]]
    with pytest.raises(InputError, match="bag 0 has no names of columns, but other bags have"):
        Bags.from_list([part.to_numpy(), part])


def test_numbers_and_bools_in_one_table_are_numbers():
    table = pd.DataFrame({"f": [0.5, 1.5], "flag": [True, False]})
    assert Bags.from_arrays(table, ["a", "b"]).X.tolist() == [[0.5, 1.0], [1.5, 0.0]]


def test_a_missing_value_is_told_by_the_name_of_its_feature(frame):
    with pytest.raises(InputError, match=r"first at bag b0, instance 0, feature mass\."):
        Bags.from_frame(frame.assign(mass=np.nan))
