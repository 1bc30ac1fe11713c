"""``psimil evaluate``: the scores of a model on labelled bags."""

from __future__ import annotations

import typer

from psimil.cli.arguments import (
    MODEL,
    TABLE,
    check_arguments,
    check_columns,
    labelled,
    load,
    named_features,
)
from psimil.cli.exits import NOTE, printable
from psimil.cli.options import (
    BagColumn,
    BagFile,
    InstanceColumn,
    LabelColumn,
    ModelFile,
    PositionColumn,
)
from psimil.cli.shell import Shell


def evaluate(
    context: typer.Context,
    model: ModelFile,
    bags: BagFile,
    bag: BagColumn = "bag",
    label: LabelColumn = None,
    instance_label: InstanceColumn = None,
    position: PositionColumn = None,
) -> None:
    """Print bag scores, and instance scores when the file has instance labels.

    Bags are in order if --position says so or the model is a chain: then it says also how far from a positive instance
    the most probable one is, and what the middle of the bag would find without any feature.
    """
    with Shell.of(context) as shell:
        from psimil.cli.scores import places_of, score_tables, scores
        from psimil.store.tables import read_bags

        check_arguments("evaluate", (model, MODEL), (bags, TABLE))
        estimator = load(model)
        names = named_features(getattr(estimator, "feature_names_in_", None), bags)
        table = labelled(
            read_bags(
                bags,
                bag=bag,
                label=label,
                instance_label=instance_label,
                features=names,
                classes=estimator.classes,
                position=position,
            ),
            bags,
        )
        table = check_columns(estimator, table, bags)
        found = scores(estimator.predict_dist(table.bags), table, places_of(table, estimator, position))
        name = printable(bags.name)
        for title, heads, rows in score_tables(f"Measured on {name}", found):
            shell.table(title, heads, rows)
        thresholds = f"Bag threshold {found['bag_threshold']:.4g}"
        if "instances" in found:
            thresholds += f", instance threshold {found['instance_threshold']:.4g}"
            if found["localisation"]["unit"] is None:
                shell.say("Where bags are in order, name the column of positions: --position.")
        shell.say(
            f"{thresholds}, as stored with the model.",
            f"If the model was trained on {name}, these scores say nothing about new bags.",
            NOTE,
        )
        shell.result(measured_on=name, **found)
