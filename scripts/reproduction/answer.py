"""The answer on one screen: the default model beside the best of the others, on bags and on slices."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from psimil.paper.experiments.paper_numbers import paper_table
from psimil.paper.experiments.summary import difference_in_words, paired_tests
from psimil.paper.experiments.trial_data import TO_RSNA
from reproduction.record import cell, read, table

OURS = "VGPMIL"
DATA = {"musk1": "MUSK1", "musk2": "MUSK2", "mnist-pca": "MNIST, 30 components", "mnist-raw": "MNIST, pixels",
        "ich": "ICH"}  # fmt: skip
SLICES = {"instance_auc": "slice AUC", "instance_auc_within_bags": "within scans", "instance_f1": "F1"}
READERS = (OURS, "VGPMIL, labels in chains", "Attention MIL", "Smooth attention MIL", "Attention CNN (stored)")
NAMES = {OURS: "`VGPMIL()`", "VGPMIL, labels in chains": '`VGPMIL(labels="chain")`'}
PRINTED = {"musk1": 6, "musk2": 7, "mnist-pca": 4, "mnist-raw": 5}
LARGEST = 200  # inducing points of the paper's largest models


def nested(results: Path, name: str) -> pd.DataFrame | None:
    """Rows of bags that no choice has seen, with as many inducing points as a model takes by itself."""
    rows = read(results, name)
    if rows is None:
        return None
    own = rows["n_inducing"].isna() if "n_inducing" in rows else True
    return rows[(rows["protocol"] == "nested") & rows["preset"].isin(("default", "")) & own]


def bags(results: Path) -> str:
    """AUC and log-loss of the default model and of the best baseline, and whether they differ."""
    body = []
    for name, title in DATA.items():
        rows = nested(results, name)
        if rows is None:
            continue
        tests = paired_tests(rows)
        for task, part in rows.groupby("task", sort=False):
            line = [f"{title}, {task}" if name == "ich" else title]
            for score, smaller in (("bag_auc", False), ("bag_log_loss", True)):
                means = part.groupby("model")[score].mean()
                others = means[
                    [model for model in means.index if part.loc[part["model"] == model, "preset"].eq("").all()]
                ]
                others = others.dropna()
                best = "" if others.empty else str(others.idxmin() if smaller else others.idxmax())
                line += [scores(part, OURS, score), f"{scores(part, best, score)} ({best})" if best else "",
                         verdict(tests, str(task), best, score, smaller=smaller)]  # fmt: skip
            body.append(line)
    heads = ["data", "VGPMIL: AUC", "best baseline: AUC", "VGPMIL is", "VGPMIL: log-loss", "best baseline: log-loss",
             "VGPMIL is"]  # fmt: skip
    return table(heads, body)


def scores(rows: pd.DataFrame, model: str, score: str) -> str:
    """Mean and standard deviation over splits."""
    values = rows.loc[rows["model"] == model, score]
    return cell(values.mean(), values.std(ddof=1))


def verdict(tests: pd.DataFrame, task: str, model: str, score: str, *, smaller: bool) -> str:
    """What the paired test says of the default model; nothing where there is one split only."""
    if tests.empty:
        return ""
    found = tests[(tests["task"] == task) & (tests["model"] == model) & (tests["score"] == score)]
    if len(found) != 1:
        return "one test set: no test"
    return difference_in_words(found["difference"].iloc[0], found["p"].iloc[0], smaller_is_better=smaller)


def slices(results: Path) -> str:
    """How well models that saw scan labels only find the positive slices of RSNA."""
    rows = nested(results, "ich")
    if rows is None:
        return ""
    body = []
    for task, part in rows.groupby("task", sort=False):
        if part["instance_auc"].isna().all():
            continue
        shown = [score for score in SLICES if score in part]
        for model in READERS:
            if part.loc[part["model"] == model, "instance_auc"].notna().any():
                body.append([str(task), model, *(scores(part, model, score) for score in shown)])
        middle = part.loc[part["model"] == OURS]
        if "middle_auc" in middle:
            body.append([str(task), "the middle of the scan, no image", cell(middle["middle_auc"].mean()),
                         cell(middle["middle_auc_within_bags"].mean()), ""])  # fmt: skip
    return table(["task", "model", *(SLICES[score] for score in shown)], body)


def printed(results: Path) -> str:
    """Every printed accuracy beside that of the same model on bags it has not seen, and of the default model."""
    body = []
    for name, number in PRINTED.items():
        rows = read(results, name)
        for (size, model), part in paper_table(number).groupby(["n_inducing", "model"], sort=False):
            if size != LARGEST:
                continue
            values = part.set_index("metric").loc["bag_accuracy"]
            line = [DATA[name], str(model), cell(values["mean"], values["sd"])]
            for protocol, presets in (("nested", ("published", "paper")), ("nested", ("default",))):
                line.append("" if rows is None else accuracy(rows, str(model), protocol, presets))
            body.append(line)
    return table(["data", "model", f"accuracy as printed, M = {LARGEST}", "trained as their code does, unseen bags",
                  "default, unseen bags"], body)  # fmt: skip


def accuracy(rows: pd.DataFrame, model: str, protocol: str, presets: tuple[str, ...]) -> str:
    """Of the first of the presets that was run."""
    part = rows[(rows["protocol"] == protocol) & (rows["model"] == model)]
    for preset in presets:
        values = part.loc[part["preset"] == preset, "bag_accuracy"]
        if len(values):
            return cell(values.mean(), values.std(ddof=1))
    return "not run"


def commits(results: Path) -> str:
    """The commit that measured."""
    found = {json.loads(path.read_text())["commit"][:10] for path in sorted(results.glob("*/config.json"))}
    return ", ".join(f"`{commit}`" for commit in sorted(found))


def first_screen(results: Path) -> str:
    """Scans of another hospital, for the first screen of the README."""
    rows = nested(results, "ich")
    assert rows is not None
    part = rows[rows["task"] == TO_RSNA]
    shown = {"bag_auc": "scan AUC", "bag_log_loss": "scan log-loss"} | SLICES
    body = [[NAMES.get(model, model), *("" if part.loc[part["model"] == model, score].isna().all() else
             f"{part.loc[part['model'] == model, score].mean():.3f}" for score in shown)]
            for model in READERS[:4]]  # fmt: skip
    return table(["", *shown.values()], body).strip()


def blocks(results: Path) -> dict[str, str]:
    """What stands in the places that the text leaves."""
    return {"COMMIT": commits(results), "BAGS": bags(results), "SLICES": slices(results), "PRINTED": printed(results)}
