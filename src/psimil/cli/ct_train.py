"""``psimil ct train``: attention CNN from scan labels, then the Gaussian process on its features; resumable."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from psimil.cli.ct_options import Folder, cohort_of, out_of, shared
from psimil.cli.exits import NOTE
from psimil.cli.next_steps import next_step
from psimil.cli.options import Model
from psimil.cli.shell import Shell

if TYPE_CHECKING:
    from psimil.ct.pipeline import CTPipeline
    from psimil.ct.scans.cohort import Cohort
    from psimil.ct.scans.training_set import TrainingSet
    from psimil.files.workdir import Workdir

CHECKPOINT, DONE = "cnn.checkpoint.safetensors", "summary.md"
OWN = (
    CHECKPOINT, DONE, "cnn.safetensors", "model.safetensors", "failures.csv", "history.csv", "scans.csv", "series.csv",
)  # fmt: skip
ENOUGH, ENOUGH_OF_EACH = 50, 20  # scans
CHANCE = 0.6  # an AUC below is near chance, or worse


def train(
    context: typer.Context,
    directory: Folder,
    labels: Annotated[
        Path,
        typer.Option(
            "--labels",
            metavar="CSV",
            help="scan,label rows, the head being label or label: FINDING; or the files of RSNA or CQ500 as published.",
            show_default=False,
        ),
    ],
    feedback: Annotated[
        Path | None,
        typer.Option(
            "--feedback", metavar="CSV", help="feedback.csv of psimil view: readers' labels of scans, slices."
        ),
    ] = None,
    n_features: Annotated[
        int, typer.Option("--n-features", min=1, help="Features per slice; 8, 32 or 128 in the paper.")
    ] = 8,
    model: Model = "vgpmil",
    n_inducing: Annotated[int, typer.Option("--n-inducing", min=1, help="Inducing points.")] = 200,
    size: Annotated[int, typer.Option("--size", min=8, max=512, help="Pixels along a side of a slice.")] = 128,
    windows: Annotated[
        str,
        typer.Option("--windows", metavar="NAME:LEVEL/WIDTH,...", help="What the CNN sees of a slice, in HU."),
    ] = "brain:40/80,blood:80/200,soft tissue:40/380",
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="Passes of the CNN over the scans, at most.")] = 40,
    joint_epochs: Annotated[
        int,
        typer.Option("--joint-epochs", min=0, metavar="EPOCHS", help="Epochs of joint training of CNN and process."),
    ] = 0,
) -> None:
    """Train the attention CNN from one label per scan, then the Gaussian process on its features.

    Run the same command again after an interruption: the CNN continues after its last complete epoch, and the result is
    that of an uninterrupted run.
    """
    with Shell.of(context) as shell:
        from psimil.ct.pipeline import CTPipeline
        from psimil.ct.scans.purpose import UNNAMED
        from psimil.ct.scans.training_set import digest, read_training_set
        from psimil.ct.scans.windows import read_windows
        from psimil.estimators.psi_vgpmil import GVGPMIL, VGPMIL
        from psimil.files.workdir import open_workdir
        from psimil.foundations.errors import DataWarning

        options, out = shared(context), out_of(context)
        seed = options["seed"]
        seen = read_windows(windows)
        process = GVGPMIL() if model == "gvgpmil" else VGPMIL(labels="chain")
        process.set_params(n_inducing=n_inducing, random_state=seed)
        config = {
            "command": "ct train", "n_features": n_features, "model": model, "n_inducing": n_inducing, "size": size,
            "windows": windows, "epochs": epochs, "joint_epochs": joint_epochs, "seed": seed,
            "thickness": options["thickness"], "skip_bad": options["skip_bad"], "labels": digest(labels),
            "feedback": None if feedback is None else digest(feedback),
        }  # fmt: skip
        read = (directory, labels, feedback)
        work = open_workdir(out, config, key="command", own=OWN, overwrite=options["overwrite"], inputs=read)
        if (out / DONE).is_file():
            shell.say(
                f"{out} holds this training, finished. Train another with --out, or again with --overwrite.", NOTE
            )
            shell.result(model=str(out), finished_before=True)
            return
        cohort = cohort_of(directory, options)
        with shell.progress(len(cohort), "reading") as step:
            found = read_training_set(cohort, labels, windows=seen, size=size, progress=step)
        if feedback is not None:
            found = found.corrected(feedback)
        with shell.progress(epochs + joint_epochs + 1, "training", at_most=True) as step:
            pipeline = CTPipeline(
                n_features, size, seen, process, epochs=epochs, joint_epochs=joint_epochs, device=options["device"],
                checkpoint=out / CHECKPOINT, callback=lambda record: step(_words(record)), random_state=seed,
                purpose=found.purpose,
            ).fit(found.slices, found.y, found.known)  # fmt: skip
        facts = _write(work, pipeline, found, cohort)
        (out / CHECKPOINT).unlink(missing_ok=True)
        doubts = _doubts(facts)
        for doubt in doubts:
            warnings.warn(doubt, DataWarning, stacklevel=2)
        lines = [
            f"Trained on {facts['scans']} scans ({facts['positive']} positive) with {facts['slices']} slices; "
            f"{facts['failures']} scans were left out (failures.csv).",
            f"CNN: best of {facts['epochs']} epochs is {facts['best_epoch']}, AUC on its held-out scans "
            f"{facts['validation_auc']}; out-of-bag AUC of the process {facts['out_of_bag_auc']}.",
            "Scores of training scans flatter the model; measure on scans it has not seen.",
        ]
        lines.append(f"Reports will name the finding: {pipeline.purpose_.words}.")
        if found.purpose == UNNAMED:
            lines.append("Name it in the head of the label file: label: Pneumothorax, or label: SCHEME:VALUE:MEANING.")
        work.write_text(DONE, "# Training\n\n" + "\n\n".join([*lines, *doubts, NOTE]) + "\n")
        onward = next_step("ct", "predict", "NEW", "--model", out, "--out", "runs/new")
        shell.say(*lines, "Next, for a folder NEW of other scans:", f"  {onward}", NOTE)
        shell.result(model=str(out), note=NOTE, **facts)


def _write(work: Workdir, pipeline: CTPipeline, found: TrainingSet, cohort: Cohort) -> dict[str, Any]:
    """Models and tables; what is worth saying about them."""
    from dataclasses import asdict

    import pandas as pd

    from psimil.ct.report.slice_truth import area

    pipeline.save(work.path)
    extractor, slices = pipeline.extractor_, found.slices
    work.write_table("history.csv", pd.DataFrame([asdict(record) for record in extractor.history_]))
    work.write_table(
        "failures.csv", pd.DataFrame([(one.scan, one.reason) for one in found.failures], columns=["scan", "reason"])
    )
    work.write_table("series.csv", cohort.table())
    held_out = set(extractor.held_out_)
    scans = {"scan": [part.id for part in slices], "label": found.y}
    scans |= {"held_out_from_cnn": [number in held_out for number in range(len(slices))]}
    work.write_table("scans.csv", pd.DataFrame(scans | {"slices": [len(part) for part in slices]}))
    auc = extractor.history_[extractor.best_epoch_ - 1].validation_auc
    return {
        "scans": len(slices),
        "positive": int(sum(found.y)),
        "slices": sum(map(len, slices)),
        "failures": len(found.failures),
        "epochs": len(extractor.history_),
        "best_epoch": extractor.best_epoch_,
        "validation_auc": None if auc is None else round(auc, 4),
        "out_of_bag_auc": round(area(found.y, pipeline.gp_.out_of_bag_.prediction.log_odds), 4),
        "single_slices": sum(len(part) == 1 for part in slices),
        "finding": pipeline.purpose_.words,
        "fingerprint": extractor.fingerprint_,
    }


def _doubts(facts: dict[str, Any]) -> list[str]:
    """Why the model may be worth little."""
    doubts = []
    rarer = min(facts["positive"], facts["scans"] - facts["positive"])
    if facts["scans"] < ENOUGH or rarer < ENOUGH_OF_EACH:
        doubts.append(
            f"{facts['scans']} scans, {rarer} of the rarer label, are few: below {ENOUGH} and {ENOUGH_OF_EACH} a model "
            "learns little that holds for others."
        )
    for name, whose in (("validation_auc", "the scans held out from the CNN"), ("out_of_bag_auc", "scans out-of-bag")):
        auc = facts[name]
        if auc is not None and auc < CHANCE:
            how = "below" if auc < 0.5 else "near"
            doubts.append(f"AUC {auc:.3f} of {whose} is {how} chance: the model does not know the finding.")
    if facts["single_slices"]:
        doubts.append(f"{facts['single_slices']} scans have a single slice, which covers 0 mm (scans.csv).")
    return doubts


def _words(record: Any) -> str:
    loss = getattr(record, "validation_loss", None)
    return f"epoch {record.epoch}" + ("" if loss is None else f", held-out log-loss {loss:.3f}")
