"""Which folds allow a printed mean and standard deviation: by enumeration, and on the MUSK tables of the paper."""

from itertools import product

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from psimil.datasets import load_musk1, load_musk2
from psimil.paper.experiments.paper_numbers import paper_table, possible_counts


def enumerated(mean, sd, sizes, digits):
    """Distinct outcomes, folds of equal size not told apart, by trying all."""
    found = set()
    for right in product(*(range(size + 1) for size in sizes)):
        accuracy = np.array(right) / np.array(sizes)
        if abs(accuracy.mean() - mean) <= 0.5 * 10**-digits and abs(accuracy.std() - sd) <= 0.5 * 10**-digits:
            found.add(tuple(sorted(zip(sizes, right, strict=True))))
    return len(found)


@pytest.mark.parametrize(("mean", "sd"), [(0.75, 0.2), (0.6, 0.15), (0.9, 0.02), (0.5, 0.33)])
def test_equals_enumeration(mean, sd):
    sizes = [3, 4, 4, 5]
    assert possible_counts(mean, sd, sizes, digits=2) == enumerated(mean, sd, sizes, 2)


@pytest.mark.parametrize(("number", "load"), [(6, load_musk1), (7, load_musk2)])
def test_printed_musk_accuracies_cannot_come_from_test_folds(number, load):
    y = load()[1]
    train, test = zip(*StratifiedKFold(5).split(np.zeros(len(y)), y), strict=True)
    printed = paper_table(number)
    for row in printed[printed["metric"] == "bag_accuracy"].itertuples():
        assert possible_counts(row.mean, row.sd, [len(part) for part in test]) == 0
        assert possible_counts(row.mean, row.sd, [len(part) for part in train]) >= 1
