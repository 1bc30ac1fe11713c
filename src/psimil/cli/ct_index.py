"""``psimil ct index``: what a folder holds, without reading a pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from psimil.cli.ct_options import Folder, chosen, shared
from psimil.cli.exits import NOTE
from psimil.cli.shell import Shell

if TYPE_CHECKING:
    from psimil.ct.scans.study import Series, Study

SHOWN = 50  # problems that are printed
SHORT = {
    "secondary capture": "capture", "another modality": "modality", "another kind of object": "no image",
    "CT without orientation": "CT, no plane",
}  # fmt: skip


def index(context: typer.Context, directory: Folder) -> None:
    """Show studies, series, slices, thickness and problems of a folder, with --out in a file; no pixels are read."""
    with Shell.of(context) as shell:
        from psimil.ct.scans.series import COUNTED

        options = shared(context)
        out = options["out"]
        found, cohort = chosen(directory, options)
        reasons = {(part.study_id, part.id): part.reason for part in cohort.chosen}
        rows = [_row(study, part, reasons) for study in found.studies for part in study.series]
        if out is not None:
            import pandas as pd

            from psimil.files.environment import environment
            from psimil.files.rundir import opened

            with opened(out, overwrite=options["overwrite"], inputs=(directory,)) as run:
                run.start(environment())
                run.write_table("series.csv", pd.DataFrame(rows))
                run.finish()
        shell.table(
            f"{len(found.studies)} studies, {len(rows)} series; {len(cohort)} of them are read",
            ("study", "series", "kind", "slices", "mm", "read"),
            [_cells(row) for row in rows],
        )
        problems = [f"study {row['study']}, series {row['series']}: {line}" for row in rows for line in row["problems"]]
        problems += [f"study {failure.scan}: {failure.reason}" for failure in cohort.failures]
        problems += list(found.problems)
        left_out = ", ".join(f"{n} {kind}" for kind, n in found.left_out.items())
        shell.say(
            *(problems[:SHOWN] if problems else ["No problems."]),
            *([f"And {len(problems) - SHOWN} problems more."] if len(problems) > SHOWN else []),
            *([COUNTED] if any("file " in line for line in problems) else []),
            *([f"Images left out: {left_out}."] if left_out else []),
            *([f"{found.listing.words}."] if found.listing.words else []),
            NOTE,
        )
        shell.result(series=rows, problems=problems, left_out=dict(found.left_out), skipped=dict(found.listing.skipped))


def _cells(row: dict[str, Any]) -> list[str]:
    """What the table shows of a series in 80 columns: two ids of 16 characters and the rest."""
    kind = SHORT.get(row["kind"], row["kind"])
    return [row["study"], row["series"], kind, str(row["slices"]), row["thickness"].removesuffix(" mm"), row["read"]]


def _row(study: Study, part: Series, reasons: dict[tuple[str, str], str]) -> dict[str, Any]:
    return {
        "study": study.id,
        "series": part.id,
        "kind": part.kind,
        "slices": part.n_slices,
        "thickness": "" if part.thickness is None else f"{part.thickness:g} mm",
        "coverage": f"{part.coverage:.0f} mm",
        "read": "yes" if (study.id, part.id) in reasons else "",
        "reason": reasons.get((study.id, part.id), ""),
        "problems": [*part.problems, *part.notes],
    }
