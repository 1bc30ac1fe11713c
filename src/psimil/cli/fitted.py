"""The run directory of a fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from psimil.cli.config import config_text
from psimil.cli.exits import NOTE, printable
from psimil.cli.score_tables import bag_frame, instance_frame, places_of, score_tables, scores
from psimil.cli.shell import finite, markdown
from psimil.data.bagtable import BagTable
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.figures import (
    bag_table,
    history_table,
    new_figure,
    plot_bag,
    plot_history,
    plot_reliability,
    reliability_table,
    save_figure,
)
from psimil.files.environment import environment
from psimil.files.rundir import RunDirectory
from psimil.foundations.phases import tell
from psimil.results.model_card import context_words, referral_facts, referral_rule
from psimil.results.result_set import LARGEST, OUT_OF_BAG, ResultSet, warn_of_size
from psimil.results.tabular_results import tabular_results


def write_fit(
    run: RunDirectory,
    estimator: PsiVGPMIL,
    table: BagTable,
    held_out: BagTable | None,
    name: str,
    validation: Path | None,
    learned_from_instances: bool,
    seconds: float,
    asked: dict[str, Any],
) -> dict[str, Any]:
    """Write everything a fit leaves and return the facts that the command reports; ``asked`` chose the columns."""
    # labels of instances that were given to the fit would flatter its scores
    shown = replace(table, y_instances=None) if learned_from_instances else table
    metrics = _metrics(estimator, shown, name, held_out, validation)
    facts = {
        "n_iter": estimator.n_iter_,
        "converged": estimator.converged_,
        "elbo": estimator.elbo_,
        "seconds": seconds,
        "bag_threshold": estimator.threshold_,
        "instance_threshold": estimator.instance_threshold_,
        "referral": referral_facts(estimator.model_, estimator.referral),
        "training": estimator.training_counts_,
        "features": list(table.feature_names),
        "context": context_words(estimator.model_),
        "metrics": metrics,
    }
    tell("tables", 0, 1)
    run.start(environment(estimator.random_state))
    run.write_text("config.toml", config_text(estimator, asked))
    run.write_table("history.csv", history_table(estimator.history_))
    unseen = estimator.out_of_bag_
    more = {"y": table.y, "influence": unseen.influence, "fold": unseen.fold}
    run.write_table("bags.csv", bag_frame(unseen.prediction, **more))
    run.write_table("instances.csv", instance_frame(unseen.prediction, table))
    run.write_json("metrics.json", finite(metrics))
    _figures(run, estimator, table)
    model = run.file("model.safetensors")
    estimator.save(model)
    if table.bags.n_instances > LARGEST:
        warn_of_size(table.bags.n_instances)
    else:
        _results(estimator, shown, model).save(run)
    run.write_text("summary.md", _summary(facts, name, referral_rule(estimator.model_, estimator.referral)))
    run.finish()
    return facts


def _results(estimator: PsiVGPMIL, table: BagTable, model: Path) -> ResultSet:
    """What viewer and report show of a fit: its out-of-bag predictions, which say so in the model's card."""
    results = tabular_results(table, estimator.out_of_bag_.prediction, estimator, file=model)
    return replace(results, model={"predictions": OUT_OF_BAG, **results.model}, fold=estimator.out_of_bag_.fold)


def _metrics(
    estimator: PsiVGPMIL, table: BagTable, name: str, held_out: BagTable | None, validation: Path | None
) -> dict[str, Any]:
    unseen = estimator.out_of_bag_
    out_of_bag = scores(unseen.prediction, table, places_of(table, estimator), unseen)
    metrics = {"out_of_bag": {"measured_on": f"out-of-bag on the training bags of {printable(name)}", **out_of_bag}}
    if held_out is not None and validation is not None:
        used = " (used for early stopping)" if estimator.early_stopping in ("auc", "log_loss") else ""
        metrics["validation"] = {
            "measured_on": f"bags of {printable(validation.name)}{used}",
            **scores(estimator.predict_dist(held_out.bags), held_out, places_of(held_out, estimator)),
        }
    return metrics


def _figures(run: RunDirectory, estimator: PsiVGPMIL, table: BagTable) -> None:
    assert table.y is not None  # a fit needs labels
    unseen = estimator.out_of_bag_.prediction
    most = int(unseen.log_odds.argmax())
    truth = None if table.y_instances is None else table.bags.split(table.y_instances)[most]
    draw(
        run,
        history=(plot_history, history_table, estimator.history_),
        reliability=(plot_reliability, reliability_table, table.y, unseen.prob),
        bag=(plot_bag, bag_table, unseen, most, truth),
    )


def draw(run: RunDirectory, **figures: tuple[Any, ...]) -> None:
    """Save figures, by name: what draws one, what tabulates it, and what both are given."""
    for number, (name, (plot, tabulate, *given)) in enumerate(figures.items()):
        tell("figures", number, len(figures))
        save_figure(plot(*given, ax=new_figure()), run.figure(name), tabulate(*given))


def _summary(facts: dict[str, Any], name: str, referral: str) -> str:
    counts = facts["training"]
    lines = [
        "# Fit", "",
        f"Trained on {printable(name)}: {counts['bags']} bags, {counts['positive']} of them positive, "
        f"{counts['instances']} instances.",
        f"{facts['n_iter']} passes, {'settled' if facts['converged'] else 'not settled'}, bound {facts['elbo']:.6g}.",
        f"A bag is called positive from probability {facts['bag_threshold']:.4g} on, an instance from "
        f"{facts['instance_threshold']:.4g} on.",
        f"Referral to a reader: {referral}.",
        f"Context of instances: {facts['context']}.", "",
        f"## Features: {len(facts['features'])}", "",
        ", ".join(f"`{printable(feature)}`" for feature in facts["features"]), "",
    ]  # fmt: skip
    for part in facts["metrics"].values():
        for title, heads, rows in score_tables(f"Scores, {part['measured_on']}", part):
            lines += [f"## {title}", "", *markdown(heads, rows), ""]
    lines += [
        "`bags.csv` and `instances.csv` hold out-of-bag predictions: bags are dealt into folds, and what those of a",
        "fold have taught is taken out before they are predicted. Accuracy and F1 call them by a threshold that those",
        "of other folds chose; AUC compares bags of one fold, and the range after it is its 95 % interval. The kernel",
        "was chosen with all bags present, which flatters all of this a little;",
        "use `psimil evaluate` on bags that were not trained on for scores to report.",
        "`psimil view` and `psimil report` show them.",
        "`influence` is how surprising a bag's label is to the other bags; look at the largest for labelling errors.",
        "", f"**{NOTE}**", "",
    ]  # fmt: skip
    return "\n".join(lines)
