"""Run directories: what killed runs left is cleared away, what others still write is not."""

import os

import pytest

from psimil.files.rundir import opened


def left_behind(path, age):
    """The folder of a run that was killed ``age`` seconds ago."""
    path.mkdir(parents=True)
    (path / "model.safetensors").write_bytes(b"half")
    when = path.stat().st_mtime - age
    os.utime(path, (when, when))
    return path


@pytest.mark.parametrize(("age", "stays"), [(60.0, False), (0.0, True)])
def test_what_a_killed_run_left_goes_at_the_next_start(tmp_path, age, stays):
    left = left_behind(tmp_path / "run" / ".psimil-run-0123.tmp", age)
    with opened(tmp_path / "run") as run:
        assert left.exists() == stays
        run.start({})
        run.finish()
    assert (tmp_path / "run" / "environment.json").is_file()


def test_what_another_run_still_writes_stays(tmp_path):
    with opened(tmp_path / "run") as first:
        first.write_text("summary.md", "first")
        os.utime(first.aside, (1.0, 1.0))
        with opened(tmp_path / "run") as second:
            second.start({})
            second.finish()
        assert first.file("summary.md").read_text() == "first"


def test_only_folders_of_runs_are_cleared_away(tmp_path):
    target = left_behind(tmp_path / "elsewhere", 60.0)
    (tmp_path / "run").mkdir()
    link = tmp_path / "run" / ".psimil-run-4567.tmp"
    link.symlink_to(target)
    with opened(tmp_path / "run"):
        assert link.is_symlink() and (target / "model.safetensors").exists()
