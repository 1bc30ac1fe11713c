"""Tables and figures of a run, from its durable records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from psimil.figures import (
    new_figure,
    plot_referral,
    plot_reliability,
    plot_theta,
    referral_table,
    reliability_table,
    save_figure,
    theta_table,
)
from psimil.files.csv_table import write_table
from psimil.foundations.logistic import sigmoid
from psimil.paper.experiments.illustrations import illustrate
from psimil.paper.experiments.job import Job
from psimil.paper.experiments.plans import LARGE
from psimil.paper.experiments.summary import cnn_table, paired_tests, score_table, selected, time_table
from psimil.paper.experiments.workspace import Workspace
from psimil.paper.figures import bars_table, plot_bars, plot_time_auc, time_auc_table
from psimil.results.referral_curve import referral_curve
from psimil.results.render import to_latex, to_markdown

if TYPE_CHECKING:
    import pandas as pd

TITLES = {
    "scores": "Scores: mean ± standard deviation over splits",
    "cnns": "Scores by CNN: mean ± standard deviation over splits",
    "time": "Training time in seconds, and passes",
}


def write_report(workspace: Workspace, jobs: Sequence[Job], directory: str | None) -> pd.DataFrame:
    """Everything a reader needs, written again from the records; returns the table of scores."""
    rows = workspace.records.rows(jobs)
    write_table(rows, workspace.path / "fits.csv")
    tables = {"scores": score_table(rows), "cnns": cnn_table(rows), "time": time_table(rows)}
    (workspace.path / "tables").mkdir(exist_ok=True)
    lines = [f"# {jobs[0].experiment}", ""]
    for name, frame in tables.items():
        if frame is None:
            continue
        write_table(frame, workspace.path / "tables" / f"{name}.csv")
        workspace.write_text(f"tables/{name}.md", to_markdown(frame) + "\n")
        workspace.write_text(f"tables/{name}.tex", to_latex(frame, TITLES[name], f"tab:{name}") + "\n")
        lines += [f"## {TITLES[name]}", "", to_markdown(frame), ""]
    tests = paired_tests(rows)
    if len(tests):
        write_table(tests, workspace.path / "tables" / "tests.csv")
    lines += ["Every line says on which bags it was measured. Research use only.", ""]
    workspace.write_text("summary.md", "\n".join(lines))
    _figures(workspace, jobs, rows)
    illustrate(workspace, jobs, directory)
    scores = tables["scores"]
    assert scores is not None  # there are rows
    return scores


def _figures(workspace: Workspace, jobs: Sequence[Job], rows: pd.DataFrame) -> None:
    folder = workspace.path / "figures"
    folder.mkdir(exist_ok=True)
    save_figure(plot_theta(ax=new_figure()), folder / "theta.png", theta_table())
    draw_scores(rows, folder)
    _pooled(workspace, jobs)


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


def _pooled(workspace: Workspace, jobs: Sequence[Job]) -> None:
    """Reliability and referral of the held-out bags of all splits together, nested protocol."""
    folder = workspace.path / "figures"
    for task in dict.fromkeys(job.task for job in jobs if job.protocol == "nested"):
        chosen = [job for job in jobs if job.protocol == "nested" and job.task == task]
        pooled: dict[str, list[dict[str, Any]]] = {}
        repeats: dict[str, set[Any]] = {}
        for row, arrays in workspace.records.predictions(chosen):
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
