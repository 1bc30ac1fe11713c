"""What commands print fits 80 columns, and nothing of it is lost."""

import re
from types import SimpleNamespace

import pandas as pd
import pytest

from commands import frame_of, terminal, trained
from psimil.cli import shell as module
from psimil.cli.demo import NAMES, summary_rows
from psimil.cli.reproduce import SHOWN, _tables
from psimil.cli.shell import Shell, blocks


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys, columns, rows):
    Shell().table("Title", columns, rows)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    return lines


def test_the_table_of_the_demo_is_one_row_per_model(narrow, capsys):
    folds = pd.DataFrame({name: [0.857, 0.912] * 2 for name in NAMES} | {"model": ["VGPMIL"] * 2 + ["G-VGPMIL"] * 2})
    folds["seconds"] = [10.1, 13.9] * 2
    rows = summary_rows(folds)
    lines = printed(capsys, ["model", *NAMES.values()], rows)
    assert [re.split("  +", line) for line in lines[-2:]] == rows
    assert rows[0][-1] == "12.0 ± 2.7"


def test_the_tables_of_an_experiment_go_on_below(narrow, capsys):
    record = {"protocol": "nested", "task": "cross-validation", "measured_on": "held-out bags"}
    record |= {"model": "G-VGPMIL", "preset": "published", "n_features": 128.0, "n_inducing": 200.0, "alpha": 0.5}
    record |= {f"{name}_{kind}": 0.1 + 0.01 * n for n, name in enumerate(SHOWN) for kind in ("mean", "sd")}
    ((_, heads, rows),) = _tables(pd.DataFrame([record]))
    lines = printed(capsys, heads, rows)
    text = "\n".join(lines)
    for cell in rows[0][1:]:
        assert cell in text
    assert sum(line.startswith("model") for line in lines) == 3
    for word in (*" ".join(heads).split(), *rows[0][0].split()):
        assert word in text


def test_a_value_without_end_is_folded(narrow, capsys):
    lines = printed(capsys, ["fact", "value"], [["kernel.lengthscale", "0123456789" * 20], ["bags", "92"]])
    assert "".join("".join(line.split()[-1:]) for line in lines[3:-1]) == "0123456789" * 20


def test_a_long_name_is_folded_and_short_tables_are_not_stretched(narrow, capsys):
    lines = printed(capsys, ["model", "AUC"], [["word " * 30, "0.9"]])
    assert " ".join(lines).split().count("word") == 30
    assert max(map(len, printed(capsys, ["model", "AUC"], [["VGPMIL", "0.9"]]))) == len("VGPMIL  0.9")


@pytest.mark.parametrize("width", [1, 5, 20, 80])
def test_every_column_has_a_place(width):
    heads, rows = ["a", "b c", "d"], [["x" * 9, "y" * 12, "z" * 3]]
    found = blocks(heads, rows, width)
    assert [position for block in found for position in block if position] == [1, 2]
    assert all(next(iter(block)) == 0 and min(block.values()) > 0 for block in found)
    assert blocks(["a"], [], width) == [{0: 1}]


def test_prose_is_folded_between_words_on_a_terminal_only(monkeypatch, capsys):
    monkeypatch.setattr(module, "get_terminal_size", lambda: SimpleNamespace(columns=20))
    line, command = "Model and tables are in runs/a-name-without-end/of-it.", "  psimil view runs/a-name-without-end"
    Shell().say(line, command)
    assert capsys.readouterr().out == f"{line}\n{command}\n"
    monkeypatch.setattr(module.sys.stdout, "isatty", lambda: True)
    Shell().say(line, command)
    expected = "Model and tables are\nin\nruns/a-name-without-end/of-it.\n"
    assert capsys.readouterr().out == f"{expected}{command}\n"


@pytest.mark.slow
def test_commands_on_a_terminal(tmp_path):
    folder = trained(tmp_path)
    frame_of(n_bags=40).to_csv(folder / "more.csv", index=False)
    for arguments in (
        ["evaluate", "run", "more.csv"],
        ["predict", "run", "more.csv", "--out", "prediction"],
        ["data", "import", "more.csv", "store"],
        ["data", "info", "store"],
        ["data", "verify", "store"],
    ):
        code, lines = terminal(*arguments, cwd=folder)
        assert code == 0, lines
        assert max(map(len, lines)) <= 80, lines
        assert "Research use only, not a medical device." in lines
