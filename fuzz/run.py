"""Fuzz one target: ``python fuzz/run.py TARGET --executions N --seed S``; the last line printed is JSON.

Batches run in processes of their own, so that a crash, a hang or a leak costs one batch. Inputs that fail are kept in
``fuzz/failures``.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flight import Flight
from outcomes import MAX_GROWTH
from target import NAMES, kept_inputs, target_named

HERE = Path(__file__).parent
FAILURES = HERE / "failures"
BATCH = 20_000
STUCK = 300.0  # seconds without an execution after which a batch is ended; a busy machine starts slowly
MEMORY = Path("/dev/shm")


@dataclass
class Campaign:
    """What all batches so far led to."""

    target: str
    executions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    growth: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def add(self, found: dict[str, Any]) -> None:
        """Count the tally of a batch, and keep its failing inputs."""
        self.executions += found["executions"]
        self.outcomes.update(found["outcomes"])
        self.slowest = max(self.slowest, found["slowest_seconds"])
        self.growth = max(self.growth, found["growth_bytes"])
        if found["growth_bytes"] > MAX_GROWTH:
            self.failures["the process grew"] += 1
        self.failures.update(found["failures"])
        for kind, inputs in found["inputs"].items():
            for data in inputs:
                keep(self.target, kind, base64.b64decode(data))

    def lost(self, kind: str, number: int, data: bytes) -> None:
        """Count a batch that ended by itself or had to be ended."""
        self.executions += number
        self.failures[kind] += 1
        keep(self.target, kind, data)

    def summary(self) -> dict[str, Any]:
        """The line of JSON."""
        return {
            "target": self.target,
            "executions": self.executions,
            "unique_outcomes": len(self.outcomes),
            "slowest_seconds": self.slowest,
            "growth_mb": round(self.growth / 2**20, 1),
            "failures": dict(self.failures),
            "executions_per_second": round(self.executions / max(self.seconds, 1e-9), 1),
            "outcomes": dict(self.outcomes.most_common()),
        }


def keep(target: str, kind: str, data: bytes) -> None:
    """Save an input that failed, with the kind of its failure in a text beside it."""
    FAILURES.mkdir(exist_ok=True)
    stem = f"{target}-{hashlib.sha256(kind.encode()).hexdigest()[:8]}-{hashlib.sha256(data).hexdigest()[:8]}"
    (FAILURES / stem).write_bytes(data)
    (FAILURES / f"{stem}.txt").write_text(f"{kind}\n", encoding="utf-8")


def batch(campaign: Campaign, engine: str, executions: int, seed: int, folder: Path) -> None:
    """Run one batch, and end it when it does nothing for long."""
    (folder / "tally.json").unlink(missing_ok=True)
    path = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(path),
    }
    command = [sys.executable, str(HERE / "batch.py"), campaign.target, engine, str(executions), str(seed), str(folder)]
    with Flight(folder / "flight") as flight, (folder / "log").open("wb") as log:
        flight.note(0, b"")
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
        last, since, stuck = flight.last()[0], time.monotonic(), False
        while process.poll() is None:
            time.sleep(0.2)
            if flight.last()[0] != last:
                last, since = flight.last()[0], time.monotonic()
            elif time.monotonic() - since > STUCK:
                stuck = True
                process.send_signal(signal.SIGUSR1)
                time.sleep(1.0)
                process.kill()
        tally = folder / "tally.json"
        if tally.exists():
            campaign.add(json.loads(tally.read_text(encoding="utf-8")))
        else:
            number, data = flight.last()
            print((folder / "log").read_text(errors="replace")[-3000:], file=sys.stderr)
            campaign.lost("hang" if stuck else f"process ended with {process.returncode}", number, data)


def record(path: Path, campaign: Campaign, seed: int, engine: str) -> None:
    """Put what a campaign led to so far into a list of campaigns, in place of what was there of it before."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=HERE
    )
    named = {"target": campaign.target, "seed": seed, "engine": engine, "commit": asked.stdout.strip()}
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    others = [other for other in kept if any(other[key] != value for key, value in named.items())]
    found = {key: value for key, value in campaign.summary().items() if key not in ("target", "outcomes")}
    lines = ",\n".join(json.dumps(entry) for entry in [*others, named | found])
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def fuzz(
    name: str, executions: int, seed: int, engine: str, per_batch: int = BATCH, noted: Path | None = None
) -> Campaign:
    """Batches until there were so many executions; a batch that starts three times without one ends it.

    Parameters
    ----------
    noted : file that takes what came of it, batch by batch.
    """
    campaign, start, idle, first = Campaign(name), time.monotonic(), 0, seed
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as directory:
        folder = Path(directory)
        (folder / "corpus").mkdir()
        target = target_named(name, folder)
        for data in [*target.seeds(), *kept_inputs(name)]:
            (folder / "corpus" / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        while campaign.executions < executions and idle < 3:
            before = campaign.executions
            batch(campaign, engine, min(per_batch, executions - before), seed, folder)
            seed, idle = seed + 1, idle + 1 if campaign.executions == before else 0
            campaign.seconds = time.monotonic() - start
            if noted is not None:
                record(noted, campaign, first, engine)
            print(
                f"{campaign.executions} executions, {len(campaign.outcomes)} outcomes, "
                f"{sum(campaign.failures.values())} failures, slowest {campaign.slowest:.3f} s, "
                f"growth {campaign.growth >> 20} MB, {campaign.executions / campaign.seconds:.0f} per second",
                flush=True,
            )
    return campaign


def replay(name: str, path: Path) -> str:
    """The outcome of one kept input."""
    from outcomes import execute

    with tempfile.TemporaryDirectory() as directory:
        return execute(target_named(name, Path(directory)), path.read_bytes()).outcome


def main() -> int:
    """Run the command line; 1 when an input failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=NAMES)
    parser.add_argument("--executions", type=int, default=BATCH)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--engine", choices=("atheris", "plain"), default="atheris" if find_spec("atheris") else "plain"
    )
    parser.add_argument(
        "--record", type=Path, help="list of campaigns, such as fuzz/campaigns.json, that takes this one"
    )
    parser.add_argument("--replay", type=Path, help="try one input and print its outcome")
    given = parser.parse_args()
    if given.replay is not None:
        print(replay(given.target, given.replay))
        return 0
    campaign = fuzz(given.target, given.executions, given.seed, given.engine, noted=given.record)
    print(json.dumps(campaign.summary() | {"seed": given.seed, "engine": given.engine}))
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
