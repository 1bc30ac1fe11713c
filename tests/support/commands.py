"""Ways to run ``psimil`` in tests, and a table to run it on."""

import fcntl
import os
import pty
import re
import resource
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.transforms import Bbox
from typer.testing import CliRunner

from psimil.cli.main import app
from psimil.datasets import make_bags

ROOT = Path(__file__).parents[2]
QUICK = ["--n-inducing", "8", "--max-iter", "40"]


@contextmanager
def sketched():
    """Figures are made of their data but neither laid out nor rendered, which takes most of the time of a quick fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "draw_without_rendering", lambda figure: None)
        patch.setattr(Figure, "savefig", lambda figure, stream, **how: stream.write(b"a sketch"))
        patch.setattr(Axis, "get_tightbbox", lambda axis, renderer=None, **how: None)
        patch.setattr(Legend, "get_window_extent", lambda legend, renderer=None: Bbox.unit())
        yield


def call(*arguments, drawn=False):
    """The result of a command in this process; its figures are sketches unless they are to be drawn."""
    with nullcontext() if drawn else sketched():
        return CliRunner().invoke(app, [str(a) for a in arguments])


def process(*arguments, cwd):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "psimil", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)


def terminal(*arguments, cwd, columns=80):
    """Exit code of a command on a terminal of its own, and the lines that it showed there, one after another."""
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "psimil", *map(str, arguments)]
    streams = {"stdin": there, "stdout": there, "stderr": there}
    shown = b""
    with subprocess.Popen(command, cwd=cwd, env=environment, **streams) as child:
        os.close(there)
        try:
            while part := os.read(here, 65536):
                shown += part
        except OSError:  # the command has ended
            pass
        finally:
            os.close(here)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    return child.returncode, [line.rstrip() for line in re.split(r"[\r\n]+", text)]


def times_typer(*arguments, cwd):
    """What a command costs the processor, over what importing typer does: a busy machine makes both slower.

    The least of three runs each.
    """
    library = [sys.executable, "-c", "import typer, rich"]
    tries = {"command": lambda: process(*arguments, cwd=cwd), "typer": lambda: subprocess.run(library, check=False)}
    found = {name: [] for name in tries}
    for name in ("command", "typer") * 3:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = tries[name]()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0
        found[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found["command"]) / min(found["typer"])


def frame_of(seed=0, n_bags=30, shuffled=True):
    bags, y, y_instances = make_bags(n_bags=n_bags, n_features=3, separation=3.0, seed=seed)
    frame = pd.DataFrame(bags.X, columns=["f1", "f2", "f3"])
    frame.insert(0, "bag", [f"b{b:02d}" for b in bags.bag_index])
    frame["label"], frame["instance_label"] = y[bags.bag_index], y_instances
    return frame.sample(frac=1, random_state=seed) if shuffled else frame


def trained(folder, drawn=False):
    """A folder with train.csv, test.csv and the run of a quick fit."""
    frame_of().to_csv(folder / "train.csv", index=False)
    frame_of(seed=1).to_csv(folder / "test.csv", index=False)
    done = call("fit", folder / "train.csv", "--out", folder / "run", *QUICK, drawn=drawn)
    assert done.exit_code == 0, done.output
    return folder


def fails(done, code, *texts):
    assert done.exit_code == code, done.output
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ")
    assert done.stdout == ""
    for text in texts:
        assert text in lines[0]
