"""Tables and figures of a run, from its durable records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from psimil.datasets import authors_mnist_bags, load_mnist
from psimil.figures import (
    digits_table,
    history_table,
    new_figure,
    plot_digits,
    plot_history,
    plot_referral,
    plot_reliability,
    plot_strip,
    plot_theta,
    referral_table,
    reliability_table,
    save_figure,
    strip_table,
    theta_table,
)
from psimil.foundations.logistic import sigmoid
from psimil.paper.experiments.cohorts import load_cohort
from psimil.paper.experiments.figures import bars_table, plot_bars, plot_time_auc, time_auc_table
from psimil.paper.experiments.plans import LARGE, Job
from psimil.paper.experiments.records import Records
from psimil.paper.experiments.scores import restored
from psimil.paper.experiments.summary import cnn_table, paired_tests, score_table, selected, time_table
from psimil.paper.experiments.trial_data import CROSS_VALIDATION, split_of, split_rows
from psimil.results.referral_curve import referral_curve
from psimil.results.render import to_latex, to_markdown

SHOWN = ("gvgpmil", "vgpmil")  # whose prediction is drawn: the first that was run
TITLES = {
    "scores": "Scores: mean ± standard deviation over splits",
    "cnns": "Scores by CNN: mean ± standard deviation over splits",
    "time": "Training time in seconds, and passes",
}


def write_report(records: Records, jobs: Sequence[Job], directory: str | None) -> pd.DataFrame:
    """Everything a reader needs, written again from the records; returns the table of scores."""
    write_splits(records, jobs, directory)
    rows = records.rows(jobs)
    records.write_table("fits.csv", rows)
    tables = {"scores": score_table(rows), "cnns": cnn_table(rows), "time": time_table(rows)}
    (records.path / "tables").mkdir(exist_ok=True)
    lines = [f"# {jobs[0].experiment}", ""]
    for name, frame in tables.items():
        if frame is None:
            continue
        records.write_table(f"tables/{name}.csv", frame)
        records.write_text(f"tables/{name}.md", to_markdown(frame) + "\n")
        records.write_text(f"tables/{name}.tex", to_latex(frame, TITLES[name], f"tab:{name}") + "\n")
        lines += [f"## {TITLES[name]}", "", to_markdown(frame), ""]
    tests = paired_tests(rows)
    if len(tests):
        records.write_table("tables/tests.csv", tests)
    lines += ["Every line says on which bags it was measured. Research use only.", ""]
    records.write_text("summary.md", "\n".join(lines))
    _figures(records, jobs, rows)
    _illustrate(records, jobs, directory)
    scores = tables["scores"]
    assert scores is not None  # there are rows
    return scores


def write_splits(records: Records, jobs: Sequence[Job], directory: str | None) -> None:
    """Which bags taught, stopped and were measured in every split; not for ICH files of a user, which are the split."""
    job = jobs[0]
    if job.experiment == "ich" and job.protocol != "nested":
        return
    cohort = load_cohort("rsna" if job.experiment == "ich" else job.experiment, directory, 0, job.quick)
    records.write_table("splits.csv", pd.DataFrame(split_rows(jobs, cohort.y)))


def _figures(records: Records, jobs: Sequence[Job], rows: pd.DataFrame) -> None:
    folder = records.path / "figures"
    folder.mkdir(exist_ok=True)
    save_figure(plot_theta(ax=new_figure()), folder / "theta.png", theta_table())
    draw_scores(rows, folder)
    _pooled(records, jobs)


def draw_scores(rows: pd.DataFrame, folder: Path) -> None:
    """Bars and times of the rows of a run, one figure of each kind per protocol and task."""
    best = selected(rows)
    for (protocol, task), part in best.groupby(["protocol", "task"], sort=False):
        name = f"{protocol}-{task}".lower().replace(" ", "-")
        lines = part.assign(model=[_line(m, p) for m, p in zip(part["model"], part["preset"], strict=True)], preset="")
        lines = lines[lines["measured_on"] == lines["measured_on"].iloc[0]]
        timed = lines[lines["n_inducing"].notna()]
        if len(timed):
            save_figure(
                plot_time_auc(timed, ax=new_figure(7.0, 4.5)), folder / f"time-auc-{name}.png", time_auc_table(timed)
            )
        largest = lines[lines["n_inducing"].isna() | (lines["n_inducing"] == lines["n_inducing"].max())]
        save_figure(plot_bars(largest, ax=new_figure(9.0, 4.5)), folder / f"bars-{name}.png", bars_table(largest))


def _pooled(records: Records, jobs: Sequence[Job]) -> None:
    """Reliability and referral of the held-out bags of all splits together, nested protocol."""
    folder = records.path / "figures"
    for task in dict.fromkeys(job.task for job in jobs if job.protocol == "nested"):
        chosen = [job for job in jobs if job.protocol == "nested" and job.task == task]
        pooled: dict[str, list[dict[str, Any]]] = {}
        repeats: dict[str, set[Any]] = {}
        for row, arrays in records.predictions(chosen):
            size = f", M = {LARGE}" if row.get("n_inducing") == LARGE else ""
            line = _line(row["model"], row["preset"]) + size
            pooled.setdefault(line, []).append(arrays)
            repeats.setdefault(line, set()).add(row.get("repeat"))
        curves = {model: _referral(parts) for model, parts in pooled.items()}
        name = task.lower().replace(" ", "-")
        save_figure(plot_referral(curves, ax=new_figure(7.0, 4.5)), folder / f"referral-{name}.png",
                    referral_table(curves))  # fmt: skip
        for model in ("VGPMIL", "G-VGPMIL"):
            if model in pooled:
                y, p = (np.concatenate([a[k] for a in pooled[model]]) for k in ("y", "log_odds"))
                table = reliability_table(y, sigmoid(p), repeats=len(repeats[model]))
                ax = plot_reliability(y, sigmoid(p), repeats=len(repeats[model]), ax=new_figure())
                save_figure(ax, folder / f"reliability-{name}-{model.lower()}.png", table)


def _referral(parts: list[dict[str, Any]]) -> pd.DataFrame:
    """Error among the most certain bags; certainty is the model's own standard deviation, else closeness to 0 or 1."""
    y = np.concatenate([a["y"] for a in parts])
    prob = sigmoid(np.concatenate([a["log_odds"] for a in parts]))
    called = np.concatenate([sigmoid(a["log_odds"]) >= float(a["threshold"]) for a in parts])
    std = np.concatenate([a["std"] for a in parts])
    uncertainty = np.where(np.isnan(std), np.sqrt(prob * (1 - prob)), std)
    return referral_curve(y, called.astype(float), uncertainty, fractions=np.linspace(0.01, 1.0, 100))


