"""What becomes of the studies of a real archive, Orthanc: each is reported once, or it is written down why not."""

import time

import pytest

pytest.importorskip("pydicom")


from ct_files import uid_of
from orthanc import why_not
from psimil.ct.dicomweb.archive import Archive, Instance
from psimil.ct.dicomweb.journal import FAILED, FOUND, REFUSED, REPORTED, Entry, opened
from psimil.ct.dicomweb.watch import TRIES
from psimil.foundations.errors import InputError, ServerFault
from watched import HASHER, SLICES, contents, count_slices, state, study, watch_of

needs_orthanc = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


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
