"""Chains of labels on the command line: fitted, told of, and used for predictions."""

import json

import numpy as np
import pandas as pd
import pytest

from chained import runs
from commands import call
from psimil import Bags, PsiVGPMIL


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a table of ordered rows and a run that was fitted on it."""
    folder = tmp_path_factory.mktemp("chain")
    X, y, _ = runs(1, bags=24)
    table = pd.DataFrame(X.reshape(-1, 2), columns=["a", "b"])
    table.insert(0, "bag", np.repeat([f"p{i:02}" for i in range(24)], 6))
    table.insert(1, "label", np.repeat(y, 6))
    table.to_csv(folder / "bags.csv", index=False)
    quick = ["--n-inducing", "6", "--max-iter", "15", "--seed", "0"]
    done = call("fit", folder / "bags.csv", "--labels", "chain", "--out", folder / "run", *quick)
    assert done.exit_code == 0, done.output
    return folder


def test_info_tells_of_the_coupling(run):
    facts = json.loads(call("info", run / "run", "--json").stdout)
    assert facts["coupling"] > 0
    assert facts["parameters"]["labels"] == "chain"
    shown = call("info", run / "run")
    assert shown.exit_code == 0
    assert "coupling" in shown.output


def test_predictions_are_those_of_the_model(run):
    done = call("predict", run / "run", run / "bags.csv", "--out", run / "predicted")
    assert done.exit_code == 0, done.output
    found = pd.read_csv(next((run / "predicted").glob("*bag*.csv")))
    table = pd.read_csv(run / "bags.csv")
    model = PsiVGPMIL.load(next((run / "run").glob("*.safetensors")))
    bags = Bags.from_frame(table)
    expected = model.predict_dist(bags).prob
    np.testing.assert_allclose(found["prob"], expected, atol=1e-6)
    assert model.model_.coupling > 0


@pytest.fixture(scope="module")
def known(run):
    """The table with instance labels and uneven places, its rows shuffled."""
    table = pd.read_csv(run / "bags.csv")
    rng = np.random.default_rng(0)
    table["instance_label"] = table["label"] * rng.integers(0, 2, len(table))
    table["place"] = np.tile([0.0, 5.0, 10.0, 15.0, 20.0, 60.0], 24)
    table.to_csv(run / "known.csv", index=False)
    table.sample(frac=1, random_state=1).to_csv(run / "shuffled.csv", index=False)
    return table


def inside_by_hand(table, log_odds, places):
    """AUC within bags by pairs, and the mean distance to the nearest positive instance."""
    areas, errors = [], []
    for _, part in table.assign(score=log_odds, at=places).groupby("bag"):
        yes, no = part[part["instance_label"] == 1], part[part["instance_label"] == 0]
        if len(yes):
            errors.append((yes["at"] - part.loc[part["score"].idxmax(), "at"]).abs().min())
        if len(yes) and len(no):
            areas.append((yes["score"].to_numpy()[:, None] > no["score"].to_numpy()).mean())
    return pytest.approx(np.mean(areas)), pytest.approx(np.mean(errors)), len(areas), len(errors)


def asked(run, *more):
    done = call("evaluate", run / "run", *more, "--json")
    assert done.exit_code == 0, done.output
    inside = json.loads(done.stdout)["localisation"]
    counts = inside["n_both_kinds"], inside["n_positive"]
    return inside, (inside["model"]["auc_within_bags"], inside["model"]["localisation_error"], *counts)


def test_a_chain_is_evaluated_in_rows(run, known):
    inside, found = asked(run, run / "known.csv")
    model = PsiVGPMIL.load(run / "run" / "model.safetensors")
    bags = Bags.from_frame(known, features=["a", "b"])
    log_odds = model.predict_dist(bags).instance_log_odds
    assert found == inside_by_hand(known, log_odds, np.tile(np.arange(6), 24))
    assert inside["unit"] == "rows" and 0 <= inside["middle"]["auc_within_bags"] <= 1


def test_positions_give_order_and_gaps_whatever_the_order_of_rows(run, known):
    """The last instance of each bag is far from the others: no link leads to it, and the middle is nearer to it."""
    inside, found = asked(run, run / "shuffled.csv", "--position", "place")
    model = PsiVGPMIL.load(run / "run" / "model.safetensors")
    bags = Bags.from_frame(known, features=["a", "b"]).in_order(known["place"].to_numpy())
    assert bags.links[4] == 0
    log_odds = model.predict_dist(bags).instance_log_odds
    assert found == inside_by_hand(known, log_odds, known["place"])
    _, *middle = inside_by_hand(known, -(known["place"] - 30).abs(), known["place"])
    assert inside["unit"] == "place" and inside["middle"]["localisation_error"] == middle[0]


def test_what_is_found_inside_bags_is_shown(run, known):
    shown = call("evaluate", run / "run", run / "known.csv", "--position", "place").output
    for text in ("Inside bags", "middle of the bag", "instance AUC within bags", "localisation error, place"):
        assert text in shown
    assert "n/a" not in shown and "--position" not in shown
    assert "Inside bags" not in call("evaluate", run / "run", run / "bags.csv").output  # no instance labels


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (None, 'has no column "place"'),
        (["far"] * 6, 'column "place" must hold numbers'),
        ([0, 1, "", 3, 4, 5], 'column "place" must hold a position in every row, row 3 has none'),
    ],
)
def test_positions_that_are_none_are_refused(run, known, tmp_path, cells, message):
    table = known.drop(columns="place") if cells is None else known.assign(place=np.tile(np.array(cells, object), 24))
    table.to_csv(tmp_path / "bad.csv", index=False)
    done = call("evaluate", run / "run", tmp_path / "bad.csv", "--position", "place")
    assert done.exit_code == 65 and message in done.output


def test_another_word_is_refused(run):
    done = call("fit", run / "bags.csv", "--labels", "ring", "--out", run / "other")
    assert done.exit_code != 0
    assert "independent" in done.output and "chain" in done.output


def test_what_has_no_chains_is_refused_in_words(run):
    done = call("fit", run / "bags.csv", "--labels", "chain", "--posterior", "augmented", "--out", run / "third")
    assert done.exit_code != 0
    assert "needs posterior" in done.output
