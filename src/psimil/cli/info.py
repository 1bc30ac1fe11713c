"""``psimil info``: what a model file holds."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import typer

from psimil.cli.arguments import MODEL, check_arguments, load, model_path
from psimil.cli.exits import NOTE
from psimil.cli.options import ModelFile
from psimil.cli.shell import Shell


def info(context: typer.Context, model: ModelFile) -> None:
    """Show what a model file holds: settings, kernel, posterior, thresholds, referral and its cost, training counts."""
    with Shell.of(context) as shell:
        from psimil.files.model_file import load_model, parameters_json
        from psimil.files.schema import kernel_json
        from psimil.results.model_card import context_words, posterior_facts, referral_facts

        check_arguments("info", (model, MODEL))
        if model.is_dir():
            load(model)  # refuses a folder whose config.json is damaged, or not of its weights
        path = model_path(model)
        file = load_model(path)
        trained = file.model
        facts: dict[str, Any] = {
            "file": path.name,
            "bytes": path.stat().st_size,
            "psimil": file.library_version,
            "features": trained.n_features,
            **({} if trained.scaling.directions is None else {"principal_components": trained.gp.Z.shape[1]}),
            "context": context_words(trained),
            "feature_names": None if file.feature_names is None else list(file.feature_names),
            "bag_column": file.bag_column,
            "negative": file.classes.negative,
            "positive": file.classes.positive,
            "feature_fingerprint": file.feature_fingerprint,
            "training": file.training_counts,
            "inducing_points": len(trained.gp.Z),
            "kernel": kernel_json(trained.gp.kernel),
            "calibration": asdict(trained.calibration),
            "bag_threshold": trained.threshold,
            "instance_threshold": trained.instance_threshold,
            "posterior": posterior_facts(trained),
            "coupling": trained.coupling,
            "sharing": trained.sharing,
            "referral": referral_facts(trained, str(file.parameters.get("referral"))),
            "novelty_distance": None if trained.novelty is None else math.sqrt(trained.novelty.square),
            "parameters": parameters_json(file.parameters),
        }
        shell.facts(path.name, facts)
        shell.say(NOTE)
        shell.result(**facts)
