"""``psimil ct predict``: probabilities of scans and slices with uncertainty; tables, figures, DICOM reports."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.ct_options import Folder, ModelFolder, cohort_of, out_of, shared
from psimil.cli.exits import NOTE, UsageProblem
from psimil.cli.next_steps import ways_to_look
from psimil.cli.shell import Shell

if TYPE_CHECKING:
    from psimil.ct.pipeline import CTPipeline
    from psimil.ct.report.scan_results import CTResults
    from psimil.ct.scans.cohort import Failure
    from psimil.files.rundir import RunDirectory
    from psimil.results.localisation import Localisation

IDENTIFIED = "--identify: the DICOM files name the patient and the study; keep them where the scans may be kept."


def predict(
    context: typer.Context,
    directory: Folder,
    model: ModelFolder,
    figures: Annotated[int, typer.Option("--figures", min=0, help="Scans to draw, the most probable first.")] = 20,
    reports: Annotated[
        str,
        typer.Option("--reports", metavar="KINDS", help="DICOM to write, of sr,keys,strips; none for none."),
    ] = "sr,keys",
    identify: Annotated[
        bool, typer.Option("--identify", help="Copy patient and study into the reports. They identify people.")
    ] = False,
    heat: Annotated[
        bool, typer.Option("--heat", help="Show where in called slices the evidence lies: figures, psimil view.")
    ] = False,
    truth: Annotated[
        Path | None,
        typer.Option("--truth", metavar="CSV", help="Slice labels: columns sop_instance_uid and label."),
    ] = None,
) -> None:
    """Write tables, figures, DICOM reports and what psimil view and psimil report show, for the scans of a folder."""
    with Shell.of(context) as shell:
        from psimil.ct.pipeline import CTPipeline
        from psimil.ct.report.run_files import FOLDERS
        from psimil.ct.scans.cohort import check_read
        from psimil.files.rundir import opened
        from psimil.foundations.errors import DataWarning

        options, out = shared(context), out_of(context)
        kinds = [] if reports == "none" else [kind.strip() for kind in reports.split(",")]
        if unknown := sorted(set(kinds) - set(FOLDERS)):
            raise UsageProblem(f"--reports: {unknown[0]!r} is none of {', '.join(FOLDERS)}; none writes nothing.")
        if identify and kinds:
            warnings.warn(IDENTIFIED, DataWarning, stacklevel=2)
        pipeline = CTPipeline.load(model, device=options["device"])
        with opened(out, overwrite=options["overwrite"], inputs=(directory, model, truth)) as run:
            how: dict[str, Any] = {
                "figures": figures,
                "reports": kinds,
                "identify": identify,
                "heat": heat,
                "truth": truth,
            }
            results, lines, facts, _ = fill(shell, run, directory, pipeline, options, model=model, **how)
        check_read(results.slices, results.failures, f" This is written, with {facts['reports']} reports, in {out}.")
        shell.say(
            *lines,
            f"The tables and all else are in {out}.",
            "Next:",
            *(f"  {line}" for line in ways_to_look(out, "--dicom", directory)),
            NOTE,
        )
        shell.result(run=str(out), note=NOTE, **facts)


def fill(
    shell: Shell,
    run: RunDirectory,
    directory: Path,
    pipeline: CTPipeline,
    options: dict[str, Any],
    *,
    model: Path,
    figures: int = 0,
    reports: Collection[str] = ("sr", "keys"),
    identify: bool = False,
    heat: bool = False,
    truth: Path | None = None,
) -> tuple[CTResults, list[str], dict[str, Any], list[Failure]]:
    """Predict the scans of a folder into a run, which is finished.

    Parameters
    ----------
    options : of the group.
    model : folder of the pipeline.

    Returns
    -------
    results : of the scans that could be read.
    lines, facts : of the summary, for people and machines.
    refused : scans without a report, and why.
    """
    from psimil.ct.pipeline import GP_FILE
    from psimil.ct.report.run_files import write_results
    from psimil.ct.report.scan_results import predict_cohort
    from psimil.ct.scans.label_file import read_slice_labels
    from psimil.files.environment import environment
    from psimil.report.calls import Words, reasons_counted, threshold_words

    cohort = cohort_of(directory, options)
    with shell.progress(len(cohort), "reading") as step:
        known = None if truth is None else read_slice_labels(truth)
        results = predict_cohort(pipeline, cohort, truth=known, file=model / GP_FILE, heat=heat, progress=step)
    run.start(environment())
    run.write_table("series.csv", cohort.table())
    scans = len(results.slices) + len(results.failures)
    n = min(figures, len(results.slices)) + bool(reports) * scans
    with shell.progress(n, "writing") as step:
        refused = write_results(run, results, figures=figures, reports=reports, identify=identify, progress=step)
    facts = results.facts() | {"reports": ("sr" in reports) * (scans - len(refused))}
    lines = [
        f"{facts['scans']} scans with {facts['slices']} slices: {facts['called_positive']} called positive, "
        f"{reasons_counted(results.reasons())}; "
        f"{facts['failures']} scans could not be read (failures.csv).",
        f"{facts['not_analysed']} scans do not count as analysed (not_analysed in bags.csv, and failures.csv).",
        f"Finding: {results.purpose.words}.",
        threshold_words(facts["bag_threshold"], facts["instance_threshold"], Words.of("ct")),
        *_heat(facts.get("heat_maps")),
        *(failure.reason for failure in refused[:1]),
        *_scores(facts.get("scores"), results.localisation()),
    ]
    run.write_text("summary.md", "# Prediction\n\n" + "\n\n".join([*lines, NOTE]) + "\n")
    run.finish()
    return results, lines, facts, refused


def _heat(slices: int | None) -> list[str]:
    """Where heat maps are, or why there is none; nothing where none were asked for."""
    if slices is None:
        return []
    if not slices:
        return ["No heat map: no slice of a scan that counts as analysed is called positive for what lies in it."]
    return [f"Heat maps of {slices} slices are in figures/heat-*.png, where scans are drawn, and in psimil view."]


def _scores(scores: dict[str, Any] | None, inside: Localisation | None) -> list[str]:
    """What the known slice labels say about the prediction, in words."""
    from psimil.results.localisation import shown

    if scores is None or inside is None:
        return []
    found = [f"{name} {model} (middle of the scan {middle})" for name, model, middle in inside.rows("scan", "slice")]
    return [
        f"Against the given slice labels: scan AUC {shown(scores['scans']['auc'], 3)}, slice AUC "
        f"{shown(scores['slices']['auc'], 3)}, slice F1 {shown(scores['slices']['f1'], 3)}, AUC of the standard "
        f"deviation for wrong slices {shown(scores['uncertainty_auc'], 3)}.",
        f"Inside scans, {inside.n_both_kinds} of them with slices of both kinds: {'; '.join(found)}.",
    ]
