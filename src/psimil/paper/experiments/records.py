"""The directory of a run and its durable rows: one file per finished fit, so that nothing is ever fitted twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from psimil.files.atomic import atomic_write
from psimil.files.workdir import Workdir, open_workdir
from psimil.foundations.arrays import Array
from psimil.foundations.errors import InputError
from psimil.paper.experiments.plans import Job
from psimil.paper.experiments.trial import Trial

OWN = ("fits", "predictions", "history", "tables", "figures", "fits.csv", "splits.csv", "metrics.json", "summary.md")


@dataclass(frozen=True)
class Records(Workdir):
    """A run directory; ``fits/<key>.json``, written last, vouches for predictions and history of a finished fit."""

    def has(self, job: Job) -> bool:
        """Whether the job is finished."""
        return self._fit(job).is_file()

    def keep(self, job: Job, trial: Trial) -> None:
        """Make a finished job durable."""
        for folder in ("fits", "predictions", "history"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        for number, arrays in enumerate(trial.predictions):
            atomic_write(self._predictions(job, number), partial(_savez, arrays))
        if trial.history:
            self.write_table(f"history/{job.key}.csv", pd.DataFrame(trial.history))
        text = json.dumps({"job": asdict(job), "rows": [_plain(row) for row in trial.rows]}, allow_nan=False)
        atomic_write(self._fit(job), lambda stream: stream.write(text.encode()))

    def rows(self, jobs: Sequence[Job]) -> pd.DataFrame:
        """The rows of the finished among the jobs, in the order of the jobs."""
        rows = [row for job in jobs if self.has(job) for row in self._read(job)["rows"]]
        if not rows:
            raise InputError("no fit has finished yet.")
        return pd.DataFrame(rows)

    def predictions(self, jobs: Sequence[Job]) -> Iterator[tuple[dict[str, Any], dict[str, Array]]]:
        """(row, arrays) of every finished measurement."""
        for job in jobs:
            if not self.has(job):
                continue
            for number, row in enumerate(self._read(job)["rows"]):
                yield row, self._arrays(job, number)

    def _read(self, job: Job) -> dict[str, Any]:
        path = self._fit(job)
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if record["job"] != asdict(job) or not isinstance(record["rows"], list):
                raise ValueError("it is of another fit")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path.name} is damaged ({error}). Delete it; the fit will be repeated.") from error
        return record

    def _arrays(self, job: Job, number: int) -> dict[str, Array]:
        path = self._predictions(job, number)
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
                return dict(archive)
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise InputError(
                f"{path.name} is lost or damaged. Delete {self._fit(job).name}; the fit will be repeated."
            ) from error

    def _fit(self, job: Job) -> Path:
        return self.path / "fits" / f"{job.key}.json"

    def _predictions(self, job: Job, number: int) -> Path:
        return self.path / "predictions" / f"{job.key}{f'.{number}' if number else ''}.npz"


def open_records(path: Path, experiment: str, *, quick: bool, overwrite: bool = False) -> Records:
    """Begin a run, or continue the one that is there; see :func:`psimil.files.workdir.open_workdir`.

    Examples
    --------
    >>> run = open_records(Path("run"), "musk1", quick=True)
    >>> sorted(p.name for p in run.path.iterdir())
    ['config.json', 'environment.json']
    """
    config = {"experiment": experiment, "quick": quick}
    return Records(open_workdir(path, config, key="experiment", own=OWN, overwrite=overwrite).path)


def _savez(arrays: dict[str, Array], stream: BinaryIO) -> None:
    np.savez(stream, allow_pickle=False, **arrays)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with numbers that JSON knows; nan becomes None."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in plain.items()}
