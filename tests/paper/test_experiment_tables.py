"""Tables of experiments: summaries, Markdown and LaTeX, and the numbers of the paper against its own source."""

import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from psimil.files.csv_table import write_table
from psimil.foundations.errors import InputError
from psimil.paper.experiments.paper_numbers import paper_table
from psimil.results.render import heading, summarise, to_latex, to_markdown

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("PSIMIL_DATA", ROOT.parent / "shared" / "data"))
TEX = DATA.parent / "paper" / "psi-vgpmil.tex"
needs_paper = pytest.mark.skipif(not TEX.is_file(), reason="the paper's source is not at hand")
COMMITTED = files("psimil.paper.experiments") / "data" / "paper_tables.csv"


def rows(**columns):
    base = {
        "experiment": "toy", "protocol": "5 splits", "measured_on": "held-out bags", "preset": "default",
        "model": ["b", "a", "b", "a", "b", "a"], "split": [0, 0, 1, 1, 2, 2],
        "bag_auc": [0.9, 0.5, 0.8, 0.6, 0.7, 0.7], "bag_log_loss": [0.2, 0.6, 0.3, 0.5, np.nan, np.nan],
    }  # fmt: skip
    return pd.DataFrame(base | columns)


def test_summary_by_hand():
    table = summarise(rows(), ["model"], ["bag_auc", "bag_log_loss", "instance_auc"])
    assert table["model"].tolist() == ["b", "a"]  # as they appear
    assert table["n"].tolist() == [3, 3] and table["bag_log_loss_n"].tolist() == [2, 2]
    assert table["bag_auc_mean"].tolist() == pytest.approx([0.8, 0.6])
    assert table["bag_auc_sd"].tolist() == pytest.approx([0.1, 0.1])
    assert table["bag_log_loss_sd"].tolist() == pytest.approx([0.1 / np.sqrt(2)] * 2)
    assert table[["instance_auc_mean", "instance_auc_sd"]].isna().all(axis=None)
    assert summarise(rows(n_inducing=[50, np.nan] * 3), ["n_inducing"], ["bag_auc"])["n"].tolist() == [3, 3]


@pytest.mark.parametrize("column", ["experiment", "protocol", "measured_on", "preset"])
def test_unlike_rows_are_never_averaged(column):
    mixed = rows(**{column: ["x", "x", "y", "y", "x", "x"]})
    with pytest.raises(InputError, match=f"mixes rows of {column}: x, y"):
        summarise(mixed, ["model"], ["bag_auc"])
    assert len(summarise(mixed, ["model", column], ["bag_auc"])) == 4


@pytest.mark.parametrize(("by", "message"), [(["colour"], "colour"), ([], "cannot group")])
def test_bad_groups(by, message):
    with pytest.raises(InputError, match=message):
        summarise(rows(), by, ["bag_auc"])
    with pytest.raises(InputError, match="no rows"):
        summarise(rows().iloc[:0], ["model"], ["bag_auc"])


def test_markdown_gives_the_numbers_back():
    rng = np.random.default_rng(0)
    many = pd.DataFrame(
        {"model": np.repeat(["VGPMIL", "a|b", "SVM"], 4), "n_inducing": np.repeat([50, 100, np.nan], 4)}
    )
    many = many.assign(bag_auc=rng.random(12), seconds=rng.lognormal(3, 2, 12))
    table = summarise(many, ["model", "n_inducing"], ["bag_auc", "seconds"])
    lines = to_markdown(table).splitlines()
    assert len(lines) == 5 and set(lines[1]) <= set("|-: ")
    assert [c.strip() for c in lines[0].strip("|").split("|")] == [
        "Model",
        "Inducing points",
        "Runs",
        "Bag AUC",
        "Seconds",
    ]
    for line, row in zip(lines[2:], table.to_dict("records"), strict=True):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        assert cells[0].replace(r"\|", "|") == row["model"]
        assert cells[1:3] == ["–" if np.isnan(row["n_inducing"]) else f"{row['n_inducing']:.0f}", "4"]
        for cell, metric in zip(cells[3:], ("bag_auc", "seconds"), strict=True):
            mean, sd = map(float, cell.split(" ± "))
            assert (mean, sd) == pytest.approx((row[f"{metric}_mean"], row[f"{metric}_sd"]), abs=0.500001e-3)


def test_markdown_of_what_is_absent():
    table = summarise(rows(), ["model", "split"], ["bag_auc", "bag_log_loss"])
    assert to_markdown(table).splitlines()[-1] == "| a | 2 | 1 | 0.700 | – |"
    partial = to_markdown(summarise(rows(), ["model"], ["bag_log_loss"]))
    assert partial.splitlines()[0] == "| Model | Runs | Bag log-loss |"
    assert partial.splitlines()[2] == "| b | 3 | 0.250 ± 0.071 (n=2) |"


def test_latex():
    table = summarise(rows(model=["b_1", "a & c"] * 3), ["model"], ["bag_auc", "bag_log_loss", "bag_f1"])
    text = to_latex(table, "50 % of $x$", "table:toy")
    assert text.startswith("\\begin{table}") and text.endswith("\\end{table}\n")
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert r"\caption{50 \% of \$x\$}" in text and r"\label{table:toy}" in text
    first, second = (line for line in text.splitlines() if "pm" in line)
    assert first == r"b\_1 & 3 & $\mathbf{0.8000 \pm 0.1000}$ & $\mathbf{0.2500 \pm 0.0707}$ (n=2) & -- \\"
    assert second == r"a \& c & 3 & $0.6000 \pm 0.1000$ & $0.5500 \pm 0.0707$ (n=2) & -- \\"


