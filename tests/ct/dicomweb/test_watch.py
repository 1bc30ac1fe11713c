"""New studies of a real archive, Orthanc: each reported once, through refused, cut, slow and half answers and kills."""

import io
import os
import signal
import time
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("pydicom")

from pydicom import dcmread

from ct_files import uid_of, write_series
from faulty_proxy import FaultyProxy
from orthanc import orthanc, why_not
from psimil.ct.dicomweb.archive import Archive, Instance
from psimil.ct.dicomweb.journal import FAILED, FOUND, REFUSED, REPORTED, Entry, opened
from psimil.ct.dicomweb.watch import TRIES
from psimil.foundations.errors import InputError, OutputError, ServerFault
from watched import HASHER, count_slices, watch_of

needs_orthanc = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SLICES = 3
REQUESTS = (
    10  # for a new study: two lists of studies, two of images, the images, two questions for the report, the report
)
KINDS = ("kill", "cut request", "refused", "half a study", "cut answer", "slow", "lost answer")
TIMEOUT = 1.0  # a report whose answer comes later than that, and by itself, would be sent again


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "orthanc").mkdir()
    with orthanc(tmp_path / "orthanc") as archive:
        yield archive


@pytest.fixture
def proxy(archive):
    proxy = FaultyProxy(archive.port, np.random.default_rng(0), delay=1.5 * TIMEOUT)
    yield proxy
    proxy.close()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "watch"


def study(folder, name, n=SLICES, **tags):
    return write_series(folder / name, n, size=16, study=name, **tags)


def state(journal, name):
    return journal.entry(HASHER(uid_of(name))).state


def contents(archive):
    """By study, how many slices each of its reports is about."""
    reports = archive.reports()
    return {study: [int(dcmread(io.BytesIO(r)).InstanceNumber) for r in found] for study, found in reports.items()}


def stored(proxy):
    """How often each report was sent and taken."""
    return Counter(request for line, answer, request in proxy.asked if line.startswith("POST") and b" 200" in answer)


# Faults between the watch and the archive


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


# What becomes of a study


@needs_orthanc
def test_a_study_is_read_when_it_has_come_whole(archive, folder, tmp_path):
    files = study(tmp_path, "a", 4)
    with opened(folder, "model") as journal:

        def growing(images, results):
            raise AssertionError("half of a study was read")

        watch = watch_of(archive.url, folder, journal, growing)
        for file in files:
            archive.upload(file)
            watch.look()
        assert not journal.entries()[0].settled
    assert contents(archive) == {uid_of("a"): []}


@needs_orthanc
def test_a_study_that_grows_while_it_is_fetched_waits(archive, proxy, folder, tmp_path):
    files = study(tmp_path, "a", 4)
    archive.upload(*files[:3])
    with opened(folder, "model") as journal:
        watch = watch_of(proxy.url, folder, journal)
        watch.look()
        proxy.arm(3, "hook", lambda: archive.upload(files[3]))  # while its second image is on its way
        watch.look()
        assert "still arriving" in journal.entries()[0].reason
        watch.look()
        watch.look()
    assert contents(archive) == {uid_of("a"): [4]}


@needs_orthanc
def test_a_study_that_grows_after_its_report_gets_another(archive, folder, tmp_path):
    files = study(tmp_path, "a", 4)
    archive.upload(*files[:3])
    with opened(folder, "model") as journal:
        watch = watch_of(archive.url, folder, journal)
        for _ in range(4):  # the last ones see the report, which is no image
            watch.look()
        archive.upload(files[3])
        for _ in range(4):
            watch.look()
        assert state(journal, "a") == REPORTED and all(entry.settled for entry in journal.entries())
    assert sorted(contents(archive)[uid_of("a")]) == [3, 4]


@needs_orthanc
def test_a_study_that_goes_and_comes_back_is_reported_again(archive, folder, tmp_path):
    files = study(tmp_path, "back")
    archive.upload(*files)
    with opened(folder, "model") as journal:
        watch = watch_of(archive.url, folder, journal)
        for _ in range(3):
            watch.look()
        archive.delete(uid_of("back"))
        watch.look()
        archive.upload(*files)
        for _ in range(3):
            watch.look()
        assert state(journal, "back") == REPORTED
    assert contents(archive) == {uid_of("back"): [SLICES]}


