"""``psimil info``: what a model file holds."""

from __future__ import annotations

import math
from typing import Any

from psimil.cli.arguments import MODEL, check_arguments
from psimil.cli.exits import NOTE
from psimil.cli.options import Debug, Json, ModelFile, Quiet
from psimil.cli.shell import Shell


def info(model: ModelFile, as_json: Json = False, quiet: Quiet = False, debug: Debug = False) -> None:
    """Show what a model file holds: settings, kernel, posterior, thresholds, referral and its cost, training counts."""
    shell = Shell(as_json, quiet)
    with shell.listening():
        from dataclasses import asdict

        from psimil.files.model_file import load_model, parameters_json
        from psimil.files.schema import kernel_json
        from psimil.results.model_card import context_words, posterior_facts, referral_facts

        check_arguments("info", (model, MODEL))
        path = model / "model.safetensors" if model.is_dir() else model
        file = load_model(path)
        trained = file.model
        facts: dict[str, Any] = {
            "file": path.name,
            "bytes": path.stat().st_size,
            "psimil": file.library_version,
            "features": trained.n_features,
            "context": context_words(trained),
            "feature_names": None if file.feature_names is None else list(file.feature_names),
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
            "referral": referral_facts(trained, str(file.parameters.get("referral"))),
            "novelty_distance": None if trained.novelty is None else math.sqrt(trained.novelty.square),
            "parameters": parameters_json(file.parameters),
        }
        shell.table(path.name, ("fact", "value"), [[name, value] for name, value in _rows(facts)])
        shell.say(NOTE)
        shell.result(**facts)


def _rows(facts: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as flat rows; long lists are cut."""
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _rows(value, f"{prefix}{name}.")
        elif isinstance(value, list) and len(value) > 4:
            rows.append((prefix + name, f"{', '.join(map(_shown, value[:3]))}, ... ({len(value)} values)"))
        elif isinstance(value, list):
            rows.append((prefix + name, ", ".join(map(_shown, value))))
        else:
            rows.append((prefix + name, _shown(value, ".6g")))
    return rows


def _shown(value: Any, form: str = ".4g") -> str:
    return format(value, form) if isinstance(value, float) else "-" if value is None else str(value)
