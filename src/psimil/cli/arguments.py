"""Files and folders that a command is given: what they are, what they hold, and what was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psimil.cli.exits import UsageProblem, check_memory
from psimil.cli.next_steps import next_step

if TYPE_CHECKING:
    from psimil.data.bagtable import BagTable
    from psimil.estimators.psi_vgpmil import PsiVGPMIL
    from psimil.results.result_set import ResultSet

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


def model_path(path: Path) -> Path:
    """The model file that a path names: itself, or that of the run directory of a fit."""
    return path / "model.safetensors" if path.is_dir() else path


def load(path: Path) -> PsiVGPMIL:
    """The model in a file, in the run directory of a fit, or in a folder of a hub."""
    from psimil.estimators.psi_vgpmil import PsiVGPMIL

    check_memory()
    return PsiVGPMIL.from_pretrained(path) if path.is_dir() else PsiVGPMIL.load(path)


def labelled(table: BagTable, path: Path) -> BagTable:
    """The table, refused when it has no bag labels."""
    from psimil.foundations.errors import InputError

    if table.y is None:
        raise InputError(f"{path.name} has no bag labels. Name their column with --label.")
    return table


def named_features(names: Sequence[str] | None, path: Path) -> Sequence[str] | None:
    """The features to read from a file; None where the model finds them itself: in archives and stores."""
    if names is None or path.name.endswith(".npz"):
        return None
    if path.is_dir():
        from psimil.datasets.torchmil_folder import known_set

        known = known_set(path, names)
        return None if known is None else (known,)
    return tuple(names)


def named_bag(column: str | None, path: Path) -> str | None:
    """The column by which the bags of a model were made; None where a file has no columns: archives and most folders.

    Examples
    --------
    >>> named_bag("scan", Path("bags.csv")), named_bag("scan", Path("bags.npz"))
    ('scan', None)
    """
    if column is None or path.name.endswith(".npz"):
        return None
    if path.is_dir():
        from psimil.datasets.slides import is_slides
        from psimil.datasets.torchmil_folder import is_torchmil
        from psimil.store.manifest import is_store

        return column if is_slides(path) and not is_torchmil(path) and not is_store(path) else None
    return column


def bag_column(asked: str | None, path: Path) -> str | None:
    """The column by which the bags of a fit were made, of a store when it was imported; None where none was named.

    Examples
    --------
    >>> bag_column("scan", Path("bags.csv")), bag_column("bag", Path("bags.csv"))
    ('scan', None)
    """
    from psimil.data.bagtable import BAG
    from psimil.store.manifest import is_store, read_manifest

    if is_store(path):
        return read_manifest(path).bag_column
    return named_bag(None if asked == BAG else asked, path)


def titled(path: Path, split: str | None) -> str:
    """What bags are called: by their file or folder, and their split."""
    return path.name if split is None else f"{path.name}, split {split}"


def check_columns(estimator: PsiVGPMIL, table: BagTable, path: Path) -> BagTable:
    """The table with the features of the model in its order; refused where it lacks some of them.

    For a model of 1.0.0, which knows no names, it is refused where it has others or another order.
    """
    from psimil.estimators.inputs import check_fingerprint_of, features_of
    from psimil.foundations.errors import InputError

    if estimator.n_features_in_ != len(table.feature_names) and table.bags.feature_names is None:
        raise InputError(
            f"model expects {estimator.n_features_in_} features, got {len(table.feature_names)} ({path.name})."
        )
    check_fingerprint_of(estimator.feature_fingerprint, table.bags)
    names = getattr(estimator, "feature_names_in_", None)
    bags = features_of(table.bags, estimator.n_features_in_, None if names is None else tuple(names))
    return replace(table, bags=bags)


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
        raise MissingFile(f"{folder} is a file. Name the folder of results that fit, predict or ct predict wrote.")
    what = "holds no results" if folder.is_dir() else "was not found"
    raise MissingFile(
        f"{folder} {what} ({NAME}). Name a folder of psimil fit, psimil predict or psimil ct predict, or make one: "
        f"{next_step('demo')}"
    )


def connected(address: str | None) -> AbstractContextManager[Any]:
    """A client of the Dask scheduler at the address for as long as the block lasts; None without an address.

    Examples
    --------
    >>> with connected(None) as client:
    ...     client is None
    True
    """
    if address is None:
        return nullcontext()
    from psimil.cluster import connect

    client: AbstractContextManager[Any] = connect(address)
    return client
