"""What readers say reaches feedback.csv whole, and nothing else."""

import os
import stat
import threading

import pytest

from psimil.foundations.errors import InputError
from psimil.results.feedback import Feedback, read_feedback, write_feedback
from psimil.viewer import feedback_store
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.state import ViewerState
from viewed import Browser, feature_results, viewed_of

IDS = [f"=patient {n}" for n in range(30)]


@pytest.fixture
def client(tmp_path):
    return Browser(ViewerState(feature_results(ids=IDS), FeedbackStore(tmp_path)))


def tell(client, **body):
    return client.post("/api/feedback", json={"bag": client.viewed.keys[3], **body})


def test_an_entry_is_stored_and_shown(client, tmp_path):
    found = client.viewed.results.prediction
    answer = tell(client, instance=1, verdict="disagree", note="=artefact\nof motion")
    assert answer.status_code == 200
    kept = answer.json()
    called = int(found.instance_prob[client.viewed.results.instances_of(3).start + 1] >= found.instance_threshold)
    assert kept["called"] == called and kept["known"] == 1 - called and kept["note"] == "=artefact\nof motion"
    (entry,) = read_feedback(tmp_path / "feedback.csv")
    seen = {one.name: one.value for one in client.viewed.results.effects_of(3, 1)}
    assert entry == Feedback(IDS[3], 1, "disagree", "=artefact\nof motion", called, kept["when"], seen)
    shown = client.get(f"/api/bags/{client.viewed.keys[3]}").json()["instances"][1]["telling"]
    assert len(seen) > 0 and {one["name"]: one["value"] for one in shown} == pytest.approx(seen)
    assert stat.S_IMODE((tmp_path / "feedback.csv").stat().st_mode) == 0o600
    assert "'=artefact" in (tmp_path / "feedback.csv").read_text()
    bag = client.get(f"/api/bags/{client.viewed.keys[3]}").json()
    assert (bag["instances"][1]["verdict"], bag["instances"][1]["note"]) == ("disagree", "=artefact\nof motion")
    assert (bag["verdict"], bag["n_notes"], bag["instances"][0]["verdict"]) == (None, 1, None)


def test_a_verdict_on_another_models_call_keeps_the_label_that_was_given(tmp_path):
    results = feature_results(ids=IDS)
    called = int(results.prediction.label[3]), int(results.prediction.instance_label[results.instances_of(3).start])
    write_feedback(tmp_path / "feedback.csv", [
        Feedback(IDS[3], None, "agree", "", 1 - called[0], "2026-01-02T03:04:05Z"),
        Feedback(IDS[3], 0, "disagree", "", 1 - called[1], "2026-01-02T03:04:05Z"),
    ])  # fmt: skip
    client = Browser(ViewerState(results, FeedbackStore(tmp_path)))
    bag = client.get(f"/api/bags/{client.viewed.keys[3]}").json()
    assert (bag["verdict"], bag["instances"][0]["verdict"]) == ("disagree", "agree")


def test_a_whole_number_may_be_written_as_a_fraction(client):
    assert tell(client, instance=1.0, verdict="agree").json()["instance"] == 1


def test_the_bag_is_meant_without_an_instance(client, tmp_path):
    found = client.viewed.results.prediction
    assert tell(client, verdict="agree").json()["known"] == int(found.label[3])
    assert read_feedback(tmp_path / "feedback.csv")[0].instance is None


def test_newer_words_replace_older_ones_and_none_take_them_away(client, tmp_path):
    tell(client, verdict="agree", note="first")
    tell(client, verdict="disagree", note="second")
    assert [entry.note for entry in read_feedback(tmp_path / "feedback.csv")] == ["second"]
    tell(client, verdict=None, note="")
    assert read_feedback(tmp_path / "feedback.csv") == ()
    assert client.get(f"/api/bags/{client.viewed.keys[3]}").json()["verdict"] is None


def test_feedback_is_there_at_the_next_start(client, tmp_path):
    tell(client, instance=0, verdict="disagree", note="look again")
    again = Browser(ViewerState(client.viewed.results, FeedbackStore(tmp_path)))
    assert again.get(f"/api/bags/{again.viewed.keys[3]}").json()["instances"][0]["note"] == "look again"


def test_feedback_about_bags_of_another_run_is_kept(client, tmp_path):
    FeedbackStore(tmp_path).record(Feedback("elsewhere", None, "agree", "", 1, "2026-01-02T03:04:05Z"))
    tell(client, verdict="agree")
    assert [entry.bag for entry in read_feedback(tmp_path / "feedback.csv")] == ["elsewhere", IDS[3]]


def test_control_characters_are_left_out(client):
    kept = tell(client, note="a\x00b\x1b[31m\u0085\r\nc\t").json()
    assert kept["note"] == "ab[31m\nc"


@pytest.mark.parametrize(
    "body",
    [
        {"note": "x" * 2001},
        {"note": None},
        {"verdict": "maybe"},
        {"instance": -1},
        {"instance": "a"},
        {"instance": 1.5},
        {"instance": False},
        {"instance": "1"},
        {"instance": 10**30},
        {"bag": "../../../etc"},
        {"bag": None},
        {"more": 1},
    ],
)
def test_what_is_not_valid_is_not_stored(client, body, tmp_path):
    answer = tell(client, **body)
    assert answer.status_code == 422 and set(answer.json()) == {"error"}
    assert not (tmp_path / "feedback.csv").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '"x"', '{"bag": NaN}', "\x00", '{"note": "\ud800"}'])
