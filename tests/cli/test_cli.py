"""The command line: what it writes and what it says."""

import json
import tomllib
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from commands import QUICK, call, fails, frame_of, times_typer, trained
from psimil import PsiVGPMIL
from psimil.datasets import make_bags
from psimil.results.model_card import context_words
from psimil.store.tables import read_bags
from psimil.version import VERSION

RUN = {
    "bags.csv", "config.toml", "environment.json", "figures", "history.csv", "instances.csv", "metrics.json",
    "model.safetensors", "results.safetensors", "summary.md",
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("cli"), drawn=True)


def test_version_and_help():
    assert call("--version").stdout == f"psimil {VERSION}\n"
    for arguments in ([], ["--help"]):
        done = call(*arguments)
        assert done.exit_code == 0
        for command in ("demo", "fit", "predict", "evaluate", "info", "not a medical device"):
            assert command in done.stdout


def test_help_is_quick(tmp_path):
    assert times_typer("--help", cwd=tmp_path) < 3


def test_fit_writes_a_run(files):
    run = files / "run"
    assert {p.name for p in run.iterdir()} == RUN
    assert {p.name for p in (run / "figures").iterdir()} == {
        f"{name}.{kind}" for name in ("history", "bag", "reliability") for kind in ("png", "pdf", "csv")
    }
    assert (run / "figures" / "bag.png").read_bytes().startswith(b"\x89PNG")
    environment = json.loads((run / "environment.json").read_text())
    assert environment["psimil"] == VERSION and environment["seed"] == 0
    metrics = json.loads((run / "metrics.json").read_text())["out_of_bag"]
    assert metrics["measured_on"] == "out-of-bag on the training bags of train.csv"
    assert metrics["n_bags"] == 30 and metrics["bags"]["auc"] > 0.5 and "instances" in metrics
    summary = (run / "summary.md").read_text()
    assert "its 95 % interval" in summary and "psimil evaluate" in summary and "not a medical device" in summary
    assert pd.read_csv(run / "history.csv")["pass"].is_monotonic_increasing


def test_results_are_in_the_order_of_the_file(files):
    rows = pd.read_csv(files / "train.csv")
    instances = pd.read_csv(files / "run" / "instances.csv")
    assert instances["bag"].tolist() == rows["bag"].tolist()
    assert instances["y"].tolist() == rows["instance_label"].tolist()
    bags = pd.read_csv(files / "run" / "bags.csv")
    assert bags["bag"].tolist() == list(dict.fromkeys(rows["bag"]))
    assert bags["y"].tolist() == rows.drop_duplicates("bag")["label"].tolist()


def test_predict_is_the_estimators_prediction(files, tmp_path):
    done = call("predict", files / "run", files / "test.csv", "--out", tmp_path / "out")
    assert done.exit_code == 0 and "not a medical device" in done.stdout
    table = read_bags(files / "test.csv")
    expected = PsiVGPMIL.load(files / "run" / "model.safetensors").predict_dist(table.bags)
    found = pd.read_csv(tmp_path / "out" / "instances.csv")
    pd.testing.assert_frame_equal(found, expected.to_frame("instance"), check_dtype=False)
    bags = pd.read_csv(tmp_path / "out" / "bags.csv")
    assert list(bags.columns) == list(expected.to_frame().columns)
    np.testing.assert_allclose(bags["prob"], expected.prob, rtol=1e-15)
    assert "not a medical device" in (tmp_path / "out" / "summary.md").read_text()
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "bags.csv", "instances.csv", "environment.json", "results.safetensors", "summary.md",
    }  # fmt: skip


def test_evaluate_says_what_was_measured_where(files):
    done = call("evaluate", files / "run" / "model.safetensors", files / "test.csv")
    assert done.exit_code == 0
    for text in ("Measured on test.csv", "30 bags", "instances", "AUC", "Bag threshold", "instance threshold"):
        assert text in done.stdout
    facts = json.loads(call("evaluate", files / "run", files / "test.csv", "--json").stdout)
    table = read_bags(files / "test.csv")
    clf = PsiVGPMIL.load(files / "run" / "model.safetensors")
    assert facts["bags"]["accuracy"] == pytest.approx(np.mean(clf.predict(table.bags) == table.y))
    assert facts["measured_on"] == "test.csv" and facts["n_bags"] == 30 and facts["warnings"] == []
    inside = facts["localisation"]  # the model is no chain and no position was named: bags have no order
    assert "n/a" in done.stdout and "--position" in done.stdout
    assert inside["unit"] is None and set(inside["middle"].values()) == {None}
    assert inside["model"]["auc"] == facts["instances"]["auc"] and inside["model"]["localisation_error"] is None


