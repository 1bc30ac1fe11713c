"""The files that a prediction of CT scans leaves behind: tables, figures and DICOM reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from psimil.ct.report.scan_results import RESEARCH, CTResults, with_slices
from psimil.ct.scans.cohort import Failure
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    from psimil.files.rundir import RunDirectory


def write_results(
    run: RunDirectory,
    results: CTResults,
    *,
    figures: int = 20,
    reports: bool = True,
    now: datetime | None = None,
    progress: Callable[[str], None] = lambda note: None,
) -> list[Failure]:
    """Write tables, results.safetensors, strips of the most probable scans and one DICOM report per scan.

    Parameters
    ----------
    run : directory to fill.
    figures : strips to draw, at most.
    reports : whether to write DICOM Structured Reports, which refer to the slices of the source files.
    now : time that the reports carry; None for the present.
    progress : called with a note after each figure and report.

    Returns
    -------
    refused : scans without a report, and why.
    """
    run.write_table("bags.csv", results.scan_table())
    run.write_table("instances.csv", results.slice_table())
    run.write_table("failures.csv", results.failure_table())
    results.result_set().save(run)
    for place, number in enumerate(results.order()[:figures], start=1):
        _draw(run, results, int(number), place)
        progress("figures")
    return _reports(run, results, now or datetime.now(), progress) if reports else []


def _draw(run: RunDirectory, results: CTResults, number: int, place: int) -> None:
    from matplotlib.pyplot import close

    from psimil.figures import plot_strip, save_figure, strip_table
    from psimil.figures.lettering import noted
    from psimil.results.edges import Edges, edge_words

    truth = None if results.truth is None else results.prediction.split(results.truth)[number]
    slices = results.slices[number]
    name = str(results.prediction.ids[number])
    words = edge_words(Edges.of(slices.orientation))
    ax = plot_strip(results.prediction, name, truth, slices.images[:, 0], edges=words)
    figure = ax.get_figure(root=True)
    assert figure is not None  # plot_strip made one
    noted(ax, RESEARCH)
    save_figure(ax, run.figure(f"scan-{place:03d}"), with_slices(strip_table(results.prediction, name, truth)))
    close(figure)


def _reports(run: RunDirectory, results: CTResults, now: datetime, progress: Callable[[str], None]) -> list[Failure]:
    from psimil.ct.report.structured_report import write_report

    refused = []
    (run.aside / "reports").mkdir(exist_ok=True)
    for number, scan in enumerate(results.slices):
        try:
            name = hashlib.sha256(str(scan.id).encode()).hexdigest()[:16]  # an id that was asked for may be a real one
            write_report(run.file(f"reports/{name}.dcm"), results.reported(number), when=now, burned_in=scan.burned_in)
        except InputError as error:
            refused.append(Failure(str(scan.id), str(error)))
        progress("reports")
    return refused
