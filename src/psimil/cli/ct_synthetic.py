"""``psimil ct phantom`` and ``psimil ct demo``: synthetic head CT studies, and what a model learns from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from psimil.cli.ct_options import shared
from psimil.cli.exits import NOTE
from psimil.cli.next_steps import next_step, ways_to_look
from psimil.cli.shell import Shell, markdown

STRIPS = 6  # scans whose slices are drawn


def phantom(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make.", show_default=False)],
    scans: Annotated[int, typer.Option("--scans", min=1, help="Studies to write.")] = 60,
    size: Annotated[int, typer.Option("--size", min=32, max=1024, help="Rows and columns of a slice.")] = 256,
    lesions: Annotated[int, typer.Option("--lesions", min=1, max=3, help="Bleeds in a study, at most.")] = 1,
) -> None:
    """Write synthetic head CT studies as DICOM files, with labels of scans and, kept aside, of slices."""
    seed = shared(context)["seed"]
    with Shell.of(context) as shell:
        from psimil.ct.phantom.studies import write_phantoms

        with shell.progress(scans, "phantom") as step:
            drawn = partial(write_phantoms, seed=seed, size=size, lesions=lesions)
            files = drawn(out, scans, progress=step)
        shell.say(
            f"{scans} studies are in {files.studies}, their labels in {files.scans}, slice labels in {files.truth}.",
            "Next:",
            f"  {next_step('ct', 'index', files.studies)}",
            f"  {next_step('ct', 'train', files.studies, '--labels', files.scans, '--out', 'runs/model')}",
            NOTE,
        )
        shell.result(studies=str(files.studies), labels=str(files.scans), truth=str(files.truth), scans=scans)


def demo(
    context: typer.Context,
    train: Annotated[int, typer.Option("--train", min=8, help="Scans to train on.")] = 200,
    test: Annotated[int, typer.Option("--test", min=4, help="Scans to predict.")] = 60,
) -> None:
    """Write synthetic head CT studies, train on some from scan labels alone, predict, draw and score the others.

    Files go to ct-demo unless --out names another folder.
    """
    seed, out = shared(context)["seed"], shared(context)["out"] or Path("ct-demo")
    with Shell.of(context) as shell:
        from psimil.ct.phantom.trial import demo_pipeline, run_demo, score_table, write_demo_studies
        from psimil.ct.report.run_files import write_results
        from psimil.files.environment import environment
        from psimil.files.rundir import opened
        from psimil.results.localisation import shown

        studies = f"studies-{train}-{test}-{seed}"  # the same name, the same bytes: nothing old stays among them
        unseen = out / studies / "test" / "studies"
        with opened(out, overwrite=True) as run:
            with shell.progress(1.0, "demo") as step:
                follow = _sized(step, train, test)
                files = write_demo_studies(run.aside / studies, train, test, seed=seed, progress=follow)
                done = run_demo(*files, demo_pipeline(seed), follow)
            run.start(environment(seed))
            done.pipeline.save(run.aside / "model")
            with shell.progress(STRIPS + len(done.results.slices), "files") as step:
                write_results(run, done.results, figures=STRIPS, progress=step)
            table = score_table(done.scores)
            run.write_table("scores.csv", table)
            rows = [[str(name), shown(value, 3)] for name, value in table.to_numpy()]
            title = f"{test} synthetic scans that were not trained on; {train} scans taught by scan labels alone"
            lines = ["# CT demo", "", f"{title}.", "", *markdown(["score", "value"], rows), "", NOTE, ""]
            run.write_text("summary.md", "\n".join(lines))
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


def _sized(step: Callable[..., None], train: int, test: int) -> Callable[[str], None]:
    """A function that moves the bar by what a note is worth: a study written, a scan read, an epoch."""
    from psimil.ct.phantom.trial import EPOCHS

    read, epoch = 0.02, 0.23 * train  # in units of a study written
    total = (1.0 + read) * (train + test) + (EPOCHS + 1) * epoch

    def follow(note: str) -> None:
        step(note, {"scans": read}.get(note, epoch if note.startswith("epoch") else 1.0) / total)

    return follow
