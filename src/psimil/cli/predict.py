"""``psimil predict``: probabilities with uncertainty for the bags and instances of a table."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import typer

from psimil.cli.arguments import (
    MODEL,
    TABLE,
    check_arguments,
    check_columns,
    connected,
    load,
    model_path,
    named_features,
)
from psimil.cli.exits import NOTE, UsageProblem, printable
from psimil.cli.next_steps import ways_to_look
from psimil.cli.options import (
    BagColumn,
    BagFile,
    ClusterAddress,
    InstanceColumn,
    LabelColumn,
    ModelFile,
    Out,
    Overwrite,
)
from psimil.cli.shell import Shell


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
    bag: BagColumn = "bag",
    label: LabelColumn = None,
    instance_label: InstanceColumn = None,
    image_size: Annotated[
        Size | None,
        typer.Option("--image-size", parser=Size.read, metavar="28x28", help="Features are pixels: rows x columns."),
    ] = None,
    cluster: ClusterAddress = None,
    overwrite: Overwrite = False,
) -> None:
    """Write bags.csv and instances.csv: probabilities, standard deviations and intervals, in the order of the file.

    What psimil view and psimil report show is written beside them.
    """
    with Shell.of(context) as shell:
        from psimil.cli.predicted import write_prediction
        from psimil.files.environment import environment
        from psimil.files.rundir import opened
        from psimil.report.calls import reasons_counted
        from psimil.results.result_file import NAME
        from psimil.store.tables import read_bags

        check_arguments("predict", (model, MODEL), (bags, TABLE))
        estimator = load(model)
        if out.resolve() == model_path(model).resolve().parent:
            raise UsageProblem(f"--out {out} is the run of the model, which would be replaced. Name another folder.")
        with opened(out, overwrite=overwrite, inputs=(bags,)) as run:
            names = named_features(getattr(estimator, "feature_names_in_", None), bags)
            columns: dict[str, Any] = {"label": label, "instance_label": instance_label, "features": names}
            table = read_bags(bags, bag=bag, classes=estimator.classes, labels_optional=label is None, **columns)
            table = check_columns(estimator, table, bags)
            run.start(environment())
            with connected(cluster) as client:
                counts = write_prediction(run, table, estimator, client, file=model_path(model), image_size=image_size)
            facts = {
                "bags": len(table.bags),
                "instances": table.bags.n_instances,
                **counts.facts,
                "bag_threshold": estimator.threshold_,
                "instance_threshold": estimator.instance_threshold_,
            }
            lines = [
                f"{facts['bags']} bags with {facts['instances']} instances of {printable(bags.name)}: "
                f"{facts['called_positive']} bags called positive at threshold {estimator.threshold_:.4g}, "
                f"{reasons_counted(counts.reasons)}.",
                f"{NOTE}",
            ]
            run.write_text("summary.md", "# Prediction\n\n" + "\n\n".join(lines) + "\n")
            run.finish()
        shell.say(
            lines[0],
            f"bags.csv, instances.csv and summary.md are in {out}.",
            *(("Next:", *(f"  {line}" for line in ways_to_look(out))) if (out / NAME).is_file() else ()),
            NOTE,
        )
        shell.result(run=str(out), note=NOTE, **facts)
