"""The full record: every protocol, model and score, beside what the paper prints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold

from psimil.datasets import load_musk1, load_musk2
from psimil.paper.experiments.paper_numbers import paper_table, possible_counts
from psimil.paper.experiments.plans import PROTOCOLS, plan
from psimil.paper.experiments.summary import difference_in_words, paired_tests, score_table, time_table
from psimil.paper.experiments.trial_data import FOLDS

TITLES = {"mnist-pca": ("MNIST PCA", 4), "mnist-raw": ("MNIST RAW", 5), "musk1": ("MUSK1", 6), "musk2": ("MUSK2", 7)}
SCORES = ("bag_accuracy", "bag_f1", "bag_auc", "instance_accuracy", "instance_f1", "instance_auc")
HONEST = ("bag_log_loss", "bag_brier", "bag_ece")
WORDS = {"bag": "bag", "instance": "inst.", "accuracy": "acc.", "f1": "F1", "auc": "AUC", "log": "log", "loss": "loss",
         "brier": "Brier", "ece": "ECE"}  # fmt: skip
SMALLER = ("bag_log_loss",)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(mean: float, sd: float = np.nan, digits: int = 3) -> str:
    """A mean with its standard deviation."""
    if mean is None or np.isnan(mean):
        return ""
    return f"{mean:.{digits}f}" if np.isnan(sd) else f"{mean:.{digits}f} ± {sd:.{digits}f}"


def shown(score: str) -> str:
    """The head of a column."""
    return " ".join(WORDS[word] for word in score.split("_"))


def read(results: Path, name: str) -> pd.DataFrame | None:
    """The rows of an experiment, if it was run."""
    path = results / name / "fits.csv"
    return pd.read_csv(path, keep_default_na=True).fillna({"preset": ""}) if path.is_file() else None


def sources(results: Path) -> str:
    """Which commit and settings made the rows."""
    rows = []
    for path in sorted(results.glob("*/config.json")):
        config = json.loads(path.read_text())
        environment = json.loads((path.parent / "environment.json").read_text())
        fits = pd.read_csv(path.parent / "fits.csv").groupby("protocol").size()
        planned = {p: len(plan(config["experiment"], p)) for p in PROTOCOLS}
        finished = ", ".join(f"{p} {fits.get(p, 0)} of {count}" for p, count in planned.items())
        libraries = environment["packages"]
        rows.append([f"`{config['experiment']}`", finished, f"`{(config['commit'] or '')[:10]}`",
                     f"numpy {libraries['numpy']}, scikit-learn {libraries['scikit-learn']}",
                     str(environment["processors"])])  # fmt: skip
    return table(["experiment", "fits finished of those planned", "commit", "libraries", "processors"], rows)


def datasets(results: Path) -> str:
    """Table 1: what the paper counts and what the files hold."""
    printed = paper_table(1)
    ours = pd.read_csv(results / "datasets.csv").set_index("dataset")
    columns = {"Num. instances": "instances", "Positive instances": "positive_instances", "Num. bags": "bags",
               "Positive bags": "positive_bags"}  # fmt: skip
    rows = []
    for name, found in ours.iterrows():
        part = printed[printed["source"] == name].set_index("column")["value"]
        mine = ["" if np.isnan(found[c]) else f"{found[c]:.0f}" for c in columns.values()]
        rows += [[str(name), "paper", *(str(part[c]) for c in columns)], [str(name), "files here", *mine]]
    return table(["dataset", "source", *columns.values()], rows)


def lines(rows: pd.DataFrame, scores: tuple[str, ...]) -> list[list[str]]:
    """Our lines of a table: model, how it was trained, on which bags it was measured, scores."""
    found = []
    for record in score_table(rows).to_dict("records"):
        grid = "" if pd.isna(record.get("alpha")) else f", α = {record['alpha']:g}, β = {record['beta']:g}"
        size = "" if pd.isna(record.get("n_inducing")) else f"{record['n_inducing']:.0f}"
        setting = f"{record['protocol']}" + (f", {record['preset']}" if record["preset"] else "") + grid
        cells = [cell(record.get(f"{s}_mean", np.nan), record.get(f"{s}_sd", np.nan)) for s in scores]
        found.append([size, record["model"], setting, f"{record['measured_on']} ({record['n']:.0f})", *cells])
    return found


def experiment(results: Path, name: str) -> str:
    """The paper's table and ours below each other."""
    title, number = TITLES[name]
    rows = read(results, name)
    scores = SCORES if name.startswith("mnist") else SCORES[:3]
    printed = paper_table(number)
    paper = []
    for (size, model), part in printed.groupby(["n_inducing", "model"], sort=False):
        values = part.set_index("metric")
        cells = [cell(values.loc[s, "mean"], values.loc[s, "sd"]) if s in values.index else "" for s in scores]
        paper.append([f"{size:.0f}", model, "paper, as printed", "see below", *cells])
    ours = [] if rows is None else lines(rows, scores)
    heads = ["M", "model", "protocol, preset", "measured on (fits)", *map(shown, scores)]
    parts = [f"## Table {number}: {title}\n", table(heads, [*paper, *ours])]
    if rows is not None:
        parts += [calibration(rows), tests(rows), seconds(rows), pictures(results, name)]
    return "\n".join(part for part in parts if part)


