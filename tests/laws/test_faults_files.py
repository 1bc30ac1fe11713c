"""Models and checkpoints under F1 to F4: killed writers, disks that fail, lost power, two writers at once."""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from commands import ROOT, frame_of
from faulty_libc import failing
from nursery import digest_and_facts
from psimil import PsiVGPMIL
from psimil.cluster.checkpoint import Checkpoint
from tiny import fitted, problem, quick

FIT = ["fit", "train.csv", "--model", "vgpmil", "--n-inducing", "6", "--max-iter", "8", "--quiet"]
FIT += ["--posterior", "augmented"]  # which takes all of these passes


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Two models and two checkpoints of one fit."""
    folder = tmp_path_factory.mktemp("sources")
    bags, y, _ = problem()
    names = {kind: [folder / f"{kind}-{age}" for age in ("old", "new")] for kind in ("model", "checkpoint")}
    fitted().save(names["model"][0])
    quick(n_inducing=20).fit(bags, y).save(names["model"][1])

    def keep(row):
        if row["stage"] == "fit" and row["iteration"] in (2, 3):  # written after the pass before
            shutil.copy(folder / "c", names["checkpoint"][row["iteration"] - 2])

    quick(chunk_size=40, posterior="augmented").fit(bags, y, checkpoint=folder / "c", callbacks=[keep])
    assert all(len({digest_and_facts(path)[0] for path in pair}) == 2 for pair in names.values())
    return names


def loads(path, kind):
    """Also verifies its checksum."""
    if kind == "model":
        PsiVGPMIL.load(path)
    else:
        Checkpoint(path, digest_and_facts(path)[1]["fit"]).read()
    return True


@pytest.mark.parametrize("kind", ["model", "checkpoint"])
def test_f1_a_killed_writer_leaves_the_old_file_or_the_new_one(nursery, sources, tmp_path, faults, kind):
    path, moment, left = tmp_path / "file", random.Random(kind), 0
    whole = {digest_and_facts(source)[0] for source in sources[kind]}
    shutil.copy(sources[kind][0], path)
    kills = faults.repeats("F1") // 2
    for _ in range(kills):
        with nursery.child("write_without_end", path, *sources[kind], cwd=tmp_path) as child:
            while "ready" not in (nursery.folder / "stdout").read_text():
                time.sleep(0.001)
            time.sleep(moment.uniform(0.0, 0.02))
            os.kill(child.pid, signal.SIGKILL)
        assert child.code == -signal.SIGKILL
        assert digest_and_facts(path)[0] in whole and loads(path, kind)
        stale = set(os.listdir(tmp_path)) - {"file"}
        left += len(stale)
        assert len(stale) <= 1  # the next start has removed what the last one left
    if faults.full:
        assert left > 0  # some kills did fall into a write
    nursery.run("race", path, 1, *sources[kind], cwd=tmp_path)
    assert os.listdir(tmp_path) == ["file"]
    faults.add("F1", kills)


@pytest.fixture(scope="module")
def model(nursery, tmp_path_factory):
    """The model of a fit that nothing happened to."""
    folder = tmp_path_factory.mktemp("model")
    frame_of(n_bags=10).to_csv(folder / "train.csv", index=False)
    done = nursery.run("sketched_command", *FIT, "--out", "run", "--checkpoint", "c", cwd=folder)
    assert done.code == 0, done.stderr
    return (folder / "run" / "model.safetensors").read_bytes()


ERRORS = {
    errno.ENOSPC: "no space left",
    errno.EIO: "input/output error",
    errno.EROFS: "the file system is read-only",
    errno.EDQUOT: "no space left",
}
CALLS = ["write", "fsync", "rename", "open"]


def test_f2_a_disk_that_fails_ends_the_fit_and_keeps_the_checkpoint(nursery, model, tmp_path, faults):
    frame_of(n_bags=10).to_csv(tmp_path / "train.csv", index=False)
    fit = [*FIT, "--out", "run", "--checkpoint", "c"]
    for turn in range(faults.repeats("F2")):
        number, call, passes = list(ERRORS)[turn % 4], CALLS[(turn + turn // 4) % 4], 1 + turn % 5
        done = nursery.run("command", *fit, cwd=tmp_path, **failing(call, number, "c", after=passes))
        assert (done.code, done.stderr) == (74, f"error: cannot write c: {ERRORS[number]} (old file kept).\n"), call
        history = digest_and_facts(tmp_path / "c")[1]["history"]
        assert len([row for row in history if row["stage"] == "fit"]) == passes
        assert sorted(os.listdir(tmp_path)) == ["c", "train.csv"]
        assert loads(tmp_path / "c", "checkpoint")
        faults.add("F2")
        if turn % 5 == 0:
            assert nursery.run("sketched_command", *fit, cwd=tmp_path).code == 0
            assert (tmp_path / "run" / "model.safetensors").read_bytes() == model
            shutil.rmtree(tmp_path / "run")
        (tmp_path / "c").unlink(missing_ok=True)


def test_f2_a_limit_on_the_file_size_keeps_the_old_model(nursery, tmp_path):
    path = tmp_path / "m.safetensors"
    fitted().save(path)
    before = path.read_bytes()
    done = nursery.run("save_with_limit", path, len(before) // 2, cwd=tmp_path)
    assert "OutputError: cannot write m.safetensors: file too large (old file kept)." in done.stderr
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.safetensors"]


CALL = re.compile(r"(fsync|rename)\((.*)\) = 0")


def whole_calls(trace):
    """The lines of strace, calls that another thread interrupted put together again."""
    begun = {}
    for line in re.sub(r" +", " ", trace).splitlines():
        thread = line.split(" ")[0]
        if line.endswith("<unfinished ...>"):
            begun[thread] = line.removesuffix("<unfinished ...>").rstrip()
        elif "<... " in line:
            yield begun.pop(thread, "") + line.split("resumed>", 1)[1]
        else:
            yield line


def test_calls_that_were_interrupted_are_put_together():
    trace = "7 fsync(4</a> <unfinished ...>\n8 +++ exited with 0 +++\n7 <... fsync resumed>) = 0\n"
    assert list(whole_calls(trace)) == ["8 +++ exited with 0 +++", "7 fsync(4</a>) = 0"]


def flushed(trace, target):
    """How often the target was replaced, each time after its bytes and before its folder were flushed, or 0."""
    calls = [match.groups() for match in map(CALL.search, whole_calls(trace)) if match]
    found = [n for n, (call, what) in enumerate(calls) if call == "rename" and what.endswith(f', "{target}"')]
    for n in found:
        temporary = calls[n][1].split('"')[1]
        before, after = calls[n - 1 : n], calls[n + 1 : n + 2]
        if not before or before[0][0] != "fsync" or f"<{temporary}>" not in before[0][1]:
            return 0
        if not after or after[0][0] != "fsync" or f"<{target.parent}>" not in after[0][1]:
            return 0
    return len(found)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_f3_bytes_then_name_then_folder_reach_the_disk(tmp_path, faults):
    frame_of(n_bags=10).to_csv(tmp_path / "train.csv", index=False)
    trace = ["strace", "-f", "-y", "-e", "trace=fsync,rename", "-o", "trace", sys.executable, "-m", "psimil"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run(
        [*trace, *FIT, "--out", "run", "--checkpoint", "c"], cwd=tmp_path, env=environment, check=True, timeout=600
    )
    text = (tmp_path / "trace").read_text()
    assert flushed(text, tmp_path / "c") == 8
    without = "\n".join(line for line in text.splitlines() if f"<{tmp_path}>" not in line)
    assert flushed(without, tmp_path / "c") == 0  # a trace without the folder is noticed
    assert flushed(re.sub(r"fsync\(.*\.tmp>\)", "", text), tmp_path / "c") == 0
    faults.add("F3")


@pytest.mark.parametrize("kind", ["model", "checkpoint"])
def test_f4_of_two_writers_at_once_one_wins(nursery, sources, tmp_path, faults, kind):
    turns = faults.repeats("F4") // 2
    done = nursery.run("race", tmp_path / "file", turns, *sources[kind], cwd=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.code == 0 and len(lines) == turns, done.stderr
    assert all(codes == [0, 0] and left == ["file"] for codes, _, left in lines)
    if faults.full:
        assert {winner for _, winner, _ in lines} == {0, 1}
    faults.add("F4", turns)
