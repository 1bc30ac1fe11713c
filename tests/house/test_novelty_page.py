"""scripts/write_novelty.py: strange bags are what they are called, errors are counted right, the page says it."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from novelty import measuring, page
from novelty.cases import Case

from psimil import VGPMIL
from psimil.datasets import make_bags

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def case():
    bags, y, _ = make_bags(60, n_features=3, seed=3)
    return Case(0, bags[:40], y[:40], bags[40:], y[40:])


def written(docs, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["write_novelty.py", str(docs), *arguments])
        runpy.run_path(str(ROOT / "scripts" / "write_novelty.py"), run_name="__main__")
    return (docs / "trust" / "far-from-the-data.md").read_text(encoding="utf-8")


def test_a_quick_run_writes_tables_and_page(tmp_path):
    pytest.importorskip("torch")
    text = written(tmp_path, "--quick")
    assert "<!--" not in text and "nan" not in text
    assert "left out since their files were not given: MNIST, PCA" in text
    assert written(tmp_path, "--page-only") == text


def test_strange_bags_have_the_sizes_of_test_bags_and_the_spread_they_are_named_for(case):
    found = measuring.strange_bags(case, measuring.NoveltySettings(), np.random.default_rng(0))
    assert all(np.array_equal(bags.offsets, case.new.offsets) for bags in found.values())
    spread = (found["noise at 10 sd"].X - case.bags.X.mean(axis=0)).std(axis=0) / case.bags.X.std(axis=0)
    np.testing.assert_allclose(spread, 10.0, rtol=0.3)
    alone = (found["one instance of noise at 10 sd"].X != case.new.X).all(axis=1)
    assert np.array_equal(np.flatnonzero(alone), case.new.offsets[:-1])
    np.testing.assert_array_equal(np.sort(found["columns permuted"].X), np.sort(case.new.X))
    shuffled = found["values shuffled within columns"].X
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(case.new.X, axis=0))


def test_the_first_bags_of_the_order_are_those_that_refer_names(case):
    fitted = VGPMIL(n_inducing=8, random_state=0).fit(case.bags, case.y)
    found = fitted.predict_dist(case.new)
    strange = fitted.predict_dist(measuring.strange_bags(case, measuring.NoveltySettings(), np.random.default_rng(0))[
        "one instance of noise at 10 sd"
    ])  # fmt: skip
    for one in (found, strange):
        first = np.argsort(-measuring.referral_order(one), kind="stable")[: one.refer.sum()]
        assert one.refer[first].all()


def test_verdicts_follow_what_is_asked():
    row = {"bags": 100, "referred": 12, "uncertain": 10, "auc": 0.96}
    assert page.verdict("musk1", measuring.ORDINARY, row) == "reached"
    assert page.verdict("musk1", measuring.ORDINARY, row | {"referred": 13}) == "missed"
    assert page.verdict("musk1", "noise at 10 sd", row) == "missed"
    assert page.verdict("musk1", "noise at 3 sd", row) == "reached"
    assert page.verdict("musk1", "columns permuted", row) == page.verdict("shift", measuring.ORDINARY, row) == ""


def test_runs_are_summed_over_folds_before_their_spread_is_taken():
    counts = {"test_bags": 10, "referred": 2, "share": 1, "caught_share": 0, "area": 0.1, "auc": 0.9}
    rows = [{"data": "rsna", "model": "m", "run": run, "errors": 3, "caught": run, **counts} for run in (0, 0, 2, 2)]
    found = page.workload_summary(pd.DataFrame(rows)).iloc[0]
    assert (found["errors"], found["caught"], found["left"], found["runs"]) == (12, 4, 8, 2)
    assert found["caught_mean"] == 2.0 and found["caught_sd"] == pytest.approx(np.sqrt(8.0))
