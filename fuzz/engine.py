"""Two ways to make inputs: plain mutation in this process, and atheris, which is led by coverage."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

from mutator import changed_bytes
from outcomes import Tally, execute
from target import MAX_BYTES, Target

Note = Callable[[int, bytes], None]
SPLICED = 5  # one in so many inputs takes a piece of another one


def explore(
    target: Target, pool: list[bytes], executions: int, seed: int, tally: Tally, note: Note | None = None
) -> list[bytes]:
    """Run a target on changed inputs; those with a new outcome join the pool, and are returned.

    Parameters
    ----------
    pool : inputs to start from; it grows.
    executions : how many inputs are tried.
    tally : takes what came of them.
    note : called with the number and the input before each execution.
    """
    rng, found = Random(seed), []
    for number in range(executions):
        data = changed(target, rng.choice(pool), rng, pool)
        if note is not None:
            note(number, data)
        if tally.add(data, execute(target, data)):
            pool.append(data)
            found.append(data)
    return found


def changed(target: Target, data: bytes, rng: Random, pool: list[bytes]) -> bytes:
    """Another input: changed as its format asks, now and then with a piece of another one."""
    if rng.randrange(SPLICED):
        try:
            return target.change(data, rng)
        except Exception:  # what was changed before may no longer be of the format; atheris would wait for ever
            pass
    return changed_bytes(data, rng, target.words, rng.choice(pool))


def explore_with_atheris(
    load: Callable[[], Target], corpus: Path, executions: int, seed: int, note: Note, finish: Callable[[Tally], None]
) -> None:
    """Run a target under atheris, which keeps inputs that reach new lines in ``corpus``; the process ends with it.

    Parameters
    ----------
    load : imports psimil and gives the target; what it imports is instrumented.
    finish : called at the end with what came of the executions.
    """
    import atheris

    with atheris.instrument_imports(include=["psimil"], enable_loader_override=False):
        target = load()
    for data in target.seeds():  # what is imported late is not counted as slow
        execute(target, data)
    tally, pool = Tally(), [path.read_bytes() for path in sorted(corpus.iterdir())[:200]]

    def once(data: bytes) -> None:
        note(tally.executions, data)
        tally.add(data, execute(target, data))
        if tally.executions >= executions:
            finish(tally)
            sys.stdout.flush()
            os._exit(0)  # atheris has no other way to end early

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng = Random(seed)
        if not rng.randrange(4):
            return bytes(atheris.Mutate(data, max_size))
        return changed(target, data, rng, pool)[:max_size]

    options = [f"-seed={seed or 1}", f"-max_len={MAX_BYTES}", "-timeout=1000000", "-rss_limit_mb=0", "-verbosity=0"]
    options += [
        "-detect_leaks=0",
        f"-artifact_prefix={corpus.parent}/",
        "-len_control=0",
        "-reload=0",
        "-mutate_depth=2",
    ]
    atheris.Setup([sys.argv[0], str(corpus), *options], once, custom_mutator=mutate)
    atheris.Fuzz()
