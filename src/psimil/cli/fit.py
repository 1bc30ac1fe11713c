"""``psimil fit``: train on a table of bags and write a run directory."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.arguments import TABLE, bag_column, check_arguments, connected, labelled, named_features, titled
from psimil.cli.exits import NOTE, UsageProblem, check_memory
from psimil.cli.groups import asked
from psimil.cli.options import (
    BagColumn,
    BagFile,
    DropNames,
    FeatureNames,
    LabelColumn,
    Model,
    Out,
    Overwrite,
    names,
)
from psimil.cli.settings import KEY, read_settings
from psimil.cli.shell import Shell, finite

if TYPE_CHECKING:
    from psimil.data.bagtable import BagTable


def fit(
    context: typer.Context,
    bags: BagFile,
    out: Out,
    bag: BagColumn = None,
    label: LabelColumn = None,
    instance_label: Annotated[
        str | None,
        typer.Option(
            "--instance-label", metavar="COLUMN", help="Learn from known instance labels, -1 or empty: unknown."
        ),
    ] = None,
    features: FeatureNames = None,
    drop: DropNames = None,
    feedback: Annotated[
        Path | None,
        typer.Option("--feedback", metavar="FILE", help="Learn from a feedback.csv of psimil view; ids must match."),
    ] = None,
    model: Model = None,
    validation: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Bags to validate on; with --split, the split val of a torchmil folder."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Default: 0.")] = None,
    batch_bags: Annotated[int | None, typer.Option(min=1, help="Bags of a minibatch.")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep every pass in a file, and go on from it after an interruption."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Settings; options win over them.")] = None,
    overwrite: Overwrite = False,
) -> None:
    """Train on a table of bags and write a run directory.

    The scores that it reports are out-of-bag, which is optimistic: the kernel was chosen with every bag present.
    """
    with Shell.of(context) as shell:
        from psimil.cli.config import LISTS, build, read_config
        from psimil.data.bagtable import BAG
        from psimil.files.rundir import opened
        from psimil.store.tables import read_bags

        check_arguments("fit", (bags, TABLE))
        options = {"model": model, "random_state": seed}
        given = {name: value for name, value in options.items() if value is not None}
        given |= read_settings(context.meta[KEY])
        file = {} if config is None else read_config(config)
        shared, split = asked(context), asked(context)["split"]
        columns: dict[str, Any] = {name: file.pop(name, None) for name in LISTS}
        of_file = file.pop("bag", None)
        bag = of_file if bag is None else bag
        columns |= {key: names(value) for key, value in (("features", features), ("drop", drop)) if value}
        estimator = build(given, file)
        if estimator.early_stopping in ("auc", "log_loss") and validation is None:
            raise UsageProblem("early stopping on auc or log-loss needs --validation FILE; out-of-bag needs none.")
        with opened(out, overwrite=overwrite, inputs=(bags, validation, config, feedback)) as run:
            read = partial(read_bags, bag=bag or BAG, label=label, instance_label=instance_label)
            table = labelled(read(bags, positive=estimator.positive, split=split, **columns), bags)
            if estimator.positive is None and not table.classes.usual:
                estimator.positive = table.classes.positive  # a store knows it
            held_out = None
            if validation is not None:
                same = named_features(table.bags.feature_names, validation)
                other = None if split is None or not (validation / "splits.csv").is_file() else "val"
                held_out = labelled(read(validation, classes=table.classes, features=same, split=other), validation)
            known = None if instance_label is None else table.y_instances
            if feedback is not None:
                table, known = _with_feedback(table, known, feedback)
            check_memory()
            with connected(shared["cluster"]) as client:
                started = time.perf_counter()
                estimator.fit(
                    table.bags,
                    table.labels,
                    y_instances=None if known is None else table.bags.split(known),
                    eval_set=None if held_out is None else (held_out.bags, held_out.labels),
                    batch_bags=batch_bags,
                    client=client,
                    checkpoint=checkpoint,
                )
                seconds = time.perf_counter() - started
            estimator.bag_column_ = bag_column(bag, bags)
            from psimil.cli.fitted import write_fit

            facts = write_fit(
                run,
                estimator,
                table,
                held_out,
                titled(bags, split),
                validation,
                known is not None,
                seconds,
                {**columns, "bag": bag},
            )
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)  # the run has what it led to
        _tell(shell, facts, str(out))


def _with_feedback(table: BagTable, known: Any, feedback: Path) -> tuple[BagTable, Any]:
    """The table as readers corrected it, and what they know about instances."""
    from psimil.results.feedback import read_feedback, with_feedback

    corrected = with_feedback(replace(table, y_instances=known), read_feedback(feedback), feedback.name)
    return corrected, corrected.y_instances


def _tell(shell: Shell, facts: dict[str, Any], out: str) -> None:
    from psimil.cli.score_tables import feature_lines, score_tables

    shell.say(*feature_lines(facts["features"]))
    for part in facts["metrics"].values():
        for title, heads, rows in score_tables(f"Scores, {part['measured_on']}", part):
            shell.table(title, heads, rows)
    shell.say(
        f"{facts['n_iter']} passes in {facts['seconds']:.1f} s, bound {facts['elbo']:.5g}"
        + ("." if facts["converged"] else " (not settled)."),
        *_referral(**facts["referral"]),
        *([] if facts["context"] == "none" else [f"Context of instances: {facts['context']}."]),
        f"Model, tables, figures and summary.md are in {out}.",
        NOTE,
    )
    shell.result(run=out, **finite(facts))


def _referral(rule: str, share: float = math.nan, kept_error: float = 0.0, error: float = 0.0, **_: float) -> list[str]:
    """What the referral costs out-of-bag, where it has a target."""
    from psimil.predictive.referral import Cost

    return [] if math.isnan(share) else [f"Referral {rule}, out-of-bag: {Cost(share, kept_error, error).words}."]