def calibration(rows: pd.DataFrame) -> str:
    """Log-loss, Brier score and calibration error of the held-out bags."""
    nested = rows[rows["protocol"] == "nested"]
    if nested.empty:
        return ""
    body = [[line[0], line[1], *line[2:3], *line[4:]] for line in lines(nested, HONEST)]
    return "Held-out bags, how good the probabilities are:\n\n" + table(
        ["M", "model", "protocol, preset", *map(shown, HONEST)], body
    )


def tests(rows: pd.DataFrame) -> str:
    """The default VGPMIL against every other model."""
    found = paired_tests(rows)
    if found.empty:
        return ""
    body = []
    for record in found[found["score"].isin(("bag_auc", "bag_accuracy", "bag_log_loss"))].to_dict("records"):
        words = difference_in_words(record["difference"], record["p"], smaller_is_better=record["score"] in SMALLER)
        size = "" if pd.isna(record["n_inducing"]) or record["n_inducing"] == 200 else f", M = {record['n_inducing']:g}"
        preset = f" ({record['preset']}{size})" if record["preset"] else ""
        body.append([record["task"], record["model"] + preset, shown(record["score"]), f"{record['difference']:+.3f}",
                     f"{record['p']:.3f}", words])  # fmt: skip
    return "Default VGPMIL minus the other model, corrected paired test over splits (Nadeau and Bengio):\n\n" + table(
        ["task", "other model", "score", "difference", "p", "default VGPMIL is"], body
    )


def seconds(rows: pd.DataFrame) -> str:
    """Training time."""
    body = [
        [record["protocol"], record["model"], record["preset"],
         "" if pd.isna(record.get("n_inducing")) else f"{record['n_inducing']:.0f}",
         cell(record["seconds_mean"], record["seconds_sd"], 1), cell(record["passes_mean"], digits=0)]
        for record in time_table(rows).to_dict("records")
    ]  # fmt: skip
    return "Training time of one fit, two fits at a time on two cores, choices on training bags included:\n\n" + table(
        ["protocol", "model", "preset", "M", "seconds", "passes"], body
    )


def pictures(results: Path, name: str) -> str:
    """The kept figures."""
    found = sorted((results / name / "figures").glob("*.png"))
    return "\n".join(f"![{p.stem}](../../results/{name}/figures/{p.name})" for p in found) + "\n" if found else ""


def hemorrhage(results: Path) -> str:
    """Tables 8 and 9, and the literature of Tables 2 and 3."""
    parts = ["## Tables 8 and 9: intracranial hemorrhage\n"]
    scores = SCORES[:3] + SCORES[4:]
    for number, label in ((8, "RSNA"), (9, "CQ500")):
        body = []
        printed = paper_table(number)
        for (dimension, size, model), part in printed.groupby(["n_features", "n_inducing", "model"], sort=False):
            values = part.set_index("metric")
            cells = [cell(values.loc[s, "mean"], values.loc[s, "sd"]) if s in values.index else "" for s in scores]
            body.append([f"{dimension:.0f}", f"{size:.0f}", model, *cells])
        parts += [f"Table {number} as printed ({label}):\n", table(["D", "M", "model", *map(shown, scores)], body)]
    rows = read(results, "ich")
    if rows is not None:
        for task, part in rows.groupby("task", sort=False):
            body = [[line[1], line[2], line[3], *line[4:]] for line in lines(part, scores)]
            heads = ["model", "protocol, preset", "measured on (fits)", *map(shown, scores)]
            parts += [f"Ours, {task}, eight features, all five CNNs:\n", table(heads, body)]
        parts += [calibration(rows), tests(rows), pictures(results, "ich")]
    for number, label in ((2, "RSNA"), (3, "CQ500")):
        wide = paper_table(number).pivot(index="source", columns="column", values="value").fillna("")
        body = [[str(source), *map(str, line)] for source, line in zip(wide.index, wide.to_numpy(), strict=True)]
        parts += [f"## Table {number}: the literature on {label}, as printed\n",
                  table(["source", *map(str, wide.columns)], body)]  # fmt: skip
    return "\n".join(part for part in parts if part)


def arithmetic() -> str:
    """Whether the printed MUSK accuracies can come from test folds or from training folds."""
    body = []
    for number, load in ((6, load_musk1), (7, load_musk2)):
        y = load()[1]
        folds = list(StratifiedKFold(FOLDS).split(np.zeros(len(y)), y))
        sizes = [[len(part) for part in parts] for parts in zip(*folds, strict=True)]
        printed = paper_table(number)
        for record in printed[printed["metric"] == "bag_accuracy"].to_dict("records"):
            counts = [str(possible_counts(record["mean"], record["sd"], s)) for s in (sizes[1], sizes[0])]
            body.append([record["dataset"], f"{record['n_inducing']:.0f}", record["model"],
                         cell(record["mean"], record["sd"], 4), *counts])  # fmt: skip
    return table(["dataset", "M", "model", "accuracy as printed", "ways on test folds", "ways on training folds"], body)


def blocks(results: Path) -> dict[str, str]:
    """What stands in the places that the text leaves."""
    found = {
        "SOURCES": sources(results),
        "DATASETS": datasets(results),
        "ARITHMETIC": arithmetic(),
        "HEMORRHAGE": hemorrhage(results),
    }
    return found | {name.upper(): experiment(results, name) for name in TITLES}
