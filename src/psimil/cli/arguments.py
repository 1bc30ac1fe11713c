"""Files and folders that a command was given in the wrong place: what they are, and what was probably meant."""

from __future__ import annotations

from pathlib import Path

from psimil.cli.exits import UsageProblem
from psimil.cli.next_steps import next_step

MODEL, TABLE, PREDICTION, STORE = "a model", "a table of bags", "a prediction", "a store of bags"
WANTED = {
    MODEL: "a model, the run of psimil fit or its file",
    TABLE: "a table of bags",
    STORE: "a store of bags",
}
FILES = {"model.safetensors": MODEL, "results.safetensors": PREDICTION, "manifest.json": STORE}
TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".pq", ".npz")


def check_arguments(command: str, *arguments: tuple[Path, str]) -> None:
    """Refuse a path that is plainly something else than is wanted in its place.

    Parameters
    ----------
    command : as it is called after ``psimil``.
    arguments : each path in turn with what is wanted; a store will do for a table.

    Raises
    ------
    UsageProblem
        With the command that was probably meant, when two arguments have changed places.

    Examples
    --------
    >>> check_arguments("info", (Path("no-such-file"), MODEL))  # whoever opens it will say so
    """
    for place, (path, wanted) in enumerate(arguments):
        kinds = _kinds(path)
        if _fits(kinds, wanted):
            continue
        which = f"the {('first', 'second')[place]} argument" if len(arguments) > 1 else "the argument"
        line = f"{path} is {kinds[0]}; {which} of psimil {command} is {WANTED[wanted]}."
        swapped = [other for other, _ in reversed(arguments)]
        pairs = zip(swapped, (kind for _, kind in arguments), strict=True)
        if len(arguments) > 1 and all(_fits(_kinds(other), kind) for other, kind in pairs):
            line += f" Did you mean: {next_step(*command.split(), *swapped)}"
        raise UsageProblem(line)


def _fits(kinds: list[str], wanted: str) -> bool:
    return not kinds or wanted in kinds or (wanted == TABLE and STORE in kinds)


def _kinds(path: Path) -> list[str]:
    """What a path plainly is; nothing when it is not there or could be anything."""
    if path.is_dir():
        return [kind for name, kind in FILES.items() if (path / name).is_file()]
    if not path.is_file():
        return []
    if path.suffix == ".safetensors":
        return [FILES.get(path.name, MODEL)]
    return [TABLE] if path.suffix in TABLES else []
