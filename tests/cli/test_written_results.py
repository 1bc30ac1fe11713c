"""What commands leave for viewer and report: out-of-bag predictions of a fit, and predictions with their labels."""

import json

import numpy as np
import pandas as pd

from commands import QUICK, call, fails, frame_of, trained
from psimil import PsiVGPMIL
from psimil.report import Choices, render_report
from psimil.results.result_set import OUT_OF_BAG, ResultSet
from psimil.store.tables import read_bags


def test_fit_writes_its_out_of_bag_predictions_which_say_so(tmp_path):
    files = trained(tmp_path)
    table, found = read_bags(files / "train.csv"), ResultSet.load(files / "run")
    assert found.origin == OUT_OF_BAG == "out-of-bag: every bag is predicted by a model that has not learned from it"
    rows = pd.read_csv(files / "run" / "bags.csv")
    np.testing.assert_array_equal(found.prediction.prob, rows["prob"])
    np.testing.assert_array_equal(found.truth, table.y)
    np.testing.assert_array_equal(found.instance_truth, table.y_instances)
    inside = PsiVGPMIL.load(files / "run" / "model.safetensors").predict_dist(table.bags)
    assert not np.allclose(found.prediction.prob, inside.prob)
    assert found.feature_names == table.feature_names and found.kind == "features"
    assert ResultSet.of(inside).origin == ""
    page = render_report(found, Choices(probable=1, uncertain=0))
    assert f"predicted by VGPMIL, {OUT_OF_BAG}." in page
    assert "compares bags of one fold" in page and "where the model was not trained" not in page
    told = json.loads((files / "run" / "metrics.json").read_text())["out_of_bag"]["bags"]
    assert {name: told[name] for name in ("auc", "accuracy", "log_loss")}.items() <= found.scores().items()


def test_labels_that_a_fit_has_learned_from_do_not_flatter_what_is_shown_of_it(tmp_path):
    frame = frame_of(n_bags=12)
    frame.to_csv(tmp_path / "a.csv", index=False)
    call("fit", tmp_path / "a.csv", "--out", tmp_path / "run", "--instance-label", "instance_label", *QUICK)
    assert not ResultSet.load(tmp_path / "run").has_instance_truth


def test_predict_writes_results_with_the_labels_of_the_table(tmp_path):
    files = trained(tmp_path)
    done = call("predict", files / "run", files / "test.csv", "--out", tmp_path / "out", "--image-size", "1x3")
    assert done.exit_code == 0, done.output
    assert f"psimil view {tmp_path / 'out'}" in done.stdout
    table, found = read_bags(files / "test.csv"), ResultSet.load(tmp_path / "out")
    assert found.kind == "images" and found.images.shape == (len(table.bags.X), 1, 3)
    np.testing.assert_array_equal(found.truth, table.y)
    np.testing.assert_array_equal(found.instance_truth, table.y_instances)
    assert found.feature_names == table.feature_names
    assert found.prediction.ids.tolist() == table.bags.ids.tolist()
    assert found.model["model"] == "VGPMIL" and len(found.model["sha256"]) == 16
    fails(
        call("predict", files / "run", files / "test.csv", "--out", tmp_path / "x", "--image-size", "2x2"), 65, "2 x 2"
    )
    fails(call("predict", files / "run", files / "test.csv", "--out", tmp_path / "x", "--image-size", "2by2"), 2)
    assert not (tmp_path / "x").exists()
