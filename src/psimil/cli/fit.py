"""``psimil fit``: train on a table of bags and write a run directory."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.arguments import TABLE, check_arguments
from psimil.cli.connection import connected
from psimil.cli.exits import NOTE, UsageProblem
from psimil.cli.options import (
    BagColumn,
    BagFile,
    ClusterAddress,
    Debug,
    DropNames,
    FeatureNames,
    Json,
    LabelColumn,
    Out,
    Overwrite,
    Positive,
    Quiet,
    choice,
    names,
    number,
)
from psimil.cli.shell import Shell, finite

if TYPE_CHECKING:
    from psimil.data.bagtable import BagTable
    from psimil.estimators.psi_vgpmil import PsiVGPMIL


def fit(
    bags: BagFile,
    out: Out,
    bag: BagColumn = "bag",
    label: LabelColumn = None,
    positive: Positive = None,
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
    model: Annotated[
        str | None,
        typer.Option(parser=choice("vgpmil", "gvgpmil"), metavar="vgpmil|gvgpmil", help="Default: vgpmil."),
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="alpha of gvgpmil's density; means gvgpmil.")] = None,
    beta: Annotated[float | None, typer.Option(help="beta of gvgpmil's density; means gvgpmil.")] = None,
    n_inducing: Annotated[
        int | None, typer.Option(min=1, help="Number of inducing points. By default as many as suit.")
    ] = None,
    H: Annotated[
        float | None,
        typer.Option("--H", parser=number, metavar="NUMBER", help="Trust in bag labels; inf: they are right."),
    ] = None,
    label_posterior: Annotated[
        str | None, typer.Option(parser=choice("exact", "mean_field", "max"), metavar="exact|mean-field|max")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            parser=choice("independent", "chain"),
            metavar="independent|chain",
            help="Whether rows of a bag have an order in which neighbours tend to agree.",
        ),
    ] = None,
    mean: Annotated[str | None, typer.Option(parser=choice("constant", "zero"), metavar="constant|zero")] = None,
    residual: Annotated[
        str | None, typer.Option(parser=choice("projected", "full", "unit"), metavar="projected|full|unit")
    ] = None,
    posterior: Annotated[
        str | None,
        typer.Option(
            parser=choice("variational", "sampled", "augmented"),
            metavar="variational|sampled|augmented",
            help="How the posterior is found.",
        ),
    ] = None,
    hyperparameters: Annotated[
        str | None,
        typer.Option(
            parser=choice("bound", "paper", "published", "none"),
            metavar="bound|paper|published|none",
            help="How the kernel is learned.",
        ),
    ] = None,
    aggregate: Annotated[
        str | None,
        typer.Option(parser=choice("noisy_or", "max"), metavar="noisy-or|max", help="From instances to bags."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            parser=choice("bag", "auto", "none"),
            metavar="bag|auto|none",
            help="Show instances beside their bag; auto: where log p(T) gains.",
        ),
    ] = None,
    referral: Annotated[
        str | None,
        typer.Option(
            metavar="workload=0.1|error=0.02|interval",
            help="Which bags go to a reader: as many, or so few errors kept.",
        ),
    ] = None,
    max_iter: Annotated[int | None, typer.Option(min=0, help="Passes at most per stage.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(parser=choice("paper", "published"), metavar="paper|published", help="Settings of the paper."),
    ] = None,
    validation: Annotated[Path | None, typer.Option(metavar="FILE", help="Bags to validate on.")] = None,
    early_stopping: Annotated[
        str | None,
        typer.Option(
            parser=choice("auc", "log_loss", "out_of_bag"),
            metavar="auc|log-loss|out-of-bag",
            help="What stops the fit.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Default: 0.")] = None,
    dtype: Annotated[str | None, typer.Option(parser=choice("float64", "float32"), metavar="float64|float32")] = None,
    chunk_size: Annotated[int | None, typer.Option(min=1, help="Instances per chunk, to save memory.")] = None,
    batch_bags: Annotated[int | None, typer.Option(min=1, help="Bags of a minibatch.")] = None,
    cluster: ClusterAddress = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep every pass in a file, and go on from it after an interruption."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Settings; options win over them.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train on a table of bags and write a run directory.

    The scores that it reports are out-of-bag, which is optimistic: the kernel was chosen with every bag present.
    """
    options = {
        "model": model, "alpha": alpha, "beta": beta, "n_inducing": n_inducing, "H": H,
        "label_posterior": label_posterior, "labels": labels, "mean": mean, "residual": residual,
        "posterior": posterior, "hyperparameters": hyperparameters, "context": context, "referral": referral,
        "aggregate": aggregate, "max_iter": max_iter, "preset": preset, "early_stopping": early_stopping,
        "random_state": seed, "dtype": dtype, "chunk_size": chunk_size, "positive": positive,
    }  # fmt: skip
    shell = Shell(as_json, quiet)
    with shell.listening():
        from psimil.cli.config import build, read_config
        from psimil.cli.results import labelled, named_features
        from psimil.files.rundir import opened
        from psimil.store.tables import read_bags

        check_arguments("fit", (bags, TABLE))
        given = {name: value for name, value in options.items() if value is not None}
        file = {} if config is None else read_config(config)
        asked: dict[str, Any] = {"features": file.pop("features", None), "drop": file.pop("drop", None)}
        asked |= {key: names(value) for key, value in (("features", features), ("drop", drop)) if value}
        estimator = build(given, file)
        if estimator.early_stopping in ("auc", "log_loss") and validation is None:
            raise UsageProblem("early stopping on auc or log-loss needs --validation FILE; out-of-bag needs none.")
        with opened(out, overwrite=overwrite, inputs=(bags, validation, config, feedback)) as run:
            read = partial(read_bags, bag=bag, label=label, instance_label=instance_label)
            table = labelled(read(bags, positive=estimator.positive, **asked), bags)
            held_out = None
            if validation is not None:
                same = named_features(table.bags.feature_names, validation)
                held_out = labelled(read(validation, classes=table.classes, features=same), validation)
            known = None if instance_label is None else table.y_instances
            if feedback is not None:
                table, known = _with_feedback(table, known, feedback)
            with connected(cluster) as client:
                elsewhere = {"batch_bags": batch_bags, "client": client, "checkpoint": checkpoint}
                seconds = _train(estimator, table, known, held_out, elsewhere)
            from psimil.cli.fitted import write_fit

            facts = write_fit(run, estimator, table, held_out, bags.name, validation, known is not None, seconds, asked)
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)  # the run has what it led to
        _tell(shell, facts, str(out))


def _with_feedback(table: BagTable, known: Any, feedback: Path) -> tuple[BagTable, Any]:
    """The table as readers corrected it, and what they know about instances."""
    from dataclasses import replace

    from psimil.results.feedback import read_feedback, with_feedback

    told = with_feedback(replace(table, y_instances=known), read_feedback(feedback), feedback.name)
    return told, told.y_instances


def _train(
    estimator: PsiVGPMIL,
    table: BagTable,
    known: Any,
    held_out: BagTable | None,
    elsewhere: dict[str, Any],
) -> float:
    import time

    from psimil.cli.memory import check_memory

    check_memory()
    started = time.perf_counter()
    split = None if known is None else table.bags.split(known)
    evaluation = None if held_out is None else (held_out.bags, held_out.labels)
    estimator.fit(table.bags, table.labels, y_instances=split, eval_set=evaluation, **elsewhere)
    return time.perf_counter() - started


def _tell(shell: Shell, facts: dict[str, Any], out: str) -> None:
    from psimil.cli.results import feature_lines, score_tables

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
