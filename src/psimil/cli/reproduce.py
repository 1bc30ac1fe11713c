"""``psimil reproduce``: the paper's experiments, resumable, with every table and figure."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.exits import NOTE
from psimil.cli.groups import asked
from psimil.cli.options import Overwrite, choice
from psimil.cli.shell import Shell, finite
from psimil.foundations.extras import install_command

if TYPE_CHECKING:
    import pandas as pd

    from psimil.paper.experiments.plans import Job
    from psimil.paper.experiments.records import Records

NAMES = ("musk1", "musk2", "mnist-pca", "mnist-raw", "ich", "all")
SHOWN = (
    "bag_accuracy", "bag_f1", "bag_auc", "bag_ece", "instance_f1", "instance_auc", "instance_auc_within_bags",
    "instance_localisation_error",
)  # fmt: skip
LETTERS = {"n_features": "D = ", "n_inducing": "M = ", "alpha": "alpha = ", "beta": "beta = "}


def reproduce(
    context: typer.Context,
    experiment: Annotated[str, typer.Argument(parser=choice(*NAMES), metavar="EXPERIMENT", help=", ".join(NAMES))],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder of the MNIST and ICH files; MUSK is embedded."),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            parser=choice("nested", "paper", "published", "all"),
            metavar="PROTOCOL",
            help="nested (test bags touched once), paper (the text), published (what the authors' code does), or all.",
        ),
    ] = "nested",
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Parent of the run directories, one per experiment.")
    ] = Path("runs"),
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes.")] = os.cpu_count() or 1,
    models: Annotated[
        str, typer.Option("--models", metavar="A,B", help="Only these models of the registry, by name.")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="A small version: minutes instead of hours.")] = False,
    download: Annotated[
        bool, typer.Option("--download/--no-download", help="Fetch files that are missing in --data.")
    ] = True,
    overwrite: Overwrite = False,
) -> None:
    """Run an experiment of the paper; an interrupted run goes on where it stopped.

    Tables and figures cover everything that has finished in the run directory, under any protocol.
    """
    with Shell.of(context) as shell:
        from psimil.paper.experiments.plans import EXPERIMENTS, PROTOCOLS
        from psimil.paper.experiments.records import open_records

        chosen = EXPERIMENTS if experiment == "all" else (experiment,)
        protocols = PROTOCOLS if protocol == "all" else (protocol,)
        _find_files(chosen, protocols, data, download)
        results = {}
        for name in chosen:
            folder = out / (f"{name}-quick" if quick else name)
            planned = _planned(shell, name, _possible(shell, name, protocols, data), quick, models.split(","))
            records = open_records(folder, name, quick=quick, overwrite=overwrite)
            how = {"n_jobs": jobs, "cluster": asked(context)["cluster"]}
            results[name] = _run(shell, records, planned, None if data is None else str(data.resolve()), **how)
        shell.say(NOTE)
        shell.result(results=results)


def _planned(shell: Shell, name: str, protocols: tuple[str, ...], quick: bool, models: list[str]) -> list[Job]:
    """The fits to run; a model whose libraries are missing is left out, and that is said."""
    from psimil.foundations.errors import InputError
    from psimil.paper.experiments.plans import plan
    from psimil.paper.experiments.trial import runnable

    wanted = tuple(model for model in models if model)
    planned, left_out = runnable([job for p in protocols for job in plan(name, p, quick=quick, models=wanted)])
    for label in left_out:
        shell.say(f"{label} is left out: it needs torch. Install it with: {install_command('torch')}")
    if not planned:
        raise InputError(f"{name}: no fit is left to run. Install what is missing or name other models.")
    return planned


def _run(shell: Shell, records: Records, planned: list[Job], directory: str | None, **how: Any) -> dict[str, Any]:
    """Run what is not finished, and write tables and figures of all that is."""
    from psimil.paper.experiments.plans import PROTOCOLS, plan
    from psimil.paper.experiments.report import write_report
    from psimil.paper.experiments.trial import run_jobs

    name, quick = planned[0].experiment, planned[0].quick
    done = sum(records.has(job) for job in planned)
    if done:
        shell.say(f"{name}: {done} of {len(planned)} fits were finished before and are kept.")
    else:
        at_once = f"{len(planned)} fits, {how['n_jobs']} at a time"
        shell.say(f"{name}: {at_once}. The time left is told when the first are done.")
    with shell.progress(len(planned), name, done=done) as step:
        count = run_jobs(planned, directory, records, follow=step, **how)
    finished = [job for p in PROTOCOLS for job in plan(name, p, quick=quick) if records.has(job)]
    scores = write_report(records, list(dict.fromkeys([*finished, *planned])), directory)
    out = str(records.path)
    facts = {"out": out, "fits": len(planned), "run_now": count, "scores": scores.to_dict("records")}
    records.write_json("metrics.json", finite({"scores": facts["scores"]}))
    for title, heads, rows in _tables(scores):
        shell.table(f"{name}, {title}: mean ± standard deviation", heads, rows)
    shell.say(f"Tables, figures and one row per fit are in {out}.")
    return facts


def _possible(shell: Shell, name: str, protocols: tuple[str, ...], data: Path | None) -> tuple[str, ...]:
    """The protocols; of all three on ICH, only nested unless the user has the training files that the others need."""
    if name != "ich" or len(protocols) == 1 or (data is not None and any(data.glob("RSNA_*/train"))):
        return protocols
    shell.say(
        "ich: paper and published are left out, they need RSNA training files (docs/results/reproduction-record.md)."
    )
    return ("nested",)


def _tables(scores: pd.DataFrame) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """One table per protocol, task and kind of measured bags."""
    from psimil.results.render import heading

    shown = [name for name in SHOWN if f"{name}_mean" in scores]
    for (protocol, task, measured_on), part in scores.groupby(["protocol", "task", "measured_on"], sort=False):
        rows = []
        for record in part.to_dict("records"):
            words = [record["preset"], *(f"{c}{_word(record[k])}" for k, c in LETTERS.items() if _word(record.get(k)))]
            name = ", ".join(word for word in words if word and word != "default")
            cells = (_cell(record[f"{n}_mean"], record[f"{n}_sd"]) for n in shown)
            rows.append([f"{record['model']} ({name})" if name else record["model"], *cells])
        yield f"{task}, protocol {protocol}, measured on {measured_on}", ["model", *map(heading, shown)], rows


def _word(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:g}"


def _cell(mean: float, sd: float) -> str:
    if math.isnan(mean):
        return "–"
    return f"{mean:.3f}" if math.isnan(sd) else f"{mean:.3f} ± {sd:.3f}"


def _find_files(experiments: tuple[str, ...], protocols: tuple[str, ...], data: Path | None, download: bool) -> None:
    """Every published file is there and is the right one; missing ones are downloaded if that is allowed."""
    from psimil.datasets.published import PUBLISHED, fetch, locate, verify
    from psimil.foundations.errors import MissingFile

    if data is None:
        if absent := [name for name in experiments if not name.startswith("musk")]:
            raise MissingFile(f"{', '.join(absent)}: files are not embedded. Name their folder with --data.")
        return
    folders = {name.split("-")[0] for name in experiments}
    if protocols != ("nested",):
        folders -= {"ich"}  # the paper's protocol reads the user's own files
    for name in (name for name, known in PUBLISHED.items() if known.folder in folders):
        if download:
            fetch(data, name)
        else:
            verify(locate(data, name), name)
