"""A process that has imported psimil once and forks a child for every order: faults without the wait for a start.

Tests use :class:`Nursery`; the functions under ``TASKS`` run in the children.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


class Nursery:
    """The process, as tests see it.

    Parameters
    ----------
    folder : for what children print.
    environment : more variables for the process, such as LD_PRELOAD.
    """

    def __init__(self, folder, **environment):
        self.folder = Path(folder)
        path = os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE)])
        single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "nursery.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **single, "PYTHONPATH": path, **environment},
        )
        assert self.process.stdout.readline() == "ready\n"

    def close(self):
        with self.process:
            self.process.stdin.close()
            try:
                assert self.process.wait(600) == 0
            finally:
                self.process.kill()

    @contextmanager
    def child(self, task, *arguments, cwd, **environment):
        """A child at work; after the block it has ended, and :class:`Child` says how."""
        for stream in ("stdout", "stderr"):
            (self.folder / stream).write_text("")
        order = {"task": task, "arguments": [str(a) for a in arguments], "cwd": str(cwd), "environment": environment}
        self.process.stdin.write(json.dumps({**order, "folder": str(self.folder)}) + "\n")
        self.process.stdin.flush()
        found = Child(int(self.process.stdout.readline()))
        try:
            yield found
        except BaseException:
            os.kill(found.pid, signal.SIGKILL)
            raise
        found.code = int(self.process.stdout.readline())
        found.stdout, found.stderr = ((self.folder / stream).read_text() for stream in ("stdout", "stderr"))

    def run(self, task, *arguments, cwd, **environment):
        """A child that was left alone."""
        with self.child(task, *arguments, cwd=cwd, **environment) as found:
            pass
        return found


@dataclass
class Child:
    pid: int
    code: int | None = None
    stdout: str = ""
    stderr: str = ""


def command(*arguments):
    """The command line of psimil."""
    from psimil.cli.main import main

    main(arguments)


def sketched_command(*arguments):
    """The same, with figures that are neither laid out nor rendered."""
    from commands import sketched

    with sketched():
        command(*arguments)


def digest_and_facts(path):
    """What a model or checkpoint says about itself: the digest of its content, and the rest."""
    data = Path(path).read_bytes()
    metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    return metadata["sha256"], json.loads(metadata["psimil"])


def writer(path):
    """What writes the model or the checkpoint of a file to another file."""
    from psimil import PsiVGPMIL
    from psimil.cluster.checkpoint import Checkpoint

    facts = digest_and_facts(path)[1]
    if "fit" not in facts:
        return PsiVGPMIL.load(path).save
    progress = Checkpoint(Path(path), facts["fit"]).read()
    return lambda target: Checkpoint(Path(target), facts["fit"]).write(progress)


def write_without_end(target, *sources):
    """One source after the other in place of the target."""
    writers = [writer(source) for source in sources]
    print("ready", flush=True)
    while True:
        for write in writers:
            write(target)


def race(target, turns, *sources):
    """Two processes write the target at the same time, again and again; a line on what is there after each turn."""
    writers = [writer(source) for source in sources]
    for _ in range(int(turns)):
        gate, opened = os.pipe()
        racers = []
        for write in writers:
            racers.append(os.fork())
            if racers[-1] == 0:
                code = 1
                try:
                    os.close(opened)
                    os.read(gate, 1)
                    write(target)
                    code = 0
                finally:
                    os._exit(code)
        os.close(gate)
        os.close(opened)
        codes = [os.waitstatus_to_exitcode(os.waitpid(racer, 0)[1]) for racer in racers]
        winner = [digest_and_facts(source)[0] for source in sources].index(digest_and_facts(target)[0])
        print(json.dumps([codes, winner, sorted(os.listdir(Path(target).parent))]), flush=True)


def save_with_limit(path, size):
    """Save a model where files may not be longer."""
    write = writer(path)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size),) * 2)
    write(path)


def watched(*arguments):
    """Looks at an archive until nothing waits."""
    from watched import watch_until_settled

    watch_until_settled(*arguments)


TASKS = {task.__name__: task for task in (command, sketched_command, write_without_end, race, save_with_limit, watched)}


def obey(order):
    """The exit code of an order, as if it had been a program."""
    for number, stream in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(os.path.join(order["folder"], stream), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(order["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(order["environment"])
    code = 0
    try:
        # as the bytes of a command line arrive, whatever this process takes for its encoding
        TASKS[order["task"]](*(os.fsdecode(a.encode("utf-8", "surrogateescape")) for a in order["arguments"]))
    except SystemExit as stop:
        code = stop.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def serve():
    import matplotlib.pyplot  # noqa: F401
    import pyarrow  # noqa: F401

    import commands  # noqa: F401
    import psimil.cli.config
    import psimil.cli.fitted
    import psimil.cli.score_tables
    import psimil.cluster.checkpoint
    import psimil.estimators.psi_vgpmil
    import psimil.files.rundir
    import psimil.store  # noqa: F401

    with suppress(ImportError):  # without the packages of psimil[ct]
        import watched  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(obey(json.loads(line)))
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
