"""Arrays that Bags accept and refuse: kinds of numbers, memory layouts, tensors (B18, B19, B20)."""

import numpy as np
import pytest

from psimil import Bags
from psimil.foundations.errors import InputError
from psimil.model.features import as_real
from psimil.model.scaling import Scaling


def same(found, expected):
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int64, np.uint16, bool], ids=lambda d: np.dtype(d).name)
def test_other_real_kinds_become_float64(dtype):
    bags = Bags.from_list([np.array([[0, 1], [1, 0]], dtype=dtype)])
    assert bags.X.dtype == np.float64
    assert bags.X.tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_float32_is_kept_and_mixtures_widen():
    one = np.ones((1, 2), dtype=np.float32)
    assert Bags.from_list([one, one]).X.dtype == np.float32
    assert Bags.from_arrays(one, [0]).X.dtype == np.float32
    assert Bags.from_list([one, one.astype(np.float64)]).X.dtype == np.float64


class Sparse:
    nnz = 1

    def toarray(self):
        raise AssertionError("a sparse matrix must not be made dense silently")


@pytest.mark.parametrize(
    ("bag", "message"),
    [
        (np.array([[1.0, 2.0]], dtype=object), "bag 1 must be real numbers, got object."),
        (np.array([[1.0 + 0j, 2.0]]), "bag 1 must be real numbers, got complex128."),
        (np.array([["1", "2"]]), "bag 1 must be real numbers, got text."),
        (np.array([["2020-01-01", "2021-01-01"]], dtype="M8[D]"), "bag 1 must be real numbers, got datetime64[D]."),
        (Sparse(), "bag 1 is a sparse matrix; give a dense array (for instance .toarray())."),
        ([[1.0, 2.0], [3.0]], "bag 1 is ragged: every instance needs the same number of features."),
    ],
    ids=["object", "complex", "text", "dates", "sparse", "ragged"],
)
def test_what_is_not_a_real_matrix_is_refused(bag, message):
    with pytest.raises(InputError) as caught:
        Bags.from_list([np.ones((1, 2)), bag])
    assert str(caught.value) == message


def test_a_scipy_sparse_matrix_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(InputError, match=r"^features is a sparse matrix"):
        Bags.from_arrays(sparse.csr_array(np.eye(2)), [0, 1])


def strange_layouts(tmp_path):
    plain = np.random.default_rng(1).normal(size=(6, 4))
    read_only = plain.copy()
    read_only.setflags(write=False)
    memmap = np.memmap(tmp_path / "bag.bin", dtype=np.float64, mode="w+", shape=(6, 4))
    memmap[:] = plain
    return {
        "non_contiguous": np.repeat(plain, 2, axis=1)[:, ::2],
        "fortran": np.asfortranarray(plain),
        "read_only": read_only,
        "memmap": memmap,
        "big_endian": plain.astype(">f8"),
        "negative_strides": plain[::-1, ::-1].copy()[::-1, ::-1],
        "view_of_more": np.pad(plain, 3)[3:-3, 3:-3],
    }, plain


def test_strange_layouts_are_accepted_and_left_unchanged(tmp_path):
    layouts, plain = strange_layouts(tmp_path)
    assert len(layouts) == 7
    for name, array in layouts.items():
        before, dtype, strides = array.tobytes(), array.dtype, array.strides
        bags = Bags.from_list([array, array])
        rows = Bags.from_arrays(array, [0, 1, 0, 1, 0, 1])
        assert bags.X.dtype == np.float64, name
        assert bags.X.dtype.isnative, name
        np.testing.assert_array_equal(bags.X, np.concatenate([plain, plain]), err_msg=name)
        np.testing.assert_array_equal(rows[1], plain[1::2], err_msg=name)
        Scaling.fit(bags.X).apply(bags.X)
        assert array.tobytes() == before, name
        assert (array.dtype, array.strides) == (dtype, strides), name


def test_scaling_never_writes_into_the_callers_array():
    X = np.random.default_rng(0).normal(size=(5, 2))
    before = X.copy()
    bags = Bags(X, [0, 2, 5])
    scaled = Scaling.fit(bags.X).apply(bags.X)
    scaled += 1.0
    np.testing.assert_array_equal(X, before)


class Device:
    def __init__(self, kind):
        self.type = kind

    def __str__(self):
        return f"{self.type}:0"


class Tensor:
    """What psimil sees of a torch tensor: a device, and no array before it is detached."""

    def __init__(self, values, device="cpu", requires_grad=True):
        self.values, self.device, self.requires_grad = np.asarray(values), Device(device), requires_grad

    def detach(self):
        return Tensor(self.values, self.device.type, requires_grad=False)

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.values


def test_a_tensor_that_requires_grad_is_detached():
    assert as_real(Tensor([[1.0, 2.0]]), "features").tolist() == [[1.0, 2.0]]
    same(Bags.from_list([Tensor([[1.0]]), Tensor([[2.0]])]), [[[1.0]], [[2.0]]])


def test_a_tensor_on_another_device_is_named():
    with pytest.raises(InputError) as caught:
        Bags.from_list([Tensor([[1.0]]), Tensor([[2.0]], device="cuda")])
    assert str(caught.value) == "bag 1 is on cuda:0 but the model is on cpu."


@pytest.mark.parametrize("magnitude", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_standardising_does_not_depend_on_the_unit(magnitude):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(50, 2))
    expected = (X - X.mean(axis=0)) / X.std(axis=0)
    scaling = Scaling.fit(X * magnitude)
    np.testing.assert_allclose(scaling.apply(X * magnitude), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(scaling.invert(expected), X * magnitude, rtol=1e-9, atol=1e-12 * magnitude)
