"""``psimil predict`` and ``psimil evaluate``: a model on the bags of a table, its probabilities and its scores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from psimil.cli.arguments import (
    MODEL,
    TABLE,
    check_arguments,
    check_columns,
    connected,
    labelled,
    load,
    model_path,
    named_bag,
    named_features,
    titled,
)
from psimil.cli.exits import NOTE, UsageProblem, printable
from psimil.cli.groups import asked
from psimil.cli.next_steps import ways_to_look
from psimil.cli.options import (
    BagColumnOfModel,
    BagFile,
    InstanceColumn,
    LabelColumn,
    ModelFile,
    Out,
    Overwrite,
    PositionColumn,
)
from psimil.cli.shell import Shell

if TYPE_CHECKING:
    from psimil.data.bagtable import BagTable
    from psimil.estimators.psi_vgpmil import PsiVGPMIL


class Size(NamedTuple):
    """Rows and columns of a picture.

    Examples
    --------
    >>> Size.read("28x14")
    Size(rows=28, columns=14)
    """

    rows: int
    columns: int

    @classmethod
    def read(cls, text: str) -> Size:
        """From text like 28x28."""
        rows, _, columns = text.lower().partition("x")
        if not (rows.isdecimal() and columns.isdecimal() and int(rows) and int(columns)):
            raise typer.BadParameter(f"{text!r} is not a size like 28x28.")
        return cls(int(rows), int(columns))


def predict(
    context: typer.Context,
    model: ModelFile,
    bags: BagFile,
    out: Out,
    bag: BagColumnOfModel = None,
    label: LabelColumn = None,
    instance_label: InstanceColumn = None,
    image_size: Annotated[
        Size | None,
        typer.Option("--image-size", parser=Size.read, metavar="28x28", help="Features are pixels: rows x columns."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Write bags.csv and instances.csv: probabilities, standard deviations and intervals, in the order of the file.

    What psimil view and psimil report show is written beside them. Of a folder of slides whose files have coords, an
    HDF5 file, a GeoJSON file for QuPath and a heat map of each are written to the folder slides.
    """
    with Shell.of(context) as shell:
        from psimil.cli.predicted import SLIDES, write_prediction
        from psimil.files.environment import environment
        from psimil.files.rundir import opened
        from psimil.report.calls import reasons_counted
        from psimil.results.result_file import NAME

        check_arguments("predict", (model, MODEL), (bags, TABLE))
        if out.resolve() == model_path(model).resolve().parent:
            raise UsageProblem(f"--out {out} is the run of the model, which would be replaced. Name another folder.")
        with opened(out, overwrite=overwrite, inputs=(bags,)) as run:
            columns = {"label": label, "instance_label": instance_label}
            split = asked(context)["split"]
            estimator, table = _read(model, bags, bag, labels_optional=label is None, split=split, **columns)
            run.start(environment())
            with connected(asked(context)["cluster"]) as client:
                counts = write_prediction(run, table, estimator, client, file=model_path(model), image_size=image_size)
            facts = {
                "bags": len(table.bags),
                "instances": table.bags.n_instances,
                **counts.facts,
                "bag_threshold": estimator.threshold_,
                "instance_threshold": estimator.instance_threshold_,
            }
            lines = [
                f"{facts['bags']} bags with {facts['instances']} instances of {printable(titled(bags, split))}: "
                f"{facts['called_positive']} bags called positive at threshold {estimator.threshold_:.4g}, "
                f"{reasons_counted(counts.reasons)}.",
                f"{NOTE}",
            ]
            run.write_text("summary.md", "# Prediction\n\n" + "\n\n".join(lines) + "\n")
            run.finish()
        shell.say(
            lines[0],
            f"bags.csv, instances.csv and summary.md are in {out}.",
            *([f"{len(table.slides)} slides (.h5, .geojson, .png) are in {out / SLIDES}."] if table.slides else []),
            *(("Next:", *(f"  {line}" for line in ways_to_look(out))) if (out / NAME).is_file() else ()),
            NOTE,
        )
        shell.result(run=str(out), note=NOTE, **facts)


def evaluate(
    context: typer.Context,
    model: ModelFile,
    bags: BagFile,
    bag: BagColumnOfModel = None,
    label: LabelColumn = None,
    instance_label: InstanceColumn = None,
    position: PositionColumn = None,
) -> None:
    """Print bag scores, and instance scores when the file has instance labels.

    Bags are in order if --position says so or the model is a chain: then it says also how far from a positive instance
    the most probable one is, and what the middle of the bag would find without any feature.
    """
    with Shell.of(context) as shell:
        from psimil.cli.score_tables import places_of, score_tables, scores

        check_arguments("evaluate", (model, MODEL), (bags, TABLE))
        columns = {"label": label, "instance_label": instance_label, "position": position}
        split = asked(context)["split"]
        estimator, table = _read(model, bags, bag, split=split, **columns)
        table = labelled(table, bags)
        measured = scores(estimator.predict_dist(table.bags), table, places_of(table, estimator, position))
        name = printable(titled(bags, split))
        for title, heads, rows in score_tables(f"Measured on {name}", measured):
            shell.table(title, heads, rows)
        thresholds = f"Bag threshold {measured['bag_threshold']:.4g}"
        if "instances" in measured:
            thresholds += f", instance threshold {measured['instance_threshold']:.4g}"
            if measured["localisation"]["unit"] is None:
                shell.say("Where bags are in order, name the column of positions: --position.")
        shell.say(
            f"{thresholds}, as stored with the model.",
            f"If the model was trained on {name}, these scores say nothing about new bags.",
            NOTE,
        )
        shell.result(measured_on=name, **measured)


def _read(model: Path, bags: Path, bag: str | None, **columns: Any) -> tuple[PsiVGPMIL, BagTable]:
    """The model, and the table with its features in its order."""
    from psimil.data.bagtable import BAG
    from psimil.foundations.errors import InputError, NoBagColumn
    from psimil.store.tables import read_bags

    estimator = load(model)
    own = named_bag(estimator.bag_column_, bags) if bag is None else None
    names = named_features(getattr(estimator, "feature_names_in_", None), bags)
    try:
        table = read_bags(bags, bag=bag or own or BAG, features=names, classes=estimator.classes, **columns)
    except NoBagColumn as error:
        if own is None:
            raise
        words = f'{error} The bags of the model were made by "{own}": add this column, or name another with --bag'
        raise InputError(f"{words}{'; --bag slide_id takes each slide for one' if bags.is_dir() else ''}.") from None
    return estimator, check_columns(estimator, table, bags)