def test_what_is_not_an_object_is_not_stored(client, content, tmp_path):
    data = content.encode("utf-8", "surrogatepass")
    answer = client.post("/api/feedback", content=data, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422) and set(answer.json()) == {"error"}
    assert not (tmp_path / "feedback.csv").exists()


def test_unknown_bags_and_instances_are_404(client):
    assert tell(client, bag="AAAAAAAAAAAA").status_code == 404
    assert tell(client, instance=999_999).status_code == 404


def test_a_folder_that_cannot_be_written_is_a_conflict(client, tmp_path, monkeypatch):
    tell(client, verdict="agree", note="kept")
    before = (tmp_path / "feedback.csv").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    answer = tell(client, verdict="disagree")
    assert answer.status_code == 409
    assert answer.json() == {"error": "cannot write feedback.csv: no space left (old file kept)."}
    monkeypatch.undo()
    assert (tmp_path / "feedback.csv").read_bytes() == before
    assert client.get(f"/api/bags/{client.viewed.keys[3]}").json()["verdict"] == "agree"


def test_a_file_that_became_unreadable_is_never_replaced(client, tmp_path):
    (tmp_path / "feedback.csv").write_text("my own notes")
    assert tell(client, verdict="agree").status_code == 409
    assert (tmp_path / "feedback.csv").read_text() == "my own notes"
    with pytest.raises(InputError, match="must have the columns"):
        FeedbackStore(tmp_path)


def test_a_link_is_not_followed(client, tmp_path):
    (tmp_path / "other").write_text("")
    (tmp_path / "feedback.csv").symlink_to(tmp_path / "other")
    assert tell(client, verdict="agree").status_code == 409
    assert (tmp_path / "other").read_text() == ""


def test_there_is_a_limit(client, monkeypatch):
    monkeypatch.setattr(feedback_store, "MAX_ENTRIES", 2)
    assert [tell(client, instance=n, verdict="agree").status_code for n in range(3)] == [200, 200, 409]


def test_many_readers_at_once_lose_nothing(tmp_path):
    store = FeedbackStore(tmp_path)

    def write(bag):
        for instance in range(5):
            store.record(Feedback(bag, instance, "agree", "", 1, "2026-01-02T03:04:05Z"))

    threads = [threading.Thread(target=write, args=(f"b{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {(entry.bag, entry.instance) for entry in read_feedback(tmp_path / "feedback.csv")}
    assert found == {(f"b{n}", i) for n in range(6) for i in range(5)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["feedback.csv"]


def test_two_viewers_of_one_folder_share_their_feedback(tmp_path):
    first, second = (Browser(viewed_of("features", tmp_path)) for _ in range(2))
    tell(first, verdict="agree")
    tell(second, instance=0, verdict="disagree")
    assert len(read_feedback(tmp_path / "feedback.csv")) == 2


def recorder(directory, number, gate):
    """A viewer in a process of its own, which records 60 entries."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store = FeedbackStore(directory)
            os.read(gate, 1)
            for n in range(60):
                store.record(Feedback(f"{number}-{n}", None, "agree", "", 1, "2026-01-02T03:04:05Z"))
            code = 0
        finally:
            os._exit(code)
    return child


def test_f17_two_viewers_of_one_folder_lose_nothing(tmp_path, faults):
    for turn in range(faults.repeats("F17")):
        directory = tmp_path / str(turn)
        directory.mkdir()
        gate, start = os.pipe()
        children = [recorder(directory, number, gate) for number in range(2)]
        os.write(start, b"go")
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        os.close(gate)
        os.close(start)
        assert codes == [0, 0]
        kept = {entry.bag for entry in read_feedback(directory / "feedback.csv")}
        assert kept == {f"{number}-{n}" for number in range(2) for n in range(60)}
        assert os.listdir(directory) == ["feedback.csv"]
        faults.add("F17")


def test_results_that_were_replaced_take_no_feedback(tmp_path):
    path, entry = tmp_path / "results.safetensors", Feedback("a", None, "agree", "", 1, "2026-01-02T03:04:05Z")
    path.write_bytes(b"old")
    store = FeedbackStore(tmp_path)
    store.record(entry)
    (tmp_path / "new").write_bytes(b"new")
    os.replace(tmp_path / "new", path)
    with pytest.raises(InputError, match="Start psimil view again"):
        store.record(Feedback("b", None, "agree", "", 1, "2026-01-02T03:04:05Z"))
    assert [kept.bag for kept in read_feedback(tmp_path / "feedback.csv")] == ["a"]


def test_feedback_waits_for_a_run_that_replaces_the_folder(tmp_path):
    """Its file is carried over whole, however the two are timed."""
    from psimil.files.paths import lock_folder

    lock = lock_folder(tmp_path)
    done = threading.Event()

    def record():
        FeedbackStore(tmp_path).record(Feedback("a", None, "agree", "", 1, "2026-01-02T03:04:05Z"))
        done.set()

    thread = threading.Thread(target=record)
    thread.start()
    assert not done.wait(0.05) and not (tmp_path / "feedback.csv").exists()
    os.close(lock)
    thread.join()
    assert done.is_set() and len(read_feedback(tmp_path / "feedback.csv")) == 1