def _line(model: str, preset: str) -> str:
    return model if preset in ("", "default") else f"{model} ({preset})"


def _illustrate(records: Records, jobs: Sequence[Job], directory: str | None) -> None:
    """Pictures from the first finished default fit under the nested protocol, if there is one."""
    done = [job for job in jobs if job.protocol == "nested" and records.has(job)]
    found = next((job for name in SHOWN for job in done if job.model == name), None)
    if found is None:
        return
    folder = records.path / "figures"
    history = pd.read_csv(records.path / "history" / f"{found.key}.csv").to_dict("records")
    save_figure(plot_history(history, ax=new_figure()), folder / "bound.png", history_table(history))
    if found.experiment.startswith("mnist") and directory is not None:
        _digits(records, found, directory, folder)
    if found.experiment == "ich" and found.task == CROSS_VALIDATION:
        _scan(records, found, folder)


def _digits(records: Records, job: Job, directory: str, folder: Path) -> None:
    """A bag with one positive digit and one with four, as in the paper; instances are sorted by digit in each."""
    _, arrays = next(records.predictions([job]))
    images, digits = load_mnist(Path(directory))
    drawn = authors_mnist_bags(digits)
    y = load_cohort(job.experiment, directory, quick=job.quick).y
    test = split_of(job, y).test
    counts = np.add.reduceat(arrays["y_instances"], arrays["offsets"][:-1])
    shown = [int(np.flatnonzero(counts == wanted)[0]) for wanted in (1, 4)]
    pictures = [images[drawn.index[test[bag]]].reshape(-1, 28, 28) for bag in shown]
    prediction, truth = restored(arrays), [_part(arrays, bag) for bag in shown]
    ax = plot_digits(pictures, prediction, shown, truth, ax=new_figure(10.0, 4.0))
    save_figure(ax, folder / "digits.png", digits_table(prediction, shown, truth))


def _scan(records: Records, job: Job, folder: Path) -> None:
    """The positive scan with the most positive slices among the held-out ones."""
    _, arrays = next(records.predictions([job]))
    counts = np.add.reduceat(np.maximum(arrays["y_instances"], 0), arrays["offsets"][:-1])
    bag, prediction = int(np.argmax(counts)), restored(arrays)
    truth = _part(arrays, bag)
    ax = plot_strip(prediction, bag, truth, ax=new_figure(12.0, 3.5))
    save_figure(ax, folder / "scan.png", strip_table(prediction, bag, truth))


def _part(arrays: dict[str, Any], bag: int) -> Any:
    return arrays["y_instances"][arrays["offsets"][bag] : arrays["offsets"][bag + 1]]
