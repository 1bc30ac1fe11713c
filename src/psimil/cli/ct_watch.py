"""``psimil ct watch``: new scans of a DICOM archive are predicted, and reports sent back, once each."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from psimil.cli.ct_options import ModelFolder, hasher, out_of, rules, shared
from psimil.cli.ct_predict import fill
from psimil.cli.exits import NOTE
from psimil.cli.shell import Shell

if TYPE_CHECKING:
    from psimil.ct.dicomweb.journal import Entry, Journal


def watch(
    context: typer.Context,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="DICOMweb root, as http://localhost:8042/dicom-web; ?StudyDate=20260101- takes these studies alone.",
            show_default=False,
        ),
    ],
    model: ModelFolder,
    every: Annotated[
        float, typer.Option("--every", min=0.0, metavar="SECONDS", help="Between two looks; 0 looks once and ends.")
    ] = 60.0,
) -> None:
    """Predict the new studies of a DICOM archive and send the reports back to it.

    A study is read when two looks in a row saw as many files of it. Run the same command again after an interruption:
    what was reported is in the journal in --out, and not sent again.
    """
    with Shell.of(context) as shell:
        from psimil.ct.dicomweb.archive import Archive
        from psimil.ct.dicomweb.connection import Connection
        from psimil.ct.dicomweb.journal import opened
        from psimil.ct.dicomweb.watch import Watch
        from psimil.ct.pipeline import GP_FILE, CTPipeline
        from psimil.files import rundir
        from psimil.foundations.errors import DataWarning, InputError, ServerFault
        from psimil.results.model_card import model_card

        options, out = shared(context), out_of(context)
        how = rules(**options)
        archive = Archive(Connection.of(url), how.modalities)
        pipeline = CTPipeline.load(model, device=options["device"])

        def predict(images: Path, results: Path) -> None:
            with rundir.opened(results, overwrite=True) as run:
                # without the patient an archive would file the report beside the study, and list that twice
                *_, refused = fill(shell, run, images, pipeline, options, model=model, identify=True)
            if refused:
                raise InputError(refused[0].reason)

        with opened(out, model_card(pipeline.gp_, model / GP_FILE)["sha256"]) as journal:

            def tell(entry: Entry) -> None:
                shell.say(entry.words)
                _written(journal, out)

            work = Watch(archive, journal, out, hasher(False), predict, how.limits, tell, _referral)
            shell.say(f"Watching; results are in {out}, where the reports name the patients.", NOTE)
            while True:
                try:
                    work.look(every)
                except ServerFault as error:
                    if not every:
                        raise
                    warnings.warn(str(error), DataWarning, stacklevel=1)
                facts = _written(journal, out)
                if not every:
                    break
                time.sleep(every)
        states = ", ".join(f"{n} {state}" for state, n in facts.items()) or "none that is wanted"
        shell.say(f"{sum(facts.values())} studies: {states}.")
        shell.result(run=str(out), note=NOTE, studies=facts)


def _referral(results: Path) -> str:
    """Why the reports of a study refer it to a reader; empty when they do not."""
    from psimil.ct.report.structured_report import read_report

    reasons = (read_report(file)["reason"][0] for file in sorted((results / "reports").glob("*.dcm")))
    return next(filter(None, reasons), "")


def _written(journal: Journal, out: Path) -> dict[str, int]:
    """How many studies are in each state; the table of all of them is written."""
    import pandas as pd

    from psimil.files.csv_table import write_table

    entries = journal.entries()
    columns = ("id", "state", "files", "tries", "refer", "reason")
    frame = pd.DataFrame([[getattr(entry, name) for name in columns] for entry in entries], columns=list(columns))
    write_table(frame, out / "studies.csv")
    return dict(sorted(Counter(entry.state for entry in entries).items()))
