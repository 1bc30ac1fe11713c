"""scripts/write_bound_order.py: ranks agree as they should, and the page says what was measured."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from bound_order import measuring, problems, ranking

from psimil import VGPMIL
from psimil.datasets import make_bags

ROOT = Path(__file__).resolve().parents[2]


def written(docs, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["write_bound_order.py", str(docs), *arguments])
        runpy.run_path(str(ROOT / "scripts" / "write_bound_order.py"), run_name="__main__")
    return (docs / "mathematics" / "bound-order.md").read_text(encoding="utf-8")


def rows_of(bound, held_out, fold=0):
    common = {"data": "musk1", "posterior": "variational", "fold": fold, "bound_error": 0.01, "converged": True}
    return [
        {**common, "variance": v, "lengthscale": 1.0, "score": b, "bound": -b, "own_bound": 0.1 - b, "importance": b,
         "held_out": h, "held_out_plain": -h, "half_0_a": h, "half_0_b": h, "seconds": 1.0}
        for v, (b, h) in enumerate(zip(bound, held_out, strict=True))
    ]  # fmt: skip


def test_a_quick_run_writes_tables_and_page(tmp_path):
    text = written(tmp_path, "--quick")
    assert "<!--" not in text and "nan" not in text
    assert "left out since their files were not given: MNIST, PCA, Elephant" in text
    table = pd.read_csv(tmp_path / "images" / "bound-order.csv")
    assert len(table) == 2 * 4 and set(table["posterior"]) == {"variational", "augmented"}
    assert written(tmp_path, "--page-only") == text


def test_the_summary_ranks_means_over_folds():
    rows = pd.DataFrame(rows_of([1.0, 2.0, 3.0], [1.0, 2.0, 0.0]) + rows_of([1.0, 2.0, 3.0], [1.0, 2.0, 9.0], fold=1))
    found = ranking.summary(rows).iloc[0]
    assert found["spearman"] == 1.0 and found["plain"] == found["of_bound"] == -1.0
    assert (found["folds_low"], found["folds_high"]) == (-0.5, 1.0)
    assert found["lost"] == 0.0 and found["optimism"] == pytest.approx(0.1)


def test_halves_that_agree_can_be_trusted_and_halves_of_noise_cannot():
    rng, names = np.random.default_rng(0), [f"half_{n}_{side}" for n in range(50) for side in "ab"]
    noise = pd.DataFrame(rng.normal(size=(25, len(names))), columns=names)
    assert abs(ranking.reliability(noise)) < 0.2
    assert ranking.reliability(pd.DataFrame(dict.fromkeys(names, np.arange(25)))) == 1.0


def test_fresh_draws_give_the_bound_that_the_draws_of_the_fit_flatter():
    bags, y, _ = make_bags(30, n_features=2, seed=3)
    fitted = VGPMIL(n_inducing=6, hyperparameters=None, random_state=1).fit(bags, y)
    found = measuring.fresh_scores(fitted.model_, bags, y, 4096, 5)
    assert found.error < 0.01
    assert found.bound == pytest.approx(fitted.elbo_ / len(y), abs=0.1)
    assert found.bound < found.importance < found.bound + 0.1
    assert found.evidence == pytest.approx(found.importance, abs=0.01)


def test_every_problem_has_a_target():
    assert {name: one.target for name, one in problems.PROBLEMS.items()} == {
        "musk1": 0.95, "mnist-pca": 0.95, "elephant": 0.8, "protein": 0.8, "cq500": 0.8
    }  # fmt: skip
    assert len(measuring.OrderSettings().kernels) >= 20