def test_best_is_bold_and_ties_are_shared():
    frame = pd.DataFrame({"task": ["x", "x", "y", "y"], "bag_auc_mean": [0.90001, 0.90002, 0.1, 0.2]})
    bold = [r"\mathbf" in line for line in to_latex(frame, "", "t").splitlines() if "$" in line]
    assert bold == [True, True, False, False]


def test_csv_keeps_all_digits(tmp_path):
    table = summarise(rows(), ["model"], ["bag_auc", "bag_log_loss"])
    write_table(table, tmp_path / "table.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "table.csv"), table, rtol=1e-14)


def test_headings():
    assert heading("bag_log_loss") == "Bag log-loss" and heading("bag_ece") == "Bag ECE" and heading("cnn") == "CNN"


# The paper

PRINTED = [  # read from the paper by eye
    (("MNIST PCA", "G-VGPMIL", 50, "instance_accuracy"), (0.9342, 0.004)),
    (("MNIST PCA", "VGPMIL", 200, "bag_auc"), (0.9654, 0.0056)),
    (("MNIST RAW", "VGPMIL", 50, "instance_f1"), (0.3636, 0.0346)),
    (("MNIST RAW", "G-VGPMIL", 200, "bag_accuracy"), (0.7822, 0.0114)),
    (("MUSK1", "G-VGPMIL", 100, "bag_auc"), (0.9711, 0.016)),
    (("MUSK1", "VGPMIL", 200, "bag_f1"), (0.89, 0.0218)),
    (("MUSK2", "G-VGPMIL", 200, "bag_accuracy"), (0.8971, 0.0293)),
    (("MUSK2", "VGPMIL", 50, "bag_accuracy"), (0.8358, 0.0412)),
    (("RSNA", "VGPMIL", 50, "instance_f1", 8), (0.7926, 0.0054)),
    (("RSNA", "G-VGPMIL", 200, "bag_auc", 32), (0.9574, 0.005)),
    (("RSNA", "VGPMIL", 200, "bag_accuracy", 128), (0.9133, 0.0184)),
    (("CQ500", "G-VGPMIL", 100, "bag_auc", 8), (0.923, 0.0066)),
    (("CQ500", "VGPMIL", 200, "bag_auc", 128), (0.9039, 0.018)),
]


@pytest.mark.parametrize(("asked", "printed"), PRINTED)
def test_values_of_the_paper(asked, printed):
    dataset, model, size, metric, *n_features = asked
    tables = pd.concat([paper_table(number) for number in range(4, 10)])
    chosen = (tables["dataset"] == dataset) & (tables["model"] == model) & (tables["metric"] == metric)
    chosen &= (tables["n_inducing"] == size) & (tables["n_features"] == n_features[0] if n_features else True)
    assert tables.loc[chosen, ["mean", "sd"]].to_numpy().tolist() == [list(printed)]


def test_tables_of_the_paper_are_complete():
    sizes = {number: len(paper_table(number)) for number in range(1, 10)}
    assert sizes == {1: 5 * 6, 2: 8 * 4, 3: 6 * 3, 4: 36, 5: 36, 6: 18, 7: 18, 8: 108, 9: 54}
    for number in range(4, 10):
        table = paper_table(number)
        keys = [name for name in ("n_features", "n_inducing", "model", "metric") if name in table]
        assert not table.duplicated(keys).any() and table.notna().all(axis=None)
        assert table["mean"].between(0, 1).all() and table["sd"].between(0, 0.1).all()
        assert table.groupby(keys[:-2])["model"].nunique().eq(2).all()
    datasets = paper_table(1).set_index(["source", "column"])["value"]
    assert datasets["MNIST", "Positive instances"] == "8774" and datasets["MUSK1", "Positive instances"] == "N/A"
    assert paper_table(3).iloc[-1].tolist() == [3, "G-VGPMIL", "AUC", "0.923 ± 0.0066"]


def test_a_table_the_paper_does_not_have():
    with pytest.raises(InputError, match="no table 10"):
        paper_table(10)


def extract(tex):
    command = [sys.executable, str(ROOT / "scripts" / "extract_paper_tables.py"), str(tex)]
    return subprocess.run(command, capture_output=True, timeout=600, check=False)


@needs_paper
@pytest.mark.data
def test_the_script_reads_the_paper_again():
    assert extract(TEX).stdout == COMMITTED.read_bytes()


@needs_paper
@pytest.mark.data
def test_every_printed_pair_is_in_the_tables():
    appendix = TEX.read_text(encoding="utf-8").partition(r"\section{Tables}")[2]
    pairs = [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+) \\pm ([\d.]+)", appendix)]
    ours = pd.concat([paper_table(number) for number in range(4, 10)])
    assert pairs == list(zip(ours["mean"], ours["sd"], strict=True))


def test_the_script_refuses_another_paper(tmp_path):
    (tmp_path / "other.tex").write_text(r"\begin{table} \end{table}")
    result = extract(tmp_path / "other.tex")
    assert result.returncode == 1 and b"no label" in result.stderr and not result.stdout
