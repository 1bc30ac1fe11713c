"""The demonstration: honest folds, its own files only, and a table that says what was measured."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from psimil.cli.demo import summary_rows
from psimil.cli.demo_run import FOLDS, cross_validate, fold_table, musk_frame
from psimil.cli.main import app
from psimil.datasets import load_musk1, make_bags
from psimil.estimators.psi_vgpmil import VGPMIL
from psimil.results.metrics import bag_metrics


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "demo"
    started = time.process_time()
    done = CliRunner().invoke(app, ["demo", "--out", str(out)])
    return out, done, time.process_time() - started


def test_it_runs_in_time(demo):
    _, done, seconds = demo
    assert done.exit_code == 0, done.output
    assert seconds < 60


def test_it_shows_both_models_and_says_what_comes_next(demo):
    out, done, _ = demo
    for text in ("VGPMIL", "G-VGPMIL", "accuracy", "AUC", "log-loss", "test bags", "Next:", f"psimil info {out}"):
        assert text in done.stdout
    assert "not a medical device" in done.stdout and str(out) in done.stdout


def test_it_leaves_figures_with_their_tables(demo):
    out, _, _ = demo
    for name in ("theta", "bound", "bag", "reliability"):
        assert (out / "figures" / f"{name}.png").stat().st_size > 1000
        assert len(pd.read_csv(out / "figures" / f"{name}.csv"))
    assert (out / "model.safetensors").is_file()
    assert "not a medical device" in (out / "summary.md").read_text(encoding="utf-8")


def test_the_summary_is_the_mean_over_folds(demo):
    out, _, _ = demo
    folds = pd.read_csv(out / "folds.csv")
    assert folds.groupby("model")["test_bags"].sum().to_dict() == {"G-VGPMIL": 92, "VGPMIL": 92}
    text = (out / "summary.md").read_text(encoding="utf-8")
    for row in summary_rows(folds):
        assert " | ".join(row[:5]) in text
    auc = folds[folds["model"] == "VGPMIL"]["auc"]
    assert summary_rows(folds)[0][3] == f"{np.mean(auc):.3f} ± {np.std(auc, ddof=1):.3f}"


def test_its_table_can_be_read_back(demo):
    from psimil.store.tables import read_bags

    bags, y = load_musk1()
    table = read_bags(demo[0] / "musk1.csv")
    np.testing.assert_array_equal(table.bags.X, bags.X)
    np.testing.assert_array_equal(table.y, y)
    assert musk_frame(bags, y).shape == (476, 168)


@pytest.mark.slow
def test_it_replaces_its_own_output_only(demo, tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 74
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
    out, _, _ = demo
    (out / "note.txt").write_text("mine, too")
    done = CliRunner().invoke(app, ["demo", "--out", str(out), "--json", "--seed", "1"])
    assert done.exit_code == 0
    assert (out / "note.txt").read_text() == "mine, too"
    facts = json.loads(done.stdout)
    assert set(facts["scores"]) == {"VGPMIL", "G-VGPMIL"} and facts["measured_on"] == "test bags of each fold"


def test_folds_partition_the_bags_and_never_see_their_test_bags():
    bags, y, _ = make_bags(n_bags=40, seed=1)
    seen = []

    class Spy(VGPMIL):
        def fit(self, bags, y, **more):
            seen.append(set(bags.ids.tolist()))
            return super().fit(bags, y, **more)

    notes = []
    folds = cross_validate(Spy(n_inducing=10, calibrate=False, random_state=0), bags, y, follow=notes.append)
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(40))
    for fold, trained_on in zip(folds, seen, strict=True):
        assert not trained_on & set(bags.names[fold.test].tolist())
        assert y[fold.test].sum() == 4
        expected = bag_metrics(y[fold.test], fold.prediction.prob, fold.prediction.threshold, fold.prediction.log_odds)
        assert fold.scores == expected
    assert len(notes) == FOLDS == len(fold_table({"spy": folds}))
