"""The results that ``psimil view`` and ``psimil report`` are asked to show; where there are none, what to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from psimil.cli.next_steps import next_step

if TYPE_CHECKING:
    from psimil.results.result_set import ResultSet


def load_results(folder: Path, verb: str) -> ResultSet:
    """The results in a folder.

    Parameters
    ----------
    verb : the command that shows them, "view" or "report".

    Raises
    ------
    MissingFile
        When there are none; the message names the command that makes some.
    """
    from psimil.foundations.errors import MissingFile
    from psimil.results.result_file import NAME
    from psimil.results.result_set import ResultSet

    if (folder / NAME).exists():
        return ResultSet.load(folder)
    inner = folder / "prediction"
    if (inner / NAME).exists():
        raise MissingFile(f"{folder} has its results in a folder of its own. Run: {next_step(verb, inner)}")
    if (folder / "cnn.safetensors").exists():
        step = next_step("ct", "predict", "DIR", "--model", folder, "--out", "runs/new")
        raise MissingFile(f"{folder} holds a model and no results. Predict the scans of a folder DIR first: {step}")
    if (folder / "model.safetensors").exists():
        step = next_step("predict", folder, "BAGS", "--out", "runs/new")
        raise MissingFile(f"{folder} holds a model and no results. Predict the bags of a file BAGS first: {step}")
    if folder.is_file():
        raise MissingFile(f"{folder} is a file. Name the folder of results that predict or ct predict wrote.")
    what = "holds no results" if folder.is_dir() else "was not found"
    raise MissingFile(
        f"{folder} {what} ({NAME}). Name a folder that psimil predict or psimil ct predict wrote, or make one: "
        f"{next_step('demo')}"
    )
