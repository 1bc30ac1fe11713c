"""Damaged and hostile table files: only success or an InputError."""

import io
import pickle
import warnings
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import FULL
from psimil.data import archives
from psimil.foundations.errors import DataWarning, InputError
from psimil.store.tables import read_bags


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"bag_ids": [1]}, "must hold X and either bag_ids or offsets; it holds bag_ids"),
        ({"X": [[1.0]]}, "must hold X and either"),
        ({"other": [[1.0]]}, "it holds neither"),
        ({"X": [[1.0]], "bag_ids": [1], "offsets": [0, 1]}, "must hold X and either"),
        ({"X": [1.0], "bag_ids": [1]}, "X has shape .1,., expected .instances, features."),
        ({"X": np.empty((0, 3)), "bag_ids": []}, "with at least 1 instance"),
        ({"X": [[1.0]], "bag_ids": [1, 2]}, "1 instances but bag_ids"),
        ({"X": [["a"]], "bag_ids": [1]}, "must be real numbers, got text"),
        ({"X": [[1j]], "bag_ids": [1]}, "must be real numbers, got complex"),
        ({"X": [[1.0], [2.0]], "offsets": [0, 0, 2]}, "bag 0 has 0 instances"),
        ({"X": [[1.0], [2.0]], "offsets": [0, 2, 1, 2]}, "offsets must not decrease"),
        ({"X": [[1.0], [2.0]], "offsets": [0.0, 0.7, 2.0]}, "offsets must be whole numbers"),
        ({"X": [[1.0], [2.0], [3.0]], "bag_ids": [1, 1, 2], "y": [1]}, "2 bags but 1 labels"),
        ({"X": [[1.0]], "bag_ids": [1], "y": [1j]}, "label of bag 1 is 1j; give every bag one of two labels"),
        ({"X": [[1.0]], "bag_ids": [1], "y": [2]}, "all labels are 2; a fit needs bags of two classes"),
        ({"X": [[1.0]], "bag_ids": [1], "y_instances": [0, 1]}, "1 instances but instance labels of shape"),
        ({"X": [[1.0]], "bag_ids": [1], "feature_names": ["a", "b"]}, "1 features but 2 feature_names"),
    ],
)
def test_npz_that_breaks_a_rule(savez, arrays, message):
    with pytest.raises(InputError, match=message):
        read_bags(savez(**arrays))


def test_npz_with_an_unknown_feature(savez):
    with pytest.raises(InputError, match=r'has no column "g"\. Columns: 0'):
        read_bags(savez(X=[[1.0]], bag_ids=[1]), features=["g"])


def test_python_objects_are_never_loaded(tmp_path, savez, write):
    path = savez(X=np.array([[Boom()]], dtype=object), bag_ids=[1])
    with pytest.raises(InputError, match="holds Python objects; such files can run code and are not loaded"):
        read_bags(path)
    with pytest.raises(InputError, match="is not an npz archive"):
        read_bags(write(pickle.dumps(Boom()), "bags.npz"))
    with zipfile.ZipFile(tmp_path / "raw.npz", "w") as archive:
        archive.writestr("X.npy", pickle.dumps(Boom()))
        archive.writestr("bag_ids.npy", pickle.dumps(Boom()))
    with pytest.raises(InputError):
        read_bags(tmp_path / "raw.npz")
    assert not Boom.exploded


class Boom:
    exploded = False

    def __reduce__(self):
        return (_explode, ())


def _explode():
    Boom.exploded = True


def test_npz_above_the_size_limit(savez, monkeypatch):
    monkeypatch.setattr(archives, "MAX_BYTES", 100)
    with pytest.raises(InputError, match="above the limit"):
        read_bags(savez(X=[[1.0]], bag_ids=[1]))


def test_npz_whose_header_claims_more_than_it_holds(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 2)})
    with zipfile.ZipFile(tmp_path / "bags.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
        archive.writestr("bag_ids.npy", header.getvalue())
    with pytest.raises(InputError, match="cannot be read as an npz archive"):
        read_bags(tmp_path / "bags.npz")


def only_input_errors(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        try:
            read_bags(path)
        except InputError as error:
            assert "\n" not in str(error)


FUZZ = settings(
    max_examples=200 if FULL else 60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(data=st.data())
@FUZZ
def test_flipped_bytes_in_npz_give_success_or_input_error(tmp_path, data):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=np.arange(6.0).reshape(3, 2), bag_ids=[1, 1, 2], y=[0, 1])
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "bags.npz"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    only_input_errors(path)


@given(content=st.one_of(st.binary(max_size=80), st.text('abglf01,.-"\n\r\t', max_size=60).map(str.encode)))
@FUZZ
def test_any_bytes_as_csv_give_success_or_input_error(tmp_path, content):
    path = tmp_path / "bags.csv"
    path.write_bytes(b"bag,f,g\n" + content)
    only_input_errors(path)
