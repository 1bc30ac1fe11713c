"""Refused, cut, slow and half answers and kills between the watch and Orthanc: no study lost, none sent twice."""

import os
import signal
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pydicom")

from ct_files import uid_of
from orthanc import why_not
from psimil.ct.dicomweb.journal import REPORTED, opened
from watched import SLICES, TIMEOUT, contents, state, study, watch_of

needs_orthanc = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
REQUESTS = 10  # of a new study: two lists of studies, two of images, three images, two questions, and the report
KINDS = ("kill", "cut request", "refused", "half a study", "cut answer", "slow", "lost answer")


def stored(proxy):
    """How often each report was sent and taken."""
    return Counter(request for line, answer, request in proxy.asked if line.startswith("POST") and b" 200" in answer)


def suffer(archive, proxy, nursery, tmp_path, kinds):
    """One new study per fault, which comes at any of its requests; how many faults there were."""
    rng, count = np.random.default_rng(len(kinds)), 0
    for number, kind in enumerate(kinds):
        files = study(tmp_path / "files", f"study {number}")
        archive.upload(*(files[:1] if kind == "half a study" else files))
        arguments, pid = (proxy.url, tmp_path / "watch", number + 1, TIMEOUT), []
        if kind == "half a study":  # the rest comes between the first list of studies and that of its images
            proxy.arm(int(rng.integers(2)), "hook", lambda files=files: archive.upload(*files[1:]))
        elif kind == "kill":
            proxy.arm(int(rng.integers(REQUESTS)), "hook", lambda pid=pid: kill(pid))
        else:
            proxy.arm(int(rng.integers(REQUESTS)), kind)
        with nursery.child("watched", *arguments, cwd=tmp_path) as child:
            pid.append(child.pid)
        assert proxy.fired
        count += 1
        if kind == "kill":
            assert child.code == -signal.SIGKILL, child.stderr
            child = nursery.run("watched", *arguments, cwd=tmp_path)
        assert child.code == 0, child.stderr
        assert not (tmp_path / "watch" / "incoming").exists()
    assert contents(archive) == {uid_of(f"study {number}"): [SLICES] for number in range(len(kinds))}
    assert set(stored(proxy).values()) == {1}
    assert sum(stored(proxy).values()) == len(kinds)
    return count


def kill(pid):
    while not pid:
        time.sleep(0.001)
    os.kill(pid[0], signal.SIGKILL)


@needs_orthanc
def test_f20_a_handful_of_faults_lose_no_study_and_send_none_twice(archive, proxy, nursery, tmp_path, faults):
    faults.add("F20", suffer(archive, proxy, nursery, tmp_path, KINDS))


@needs_orthanc
@pytest.mark.slow
def test_f20_fifty_faults_lose_no_study_and_send_none_twice(archive, proxy, nursery, tmp_path, faults):
    faults.add("F20", suffer(archive, proxy, nursery, tmp_path, (KINDS * 8)[:50]))


@needs_orthanc
def test_a_report_whose_answer_is_lost_is_not_sent_again(archive, proxy, folder, tmp_path):
    archive.upload(*study(tmp_path, "a"))
    with opened(folder, "model") as journal:
        watch = watch_of(proxy.url, folder, journal)
        proxy.arm(REQUESTS - 2, "lost answer")
        watch.look()
        watch.look()
        assert proxy.asked[-1][0].startswith("POST") and state(journal, "a") == "predicted"
        watch.look()  # the study has a file more, the report
        watch.look()
        assert state(journal, "a") == REPORTED
    assert list(stored(proxy).values()) == [1] and contents(archive) == {uid_of("a"): [SLICES]}