def test_info(files):
    done = call("info", files / "run")
    assert done.exit_code == 0 and "lengthscale" in done.stdout and "not a medical device" in done.stdout
    facts = json.loads(call("info", files / "run", "--json").stdout)
    assert facts["features"] == 3 and facts["inducing_points"] == 8
    assert facts["training"] == {"bags": 30, "positive": 15, "instances": len(pd.read_csv(files / "train.csv"))}
    model = PsiVGPMIL.load(files / "run" / "model.safetensors").model_
    assert facts["posterior"] == {"kind": "variational"} and facts["novelty_distance"] == np.sqrt(model.novelty.square)
    assert facts["referral"] == {"rule": "workload=0.1", "caught": model.referral.cost.caught, **asdict(model.referral)}
    assert "referral.caught" in done.stdout and "posterior.kind" in done.stdout


def test_info_tells_whether_to_trust_draws(files, tmp_path):
    call(
        "fit", files / "train.csv", "--out", tmp_path / "a", "--posterior", "sampled", "--referral", "interval", *QUICK
    )
    facts = json.loads(call("info", tmp_path / "a", "--json").stdout)
    chains = PsiVGPMIL.load(tmp_path / "a" / "model.safetensors").model_.chains
    assert facts["posterior"] == {
        "kind": "sampled", "draws": len(chains.v), "r_hat": chains.r_hat, "divergences": chains.divergences,
        "effective_sample_size": chains.effective_sample_size, "acceptance": chains.acceptance,
    }  # fmt: skip
    assert facts["referral"] == {"rule": "interval"}
    said = (tmp_path / "a" / "summary.md").read_text()
    assert "Referral to a reader: where the interval crosses the threshold, or novel." in said


def test_context_is_asked_for_and_told(files, tmp_path):
    run, again = tmp_path / "a", tmp_path / "b"
    done = call("fit", files / "train.csv", "--out", run, "--context", "auto", *QUICK)
    assert done.exit_code == 0, done.output
    model = PsiVGPMIL.load(run / "model.safetensors").model_
    words = context_words(model)
    assert "log p(T)" in words and f"Context of instances: {words}." in done.stdout.replace("\n", " ")
    assert f"Context of instances: {words}." in (run / "summary.md").read_text()
    facts = json.loads(call("info", run, "--json").stdout)
    assert facts["context"] == words and facts["features"] == 3 and facts["parameters"]["context"] == "auto"
    assert tomllib.loads((run / "config.toml").read_text())["context"] == "auto"
    learned = pd.read_csv(run / "history.csv").set_index("context")["learned_log_evidence"].dropna()
    np.testing.assert_allclose(learned[["bag", "none"]], model.context_evidence)
    for context, expected in (("bag", "bag"), ("none", "none")):
        options = ["--context", context, "--config", run / "config.toml", "--overwrite", "--json", *QUICK]
        assert json.loads(call("fit", files / "train.csv", "--out", again, *options).stdout)["context"] == expected
        assert PsiVGPMIL.load(again / "model.safetensors").context == {"none": None}.get(context, context)
        done = call("predict", again, files / "test.csv", "--out", tmp_path / "new", "--overwrite", "--json")
        assert done.exit_code == 0, done.output
    fails(
        call("fit", files / "train.csv", "--out", again, "--context", "scan"),
        2,
        "context must be one of None, 'bag', 'auto'",
    )
    judged = ["--context", "auto", "--hyperparameters", "none"]
    fails(call("fit", files / "train.csv", "--out", tmp_path / "c", *judged), 2, "hyperparameters=None does not allow")


def test_json_is_one_object_and_quiet_is_quiet(files, tmp_path):
    done = call("fit", files / "train.csv", "--out", tmp_path / "a", "--json", *QUICK)
    assert len(done.stdout.splitlines()) == 1
    assert json.loads(done.stdout)["training"]["bags"] == 30
    done = call("fit", files / "train.csv", "--out", tmp_path / "b", "--quiet", *QUICK)
    assert done.exit_code == 0 and done.stdout == "" and done.stderr == ""


def test_same_seed_same_model_and_the_config_of_a_run_gives_it_again(files, tmp_path):
    config = files / "run" / "config.toml"
    assert call("fit", files / "train.csv", "--out", tmp_path / "again", "--config", config).exit_code == 0
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (files / "run" / "model.safetensors").read_bytes()
    assert (tmp_path / "again" / "config.toml").read_text() == config.read_text()


