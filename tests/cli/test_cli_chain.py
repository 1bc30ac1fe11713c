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


def test_another_word_is_refused(run):
    done = call("fit", run / "bags.csv", "--labels", "ring", "--out", run / "other")
    assert done.exit_code != 0
    assert "independent" in done.output and "chain" in done.output


def test_what_has_no_chains_is_refused_in_words(run):
    done = call("fit", run / "bags.csv", "--labels", "chain", "--posterior", "augmented", "--out", run / "third")
    assert done.exit_code != 0
    assert "needs posterior" in done.output