@needs_orthanc
def test_a_study_that_is_deleted_while_it_is_read_is_not_refused(archive, folder, tmp_path, monkeypatch):
    files = study(tmp_path, "lost")
    archive.upload(*files)
    with opened(folder, "model") as journal:
        watch = watch_of(archive.url, folder, journal)
        watch.look()
        listed = watch.archive.studies()
        archive.delete(uid_of("lost"))
        with monkeypatch.context() as patch:
            patch.setattr(Archive, "studies", lambda _: listed)
            watch.look()
        assert state(journal, "lost") != REFUSED
        archive.upload(*files)
        for _ in range(3):
            watch.look()
        assert state(journal, "lost") == REPORTED
    assert contents(archive) == {uid_of("lost"): [SLICES]}


@needs_orthanc
def test_what_cannot_be_analysed_is_written_down_and_the_others_go_on(archive, folder, tmp_path):
    told = []

    def predict(images, results):
        if len(list(images.iterdir())) == 1:
            raise InputError("one slice is no scan.")
        count_slices(images, results)

    archive.upload(*study(tmp_path, "one", 1), *study(tmp_path, "many"))
    with opened(folder, "model") as journal:
        watch = watch_of(archive.url, folder, journal, predict, tell=told.append)
        for _ in range(4):
            watch.look()
        assert journal.entry(HASHER(uid_of("one"))).reason == "one slice is no scan."
    assert {(entry.state, entry.id) for entry in told} == {
        (REFUSED, HASHER(uid_of("one"))),
        (REPORTED, HASHER(uid_of("many"))),
    }
    assert len(told) == 2
    assert contents(archive) == {uid_of("one"): [], uid_of("many"): [SLICES]}


@needs_orthanc
@pytest.mark.parametrize("error", [MemoryError("Canary"), OSError(28, "Canary"), ServerFault("it is gone.")])
def test_tries_are_bounded_and_take_turns(archive, folder, tmp_path, error):
    tried = []

    def predict(images, results):
        tried.append(len(list(images.iterdir())))
        if tried[-1] == 2:
            raise error
        count_slices(images, results)

    archive.upload(*study(tmp_path, "bad", 2))
    with opened(folder, "model") as journal:
        watch = watch_of(archive.url, folder, journal, predict)
        watch.look()
        watch.look()
        archive.upload(*study(tmp_path, "good"))
        for _ in range(TRIES + 2):
            watch.look()
        bad = journal.entry(HASHER(uid_of("bad")))
        assert (bad.state, state(journal, "good")) == (FAILED, REPORTED)
        assert "Canary" not in bad.reason and bad.reason
    assert tried.count(2) == TRIES and tried.count(SLICES) == 1


@needs_orthanc
def test_a_study_whose_server_fails_is_left_in_peace_for_longer_each_time(archive, folder, tmp_path, monkeypatch):
    def predict(images, results):
        raise ServerFault("it is gone.")

    archive.upload(*study(tmp_path, "a"))
    with opened(folder, "model") as journal:
        watch = watch_of(archive.url, folder, journal, predict)
        now, pauses = time.time(), []
        monkeypatch.setattr("psimil.ct.dicomweb.watch.time.time", lambda: now)
        for _ in range(9):
            watch.look(60.0)
            pauses.append(journal.entries()[0].due - now)
            now += max(pauses[-1], 0.0)
    assert pauses[1:] == pytest.approx([120, 240, 480, 960, 1920, 3600, 3600, 3600])


def test_a_kill_counts_as_a_try(folder):
    """So that a study which takes all memory cannot end every process for ever."""

    class Archive:
        def studies(self):
            return {"1.2": 1}

        def instances(self, study):
            return [Instance(study, "1.2.3", "1.2.3.4")]

        def fetch(self, instance, path, limit):
            return 0

    def predict(images, results):
        raise KeyboardInterrupt

    with opened(folder, "model") as journal:
        watch = watch_of("http://localhost", folder, journal, predict)
        object.__setattr__(watch, "archive", Archive())
        watch.look()
        for tries in (1, 2):
            with pytest.raises(KeyboardInterrupt):
                watch.look()
            assert journal.entries() == [Entry(HASHER("1.2"), FOUND, 1, False, HASHER("1.2.3.4"), tries)]
            assert not (folder / "incoming").exists()


# The journal


def test_a_folder_has_the_journal_of_one_model_and_one_process(folder):
    with opened(folder, "a") as journal:
        journal.write(Entry("1"))
        with pytest.raises(OutputError, match="another command is writing"), opened(folder, "a"):
            pass
    with pytest.raises(OutputError, match="another model"), opened(folder, "b"):
        pass
    with opened(folder, "a") as journal:
        assert journal.entries() == [Entry("1")]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_something_else_is_refused(folder):
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="not of a watch"), opened(folder, "a"):
        pass
    (folder / "journal.sqlite").write_text("this is not what it says" * 100)
    with pytest.raises(OutputError, match=r"journal\.sqlite"), opened(folder, "a"):
        pass
