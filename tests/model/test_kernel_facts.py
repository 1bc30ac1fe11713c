"""Kernels of model files: parts of a sum belong to sums, and to nothing else."""

import pytest

from psimil import RBF
from psimil.files.schema import kernel_from, kernel_json
from psimil.foundations.errors import InputError
from psimil.model.kernels import Linear


def test_a_sum_comes_back():
    kernel = RBF(2.0, 1.5) + (Linear(0.5) + Linear(0.25))
    assert kernel_from(kernel_json(kernel)) == kernel


@pytest.mark.parametrize(
    "change", [{"kind": "RBF"}, {"kind": "Product"}, {"middle": {"kind": "Linear", "variance": 1.0}}, {"left": None}]
)
def test_what_is_no_sum_is_refused(change):
    facts = kernel_json(RBF(2.0, 1.5) + Linear(0.5)) | change
    with pytest.raises((InputError, TypeError, KeyError)):
        kernel_from(facts)
