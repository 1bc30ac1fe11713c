"""``psimil ct demo``: phantom files, training, prediction, figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from psimil.cli.exits import NOTE
from psimil.cli.next_steps import next_step, ways_to_look
from psimil.cli.options import Debug, Json, Quiet
from psimil.cli.shell import Shell


def demo(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where files go.")] = Path("ct-demo"),
    train: Annotated[int, typer.Option("--train", min=8, help="Scans to train on.")] = 200,
    test: Annotated[int, typer.Option("--test", min=4, help="Scans to predict.")] = 60,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write synthetic head CT studies, train on some from scan labels alone, predict, draw and score the others."""
    shell = Shell(as_json, quiet)
    with shell.listening():
        from psimil.ct.demo import demo_pipeline, run_demo, score_table, write_demo_studies
        from psimil.ct.results import write_results
        from psimil.environment import environment
        from psimil.rundir import opened

        studies = f"studies-{train}-{test}-{seed}"  # the same name, the same bytes: nothing old stays among them
        unseen = out / studies / "test" / "studies"
        with opened(out, overwrite=True) as run:
            with shell.progress(2 * (train + test) + 20, "demo") as step:
                files = write_demo_studies(run.aside / studies, train, test, seed=seed, progress=step)
                done = run_demo(*files, demo_pipeline(seed), step)
            run.start(environment(seed))
            done.pipeline.save(run.aside / "model")
            write_results(run, done.results, figures=6)
            table = score_table(done.scores)
            run.write_table("scores.csv", table)
            rows = [[str(name), f"{value:.3f}"] for name, value in table.to_numpy()]
            title = f"{test} synthetic scans that were not trained on; {train} scans taught by scan labels alone"
            lines = [f"| {name} | {value} |" for name, value in rows]
            run.write_text(
                "summary.md",
                "\n".join(["# CT demo", "", title + ".", "", "| score | value |", "|---|---|", *lines, "", NOTE, ""]),
            )
            run.finish()
        shell.table(title, ["score", "value"], rows)
        shell.say(
            f"Strips of slices are in {out}/figures, DICOM reports in {out}/reports, the studies in {out}/{studies}.",
            "Next:",
            *(f"  {line}" for line in ways_to_look(out, "--dicom", unseen)),
            f"  {next_step('ct', 'index', unseen)}",
            f"  {next_step('ct', 'predict', unseen, '--model', out / 'model', '--out', 'runs/ct-demo')}",
            NOTE,
        )
        shell.result(out=str(out), note=NOTE, scores=done.scores, train=train, test=test, measured_on="held-out scans")