@pytest.mark.parametrize(
    ("preset", "model"),
    [
        ("paper", "gvgpmil"),
        ("published", "vgpmil"),
        pytest.param("paper", "vgpmil", marks=pytest.mark.slow),
        pytest.param("published", "gvgpmil", marks=pytest.mark.slow),
    ],
)
def test_presets_and_their_configs(files, tmp_path, preset, model):
    options = ["--preset", preset, "--model", model, "--n-inducing", "6", "--max-iter", "2", "--json"]
    first = call("fit", files / "train.csv", "--out", tmp_path / "a", *options)
    assert first.exit_code == 0, first.output
    config = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert config["H"] == {"paper": 100.0, "published": 1e12}[preset]
    assert config["label_posterior"] == {"paper": "mean_field", "published": "max"}[preset]
    assert config["kernel"] == {"kind": "RBF", "variance": 0.5}
    again = call(
        "fit", files / "train.csv", "--out", tmp_path / "b", "--config", tmp_path / "a" / "config.toml", "--json"
    )
    assert json.loads(again.stdout)["elbo"] == json.loads(first.stdout)["elbo"]
    for name in ("config.toml", "model.safetensors"):
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "a" / name).read_bytes(), name


def test_options_win_over_the_file_and_the_file_over_defaults(files, tmp_path):
    (tmp_path / "c.toml").write_text('n_inducing = 5\nmax_iter = 3\nH = inf\nhyperparameters = "none"\nalpha = 2\n')
    done = call("fit", files / "train.csv", "--out", tmp_path / "a", "--config", tmp_path / "c.toml", "--n-inducing",
                "7", "--H", "100", "--aggregate", "max", "--label-posterior", "mean-field")  # fmt: skip
    assert done.exit_code == 0, done.output
    config = tomllib.loads((tmp_path / "a" / "config.toml").read_text())
    assert (config["n_inducing"], config["max_iter"], config["H"], config["mean"]) == (7, 3, 100.0, "constant")
    assert config["label_posterior"] == "mean_field" and config["hyperparameters"] == "none"
    assert config["density"] == {"kind": "GammaMixture", "alpha": 2.0, "beta": 1.0}


def test_model_on_the_command_line_replaces_the_density_of_the_file(files, tmp_path):
    (tmp_path / "c.toml").write_text('[density]\nkind = "StudentT"\nnu = 3.0\n')
    for model, kind in ((None, "StudentT"), ("vgpmil", "HyperbolicSecant")):
        more = [] if model is None else ["--model", model]
        out = tmp_path / kind
        assert (
            call("fit", files / "train.csv", "--out", out, "--config", tmp_path / "c.toml", *QUICK, *more).exit_code
            == 0
        )
        assert tomllib.loads((out / "config.toml").read_text())["density"]["kind"] == kind


def test_validation_and_early_stopping(files, tmp_path):
    options = ["--validation", files / "test.csv", "--early-stopping", "log-loss", "--json", *QUICK]
    done = call("fit", files / "train.csv", "--out", tmp_path / "a", *options)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["metrics"]["validation"]
    assert found["measured_on"] == "bags of test.csv (used for early stopping)"
    assert "eval_log_loss" in pd.read_csv(tmp_path / "a" / "history.csv").columns
    done = call("fit", files / "train.csv", "--out", tmp_path / "b", "--early-stopping", "auc")
    fails(done, 2, "--validation")
    assert not (tmp_path / "b").exists()


def test_instance_labels_are_learned_from_only_when_asked(files, tmp_path):
    asked = call(
        "fit", files / "train.csv", "--out", tmp_path / "a", "--instance-label", "instance_label", "--json", *QUICK
    )
    facts = json.loads(asked.stdout)
    assert "instances" not in facts["metrics"]["out_of_bag"]
    assert facts["elbo"] != pytest.approx(pd.read_csv(files / "run" / "history.csv")["elbo"].iloc[-1], rel=1e-6)
    bare = pd.read_csv(files / "train.csv").drop(columns="instance_label")
    bare.to_csv(tmp_path / "train.csv", index=False)
    call("fit", tmp_path / "train.csv", "--out", tmp_path / "b", *QUICK)
    assert (tmp_path / "b" / "model.safetensors").read_bytes() == (files / "run" / "model.safetensors").read_bytes()


def test_other_columns_and_formats(files, tmp_path):
    frame = frame_of().rename(columns={"bag": "scan", "label": "ich"}).drop(columns="instance_label")
    frame.to_parquet(tmp_path / "train.parquet")
    done = call("fit", tmp_path / "train.parquet", "--out", tmp_path / "a", "--bag", "scan", "--label", "ich", *QUICK)
    assert done.exit_code == 0, done.output
    bags, y, _ = make_bags(n_bags=20, n_features=3, seed=0)
    np.savez(tmp_path / "train.npz", X=bags.X, offsets=bags.offsets, y=y)
    assert call("fit", tmp_path / "train.npz", "--out", tmp_path / "b", *QUICK).exit_code == 0
