"""One batch of executions in a process of its own; ``run.py`` starts it.

``python fuzz/batch.py TARGET ENGINE EXECUTIONS SEED FOLDER`` leaves its tally in FOLDER.
"""

from __future__ import annotations

import base64
import faulthandler
import hashlib
import json
import resource
import signal
import sys
from pathlib import Path

from engine import explore, explore_with_atheris
from flight import Flight
from outcomes import Tally, execute, limited
from target import Target, kept_inputs, target_named

WARM = 200  # executions after which the size of the process is taken as its beginning


def main(name: str, engine: str, executions: int, seed: int, folder: Path) -> None:
    """Run one batch."""
    faulthandler.register(signal.SIGUSR1)  # run.py asks where a batch that does not go on is
    corpus = folder / "corpus"
    with limited(), Flight(folder / "flight") as flight:
        begun: list[int] = []

        def note(number: int, data: bytes) -> None:
            if number == WARM:
                begun.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
            flight.note(number, data)

        def finish(tally: Tally) -> None:
            growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun[0]) << 10 if begun else 0
            inputs = {kind: [base64.b64encode(data).decode() for data in kept] for kind, kept in tally.failures.items()}
            text = json.dumps(tally.summary() | {"growth_bytes": growth, "inputs": inputs})
            (folder / "tally.json").write_text(text, encoding="utf-8")

        def load() -> Target:
            return target_named(name, folder)

        if engine == "atheris":
            explore_with_atheris(load, corpus, executions, seed, note, finish)
        target, tally = load(), Tally()
        pool = [*target.seeds(), *kept_inputs(name), *(path.read_bytes() for path in sorted(corpus.iterdir()))]
        for data in pool:
            tally.add(data, execute(target, data))
        for data in explore(target, pool, executions - len(pool), seed, tally, note):
            (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        finish(tally)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
