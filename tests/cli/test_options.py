"""What can be typed: how many options there are, that each is declared once, and where they may stand."""

import json

import pandas as pd
import pytest
import typer

from commands import QUICK, call, fails, frame_of
from psimil import PsiVGPMIL
from psimil.cli.config import read_config
from psimil.cli.exits import UsageProblem
from psimil.cli.main import app
from psimil.cli.settings import described, read_settings

MOST = 95


def options(command=None, path="psimil"):
    """(command, option) of all that are declared."""
    command = typer.main.get_command(app) if command is None else command
    for param in command.params:
        if param.param_type_name == "option" and param.name != "help":
            yield path, param.opts[-1]
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, f"{path} {name}")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("options") / "bags.csv"
    frame_of().to_csv(path, index=False)
    return path


def test_options_are_few():
    found = list(options())
    assert len(found) == len(set(found)) <= MOST


def test_the_roots_options_are_declared_there_alone():
    for option in ("--json", "--quiet", "--debug"):
        assert [path for path, name in options() if name == option] == ["psimil"]


def test_they_may_stand_before_or_after_the_command(table, tmp_path):
    run = tmp_path / "run"
    for arguments in (["--json", "fit", table], ["fit", "--json", table], ["fit", table, "--json"]):
        done = call(*arguments, "--out", run, "--overwrite", *QUICK)
        assert json.loads(done.stdout)["training"]["bags"] == 30
    assert "may follow any command" in call("fit", "--help").stdout
    fails(call("info", "--", "--json"), 66, "--json")  # a file of that name


def test_a_class_may_be_called_none(table, tmp_path):
    """Elsewhere the word stands for None."""
    frame = pd.read_csv(table)
    frame["label"] = frame["label"].map({0: "some", 1: "none"})
    frame.to_csv(tmp_path / "named.csv", index=False)
    done = call("fit", tmp_path / "named.csv", "--positive", "none", "--out", tmp_path / "run", *QUICK, "--json")
    assert json.loads(done.stdout)["training"]["positive"] == 15


def test_every_parameter_of_the_estimator_is_a_setting():
    parameters = PsiVGPMIL().get_params(deep=False)
    left = {"density", "kernel", "inducing_points", "warm_start", "verbose", "random_state"}
    assert set(described()) == (set(parameters) - left) | {"alpha", "beta", "preset"}
    shown = call("fit", "--help").stdout
    for name in described():
        assert f"--{name.replace('_', '-')} " in shown


def test_settings_reach_the_model(table, tmp_path):
    texts = ["--tol", "0.01", "--standardize", "false", "--threshold=0.25", "--aggregate", "noisy-or", *QUICK]
    assert call("fit", table, "--out", tmp_path / "run", *texts).exit_code == 0
    parameters = json.loads(call("info", tmp_path / "run", "--json").stdout)["parameters"]
    asked = {"tol": 0.01, "standardize": False, "threshold": 0.25, "aggregate": "noisy_or", "n_inducing": 8}
    assert {name: parameters[name] for name in asked} == asked


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n_inducing", "auto", "auto"),
        ("n_inducing", "7", 7),
        ("H", "inf", float("inf")),
        ("calibrate", "true", True),
        ("early_stopping", "log-loss", "log_loss"),
        ("referral", "error=0.02", "error=0.02"),
        ("feature_fingerprint", "My-CNN", "My-CNN"),
        ("positive", "01", "01"),
        ("alpha", "2", 2),
        ("mean", "Zero", "zero"),
        ("max_iter", "many", "many"),
        *((("calibrate", text, None)) for text in ("none", "None", "NONE", "null")),
        *((("standardize", text, False)) for text in ("no", "No", "off", "False")),
        *((("standardize", text, True)) for text in ("yes", "on", "TRUE")),
        ("tol", "None", None),
        ("log_z", "None", "none"),  # a choice that is called so
        ("positive", "No", "No"),
        ("max_iter", "None", "None"),
    ],
)
def test_texts_are_read_by_the_rule_of_the_parameter(name, text, value):
    assert read_settings({name: text}) == {name: value}


def test_config_files_take_the_spellings_of_the_command_line(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('label-posterior = "mean-field"\ncalibrate = "None"\nstandardize = "no"\nn_inducing = 5\n')
    assert read_config(path) == {
        "label_posterior": "mean_field", "calibrate": None, "standardize": False, "n_inducing": 5,
    }  # fmt: skip
    path.write_text('label-posterior = "exact"\nlabel_posterior = "exact"\n')
    with pytest.raises(UsageProblem, match='gives "label_posterior" twice'):
        read_config(path)
    path.write_text('n_inducing = "5"\n')  # a number is written as one
    assert read_config(path) == {"n_inducing": "5"}
    path.write_text("n-induceing = 5\n")
    with pytest.raises(UsageProblem, match='unknown key "n-induceing" in config line 1; did you mean "n_inducing"'):
        read_config(path)


def test_json_is_printed_also_when_quiet(table, tmp_path):
    done = call("fit", table, "--out", tmp_path / "run", *QUICK, "--json", "--quiet")
    assert json.loads(done.stdout)["run"] == str(tmp_path / "run") and len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
    shown = " ".join(call("--help").stdout.split())
    assert "One JSON object on stdout, nothing else, also with --quiet." in shown


@pytest.mark.parametrize(
    ("command", "option"),
    [("phantom", "--thickness=3"), ("demo", "--overwrite"), ("index", "--seed=3"), ("predict", "--seed=3")],
)
def test_a_command_on_scans_refuses_what_does_not_concern_it(tmp_path, command, option):
    paths = {"phantom": [tmp_path / "a"], "demo": [], "index": [tmp_path], "predict": [tmp_path]}[command]
    fails(call("ct", command, *paths, option), 2, f"No such option: {option.partition('=')[0]}")


def test_commands_on_scans_name_the_options_of_their_group_that_they_take():
    shown = {name: " ".join(call("ct", name, "--help").stdout.split()) for name in ("index", "predict", "demo")}
    assert (
        "Also takes --allow-modality, --max-pixels, --out, --overwrite, --series, --show-ids, --thickness;"
        in shown["index"]
    )
    assert "--skip-bad" in shown["predict"] and "--seed" not in shown["predict"]
    assert "Also takes --out, --seed; see psimil ct --help." in shown["demo"]
