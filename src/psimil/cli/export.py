"""``psimil export``: a model as a graph for ONNX runtimes, or as a folder for model hubs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from psimil.cli.arguments import MODEL, check_arguments, load
from psimil.cli.exits import NOTE, UsageProblem
from psimil.cli.options import ModelFile
from psimil.cli.shell import Shell

Target = Annotated[
    Path, typer.Argument(metavar="OUT", help="File to write, model.onnx; or a folder for a hub.", show_default=False)
]


def export(context: typer.Context, model: ModelFile, out: Target) -> None:
    """Write a model for other programs: OUT ending in .onnx for ONNX runtimes, else a folder as model hubs want it.

    Nothing that is there is replaced.
    """
    with Shell.of(context) as shell:
        from psimil.export import save_pretrained, to_onnx
        from psimil.export.pretrained import network_words
        from psimil.foundations.errors import OutputError

        check_arguments("export", (model, MODEL))
        graph = out.suffix.lower() == ".onnx"
        if out.suffix[1:].isalpha() and not graph:  # a folder may be called model-1.0
            raise UsageProblem(f"psimil export cannot write {out.suffix}. Name a file that ends in .onnx, or a folder.")
        if out.exists():
            raise OutputError(f"cannot write {out.name}: it is there already. Name another.")
        estimator = load(model)
        network = network_words(estimator)
        more = [network] if network else []
        if graph:
            to_onnx(estimator, out)
            size = f"{out.stat().st_size / 1e6:.1f} MB"
            shell.say(f"The model is {out} ({size}). One run takes the rows of one bag.", *more, NOTE)
        else:
            save_pretrained(estimator, out)
            shell.say(f"The model is in {out}, with its card (README.md) and config.json.", *more, NOTE)
        shell.result(model=str(out), network=network or None, note=NOTE)
