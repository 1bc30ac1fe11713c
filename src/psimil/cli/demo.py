"""``psimil demo``: train on embedded data, show a table, save figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.exits import NOTE
from psimil.cli.next_steps import next_step, ways_to_look
from psimil.cli.shell import Shell, markdown

if TYPE_CHECKING:
    import pandas as pd

NAMES = {"accuracy": "accuracy", "f1": "F1", "auc": "AUC", "log_loss": "log-loss", "seconds": "seconds per fold"}
HELD_OUT = "Prediction of the test bags of the first fold by VGPMIL, trained on the other bags."

FIGURES = (
    "", "Figures: `theta` (densities), `bound` (VGPMIL fitted to all bags), `reliability` (VGPMIL, test bags),",
    "`bag` (instances of one test bag).", "", f"**{NOTE}**", "",
)  # fmt: skip


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where files go.")] = Path("demo"),
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Train VGPMIL and G-VGPMIL on MUSK1 (embedded), show scores on test bags, save figures."""
    with Shell.of(context) as shell:
        from psimil.cli.demo_run import FOLDS, run_demo
        from psimil.files.rundir import opened

        title = f"MUSK1, {FOLDS}-fold cross-validation over 92 bags: mean ± standard deviation on test bags"
        with opened(out, overwrite=True) as run:
            held_out = run.inside("prediction")
            with shell.progress(2 * FOLDS + 2, "demo") as step:
                folds = run_demo(run, held_out, seed, step)
            rows = summary_rows(folds)
            heads = ["model", *NAMES.values()]
            run.write_text("summary.md", "\n".join(["# Demo", "", f"{title}.", "", *markdown(heads, rows), *FIGURES]))
            held_out.write_text("summary.md", f"# Prediction\n\n{HELD_OUT}\n\n{NOTE}\n")
            run.finish()
        shell.table(title, heads, rows)
        shell.say(
            f"Figures are in {out}/figures, scores by fold in {out}/folds.csv, the model in {out}/model.safetensors.",
            f"{HELD_OUT} It is in {out}/prediction.",
            "Next:",
            *(f"  {line}" for line in ways_to_look(out / "prediction")),
            f"  {next_step('info', out)}",
            f"  {next_step('fit', out / 'musk1.csv', '--model', 'vgpmil', '--out', 'runs/first')}",
            f"  {next_step('predict', 'runs/first', out / 'musk1.csv', '--out', 'runs/first-prediction')}",
            f"  {next_step('fit', '--help')}",
            NOTE,
        )
        shell.result(
            out=str(out), dataset="MUSK1", folds=FOLDS, measured_on="test bags of each fold", scores=_facts(folds)
        )


def summary_rows(folds: pd.DataFrame) -> list[list[str]]:
    """Mean and standard deviation over folds, one row per model."""
    rows = []
    for name, part in folds.groupby("model", sort=False):
        digits = {s: 1 if s == "seconds" else 3 for s in NAMES}
        rows.append([str(name), *(f"{part[s].mean():.{n}f} ± {part[s].std():.{n}f}" for s, n in digits.items())])
    return rows


def _facts(folds: pd.DataFrame) -> dict[str, Any]:
    return {
        str(name): {s: {"mean": part[s].mean(), "std": part[s].std()} for s in NAMES}
        for name, part in folds.groupby("model", sort=False)
    }
