"""The files that a prediction of CT scans leaves behind: tables, figures and DICOM reports."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psimil.ct.report.scan_results import RESEARCH, CTResults, with_slices
from psimil.ct.scans.cohort import Failure
from psimil.ct.scans.scan import Slices
from psimil.foundations.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes

    from psimil.files.rundir import RunDirectory

FOLDERS = {"sr": "reports", "keys": "keys", "strips": "strips"}  # by kind of DICOM object


def write_results(
    run: RunDirectory,
    results: CTResults,
    *,
    figures: int = 20,
    reports: Collection[str] = ("sr", "keys"),
    identify: bool = False,
    now: datetime | None = None,
    progress: Callable[[str], None] = lambda note: None,
) -> list[Failure]:
    """Write tables, results.safetensors, strips of the most probable scans and DICOM objects.

    When no scan could be read, there are failures.csv and the reports that say so.

    Parameters
    ----------
    run : directory to fill.
    figures : scans to draw, at most: a strip each, and where there are heat maps a sheet of them.
    reports : of "sr", one Structured Report per scan, also of those that could not be analysed; "keys", a selection of
        the slices that are called positive; "strips", what was drawn as secondary captures.
    identify : copy patient and study of the source files into them.
    now : time that they carry; None for the present.
    progress : called with a note after each figure and each scan's reports.

    Returns
    -------
    refused : scans without a report, and why.
    """
    now = now or datetime.now()
    run.write_table("failures.csv", results.failure_table())
    if results.slices:
        run.write_table("bags.csv", results.scan_table())
        run.write_table("instances.csv", results.slice_table())
        results.result_set().save(run)
    pictures: dict[int, dict[str, NDArray[np.uint8]]] = {}
    for place, number in enumerate(results.order()[:figures].tolist(), start=1):
        pictures[number] = {"strip": _draw_strip(run, results, number, place)}
        if results.heat and results.heat[number].any():
            pictures[number]["heat"] = _draw_heat(run, results, number, place)
        progress("figures")
    if not reports:
        return []
    for kind in reports:
        (run.aside / FOLDERS[kind]).mkdir(exist_ok=True)
    return _reports(run, results, now, reports, identify, pictures, progress)


def _draw_strip(run: RunDirectory, results: CTResults, number: int, place: int) -> NDArray[np.uint8]:
    """Draw one strip; its pixels (rows, columns, 3)."""
    from psimil.figures import plot_strip, strip_table
    from psimil.results.edges import Edges, edge_words

    truth = None if results.truth is None else results.prediction.split(results.truth)[number]
    slices = results.slices[number]
    name = str(results.prediction.ids[number])
    words = edge_words(Edges.of(slices.orientation))
    ax = plot_strip(results.prediction, name, truth, slices.images[:, 0], edges=words)
    return _saved(run, f"scan-{place:03d}", ax, strip_table(results.prediction, name, truth))


def _draw_heat(run: RunDirectory, results: CTResults, number: int, place: int) -> NDArray[np.uint8]:
    """Draw the heat maps of one scan; their pixels (rows, columns, 3)."""
    from psimil.figures import heat_table, plot_heat
    from psimil.results.edges import Edges, edge_words

    slices, name = results.slices[number], str(results.prediction.ids[number])
    words = edge_words(Edges.of(slices.orientation))
    ax = plot_heat(results.prediction, name, slices.images[:, 0], results.heat[number], edges=words)
    return _saved(run, f"heat-{place:03d}", ax, heat_table(results.prediction, name))


def _saved(run: RunDirectory, name: str, ax: Axes, table: pd.DataFrame) -> NDArray[np.uint8]:
    """Save a figure with its table among those of the run; its pixels (rows, columns, 3)."""
    from matplotlib.pyplot import close

    from psimil.figures import save_figure
    from psimil.figures.lettering import figure_of, noted

    noted(ax, RESEARCH)
    save_figure(ax, run.figure(name), with_slices(table))
    canvas: Any = figure_of(ax).canvas
    canvas.draw()
    pixels = np.array(canvas.buffer_rgba())[..., :3]
    close(figure_of(ax))
    return pixels


def _reports(
    run: RunDirectory,
    results: CTResults,
    now: datetime,
    kinds: Collection[str],
    identify: bool,
    pictures: Mapping[int, Mapping[str, NDArray[np.uint8]]],
    progress: Callable[[str], None],
) -> list[Failure]:
    """Write the DICOM objects of all scans; those that get none, and why."""
    from psimil.ct.report.filing import read_identity
    from psimil.ct.report.key_objects import write_capture, write_key_objects
    from psimil.ct.report.structured_report import write_report

    refused = []
    everything: list[Slices | Failure] = [*results.slices, *results.failures]
    for number, item in enumerate(everything):
        name = str(item.scan if isinstance(item, Failure) else item.id)
        # An id that was asked for may be a real one.
        stem = hashlib.sha256(name.encode()).hexdigest()[:16]
        file = f"{stem}.dcm"
        try:
            if isinstance(item, Failure):
                files: Sequence[Path] = [image.file.path for image in item.images]
                scan = results.unread(item)
                how: dict[str, Any] = {"when": now, "burned_in": any(image.burned_in for image in item.images)}
            else:
                scan, files = results.reported(number), results.files[number] if results.files else []
                how = {"when": now, "burned_in": item.burned_in}
            if identify and files:
                scan = replace(scan, identity=read_identity(files))
            if "sr" in kinds:
                write_report(run.file(f"reports/{file}"), scan, **how)
            if "keys" in kinds and scan.called_sources():
                write_key_objects(run.file(f"keys/{file}"), scan, **how)
            for what, pixels in pictures.get(number, {}).items() if "strips" in kinds else ():
                write_capture(run.file(f"strips/{stem}{'-heat' * (what == 'heat')}.dcm"), scan, pixels, what, **how)
        except InputError as error:
            refused.append(Failure(name, str(error)))
        progress("reports")
    return refused
