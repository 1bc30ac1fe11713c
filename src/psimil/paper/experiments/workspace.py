"""The directory of a run: what it holds, with which settings it was begun, and whether it may be continued."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psimil.files.workdir import Workdir, open_workdir
from psimil.paper.experiments.job import Job
from psimil.paper.experiments.records import Records

OWN = ("fits", "predictions", "history", "tables", "figures", "fits.csv", "splits.csv", "metrics.json", "summary.md")


@dataclass(frozen=True)
class Workspace(Workdir):
    """An open run directory."""

    @property
    def records(self) -> Records:
        """Its finished fits."""
        return Records(self.path)


def open_workspace(path: Path, experiment: str, *, quick: bool, overwrite: bool = False) -> Workspace:
    """Begin a run, or continue the one that is there; see :func:`psimil.files.workdir.open_workdir`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = open_workspace(Path(folder) / "run", "musk1", quick=True)
    ...     sorted(p.name for p in run.path.iterdir())
    ['config.json', 'environment.json']
    """
    config = {"experiment": experiment, "quick": quick}
    return Workspace(open_workdir(path, config, key="experiment", own=OWN, overwrite=overwrite).path)


def split_rows(jobs: list[Job], labels: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per bag and part of every split that the jobs use.

    Parameters
    ----------
    labels : cohort name -> (B,) bag labels.
    """
    from psimil.paper.experiments.material import CROSS_VALIDATION, split_of
    from psimil.paper.experiments.models import entry

    rows, seen = [], set()
    for job in jobs:
        stopping = entry(job.model).preset not in ("", "default")
        name = (job.protocol, job.task, job.repeat, job.split, stopping and job.protocol == "nested")
        if job.task != CROSS_VALIDATION or name in seen or (job.experiment == "ich" and job.protocol != "nested"):
            continue
        seen.add(name)
        split = split_of(job, labels[job.experiment], stopping)
        parts = {"train": split.train, "stop": split.stop, "measured": split.test}
        first = {"protocol": job.protocol, "repeat": job.repeat, "split": job.split, "stopping": name[-1]}
        for part, index in parts.items():
            rows += [{**first, "part": part, "bag": int(bag)} for bag in (() if index is None else index)]
    return rows
