"""``psimil view`` and ``psimil report``: pages about a prediction, served on this computer, or one HTML file."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psimil.cli.arguments import load_results
from psimil.cli.exits import NOTE, UsageProblem
from psimil.cli.next_steps import has_viewer
from psimil.cli.shell import Shell
from psimil.foundations.extras import install_command

if TYPE_CHECKING:
    from psimil.viewer.state import ViewerState
    from psimil.viewer.volumes import Volumes

BANNER = (
    "WARNING: other computers can reach this viewer, and nothing that they exchange with it is encrypted.",
    "Whoever reads that traffic sees the pictures and predictions, and can take over the session.",
)


def view(
    context: typer.Context,
    results: Annotated[
        Path,
        typer.Argument(metavar="RESULTS", help="Folder that fit, predict or ct predict wrote.", show_default=False),
    ],
    dicom: Annotated[
        Path | None, typer.Option("--dicom", metavar="DIR", help="Folder with the DICOM files, to show whole slices.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")] = 0,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    no_tls: Annotated[
        bool,
        typer.Option("--i-understand-no-tls", help="Listen on an address that other computers reach, unencrypted."),
    ] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the pages in a browser.")] = True,
    show_ids: Annotated[
        bool, typer.Option("--show-ids", help="Name bags by their ids, and scans by their UIDs. They identify people.")
    ] = False,
) -> None:
    """Show a prediction in a browser: worklist, scans slice by slice, feedback. Stop it with Ctrl-C.

    Nothing leaves this computer. The address that is printed holds a secret; who has it sees everything.
    """
    with Shell.of(context) as shell:
        from psimil.viewer.settings import LOOPBACK

        if host not in LOOPBACK and not no_tls:
            raise UsageProblem(
                f"--host {host} lets other computers in, unencrypted. Add --i-understand-no-tls, or leave it out."
            )
        _check_installed()
        from psimil.viewer.app import create_app
        from psimil.viewer.browser import has_screen, opened_browser
        from psimil.viewer.server import bound_socket, server_of
        from psimil.viewer.settings import Settings

        viewed = _viewed(results, dicom, show_ids)
        with bound_socket(host, port) as listener:
            settings = Settings(listener.getsockname()[1], host, show_ids)
            if not settings.is_local:
                for line in BANNER:
                    typer.echo(line, err=True)
            server = server_of(create_app(viewed, settings))
            shell.say(settings.link, NOTE, "Stop with Ctrl-C.")
            shell.result(link=settings.link, note=NOTE)
            with opened_browser(settings.link, results, wanted=browser and has_screen()), suppress(KeyboardInterrupt):
                server.run(sockets=[listener])  # Ctrl-C is how a viewer ends


def report(
    context: typer.Context,
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="Folder of fit, predict, ct predict or demo.", show_default=False)
    ],
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
        from psimil.files.atomic import atomic_write
        from psimil.foundations.errors import OutputError
        from psimil.report import Choices, render_report
        from psimil.results.result_file import NAME

        target = results / "report.html" if out is None else out
        if out is not None and out.exists() and not overwrite:
            raise OutputError(f"cannot write {out.name}: it is there already. Name another or add --overwrite.")
        if target.exists() and target.suffix.lower() not in (".html", ".htm"):
            raise OutputError(f"cannot write {target.name}: it is there and no report. Name a file that ends in .html.")
        result_set = load_results(results, "report")
        source = f"sha256 {hashlib.sha256((results / NAME).read_bytes()).hexdigest()[:16]}"
        text = render_report(result_set, Choices(probable, uncertain, show_ids, title), source=source)
        data = text.encode("utf-8", "backslashreplace")
        atomic_write(target, lambda stream: stream.write(data))
        shell.say(f"The report is {target} ({len(data) / 1e6:.1f} MB); open it in any browser.", NOTE)
        shell.result(report=str(target), bytes=len(data), bags=len(result_set), note=NOTE)


def _check_installed() -> None:
    from psimil.foundations.errors import InputError

    if not has_viewer():
        raise InputError(f"psimil view needs more packages. Install them with: {install_command('viewer')}")


def _viewed(results: Path, dicom: Path | None, show_ids: bool) -> ViewerState:
    from psimil.viewer.feedback_store import FeedbackStore
    from psimil.viewer.state import ViewerState

    result_set = load_results(results, "view")
    if dicom is not None and result_set.kind != "ct":
        raise UsageProblem("--dicom is for results of psimil ct predict.")
    volumes = None if dicom is None else _volumes(dicom, result_set.series)
    return ViewerState(result_set, FeedbackStore(results), volumes, show_ids=show_ids)


def _volumes(dicom: Path, series: Sequence[str]) -> Volumes:
    """The scans in a folder, under the ids of the prediction: keyed hashes, or UIDs after ct predict --show-ids."""
    from psimil.cli.ct_options import hasher, rules
    from psimil.foundations.errors import DataWarning
    from psimil.viewer.volumes import volumes_of

    how = rules(skip_bad=True)
    volumes = volumes_of(dicom, series, how, hasher(False)) or volumes_of(dicom, series, how, hasher(True))
    if len(volumes) < len(series):
        warnings.warn(
            f"{len(series) - len(volumes)} of {len(series)} scans are not in the folder of --dicom and are shown as "
            "thumbnails. Name the folder that was predicted, as the same user.",
            DataWarning,
            stacklevel=2,
        )
    return volumes
