"""``psimil report``: one HTML file of a prediction, to read, print or attach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from psimil.cli.arguments import load_results
from psimil.cli.exits import NOTE
from psimil.cli.shell import Shell

Results = Annotated[
    Path, typer.Argument(metavar="RESULTS", help="Folder of fit, predict, ct predict or demo.", show_default=False)
]


def report(
    context: typer.Context,
    results: Results,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="HTML file; report.html in the folder by default."),
    ] = None,
    probable: Annotated[int, typer.Option("--probable", min=0, help="Most probable bags to show in detail.")] = 5,
    uncertain: Annotated[int, typer.Option("--uncertain", min=0, help="Most uncertain bags to show in detail.")] = 5,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the report.")] = "Prediction report",
    show_ids: Annotated[
        bool, typer.Option("--show-ids", help="Name bags by their ids in place of numbers. They may identify people.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file of that name.")] = False,
) -> None:
    """Write one HTML file of a prediction: summary, calibration, all bags, and some in detail. It needs no network."""
    with Shell.of(context) as shell:
        import hashlib

        from psimil.files.atomic import atomic_write
        from psimil.foundations.errors import OutputError
        from psimil.report import Choices, render_report
        from psimil.results.result_file import NAME

        target = results / "report.html" if out is None else out
        if out is not None and out.exists() and not overwrite:
            raise OutputError(f"cannot write {out.name}: it is there already. Name another or add --overwrite.")
        if target.exists() and target.suffix.lower() not in (".html", ".htm"):
            raise OutputError(f"cannot write {target.name}: it is there and no report. Name a file that ends in .html.")
        found = load_results(results, "report")
        source = f"sha256 {hashlib.sha256((results / NAME).read_bytes()).hexdigest()[:16]}"
        text = render_report(found, Choices(probable, uncertain, show_ids, title), source=source)
        data = text.encode("utf-8", "backslashreplace")
        atomic_write(target, lambda stream: stream.write(data))
        shell.say(f"The report is {target} ({len(data) / 1e6:.1f} MB); open it in any browser.", NOTE)
        shell.result(report=str(target), bytes=len(data), bags=len(found), note=NOTE)
