"""Write the corpus of a target: ``python fuzz/keep.py TARGET`` keeps small inputs, one for each outcome that is found.

Inputs that are in the corpus stay; those of outcomes that the seeds have anyway are not kept.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from engine import explore
from outcomes import Tally, execute
from target import CORPUS, kept_inputs, target_named

EXECUTIONS, LARGEST, MOST = 4000, 3000, 24


def main(name: str) -> None:
    """Explore a target and write what is worth keeping."""
    with tempfile.TemporaryDirectory() as folder:
        target, tally = target_named(name, Path(folder)), Tally()
        pool = [*target.seeds(), *kept_inputs(name)]
        for data in pool:
            tally.add(data, execute(target, data))
        found = explore(target, pool, EXECUTIONS, 1, tally)
        target.close()
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    small = [data for data in found if len(data) <= LARGEST]
    for data in small[: MOST - len(kept_inputs(name))]:
        (CORPUS / name / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
    print(f"{name}: {len(kept_inputs(name))} inputs kept")


if __name__ == "__main__":
    main(sys.argv[1])
