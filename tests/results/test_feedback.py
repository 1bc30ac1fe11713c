"""feedback.csv: what is written is read back, what is damaged is refused, and a fit learns from it."""

import json
import os
import stat

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import QUICK, call, fails, frame_of
from psimil import PsiVGPMIL
from psimil.data.bagtable import BagTable
from psimil.foundations.errors import DataWarning, InputError, MissingFile, OutputError
from psimil.model.bags import Bags
from psimil.results.feedback import COLUMNS, Feedback, read_feedback, with_feedback, write_feedback

WHEN = "2026-01-02T03:04:05Z"
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "'=1", "'", "''x"]
TEXT = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=30)


def said(bag="a", instance=None, verdict="agree", note="", called=1):
    return Feedback(bag, instance, verdict, note, called, WHEN)


@given(
    entries=st.lists(
        st.builds(
            Feedback, TEXT.filter(bool), st.none() | st.integers(0, 10**6),
            st.sampled_from(["agree", "disagree", None]),
            TEXT | st.sampled_from(["two\nlines", 'quote " and , comma', *FORMULAS]),
            st.integers(0, 1), st.just(WHEN), st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False)),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_entries_are_read_back_as_they_were(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("feedback") / "feedback.csv"
    write_feedback(path, entries)
    assert list(read_feedback(path)) == entries


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_is_a_formula(tmp_path, text):
    path = tmp_path / "feedback.csv"
    write_feedback(path, [said(bag=text, note=text)])
    row = pd.read_csv(path, dtype=str, keep_default_na=False).iloc[0]
    assert row["bag"] == row["note"] == f"'{text}"
    assert read_feedback(path)[0].note == text


def test_the_owner_alone_can_read_it(tmp_path):
    path = tmp_path / "feedback.csv"
    for _ in range(2):
        write_feedback(path, [said()])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o644)
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)


def test_known_follows_from_what_was_called():
    assert [said(verdict=v, called=c).known for v in ("agree", "disagree", None) for c in (0, 1)] == [
        0, 1, 1, 0, None, None,
    ]  # fmt: skip


HEAD = ",".join(COLUMNS) + "\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("bag,verdict\na,agree\n", "must have the columns"),
        (HEAD + "a,,agree\n", "row 1 (feedback.csv): 3 cells"),
        (HEAD + "a,,maybe,,1,1,x,\n", "row 1"),
        (HEAD + "a,,agree,,2,2,x,\n", "row 1"),
        (HEAD + "a,-1,agree,,1,1,x,\n", "row 1"),
        (HEAD + "a,1.5,agree,,1,1,x,\n", "row 1"),
        (HEAD + "a,99999999999,agree,,1,1,x,\n", "row 1"),
        (HEAD + ",,agree,,1,1,x,\n", "row 1"),
        (HEAD + "a,,agree,,1,0,x,\n", "known does not follow"),
        (HEAD + "a,,agree,,1,1,x,\na,,agree,,1,0,x,\n", "row 2"),
        (HEAD.encode() + b"\xff\xfe,,agree,,1,1,x,\n", "not a CSV file in UTF-8"),
        (HEAD + '"a,,agree\n', "not a CSV file"),
    ],
)
def test_a_damaged_file_is_refused_by_row(write, content, words):
    with pytest.raises(InputError) as refused:
        read_feedback(write(content, "feedback.csv"))
    assert words in str(refused.value) and "maybe" not in str(refused.value)


def test_an_empty_file_has_no_entries(write):
    assert read_feedback(write("", "feedback.csv")) == ()


def test_links_are_not_written_and_pipes_and_folders_not_read(tmp_path):
    (tmp_path / "other.csv").write_text(HEAD)
    (tmp_path / "feedback.csv").symlink_to(tmp_path / "other.csv")
    assert read_feedback(tmp_path / "feedback.csv") == ()
    with pytest.raises(OutputError, match="symbolic link"):
        write_feedback(tmp_path / "feedback.csv", [said()])
    assert (tmp_path / "other.csv").read_text() == HEAD
    os.mkfifo(tmp_path / "fifo.csv")
    for name in ("fifo.csv", "."):
        with pytest.raises(InputError):
            read_feedback(tmp_path / name)
    with pytest.raises(MissingFile, match=r"none\.csv was not found"):
        read_feedback(tmp_path / "none.csv")


@pytest.fixture
def table():
    bags = Bags.from_list([[[0.0], [1.0]], [[2.0], [3.0]], [[4.0]]], ids=["a", "b", "7"])
    return BagTable(bags, np.array([1, 0, 1]), None)


def test_labels_of_readers_take_the_place_of_old_ones(table):
    told = with_feedback(table, [said("a", 1, "agree", called=0), said("7", None, "disagree"), said("b", verdict=None)])
    assert told.y.tolist() == [1, 0, 0] and told.y_instances.tolist() == [-1, 0, -1, -1, -1]
    assert table.y.tolist() == [1, 0, 1] and table.y_instances is None


def test_a_positive_instance_makes_its_bag_positive(table):
    with pytest.warns(DataWarning, match="1 bags labelled negative"):
        told = with_feedback(table, [said("b", 0)])
    assert told.y.tolist() == [1, 1, 1]
    with pytest.raises(InputError, match="called negative and one of its instances positive"):
        with_feedback(table, [said("b", 0), said("b", None, "agree", called=0)])


@pytest.mark.parametrize(
    ("entry", "words"), [(said("secret-id"), "its bag is not in the table"), (said("a", 2), "the bag has 2 instances")]
)
def test_feedback_about_other_bags_is_refused_without_their_names(table, entry, words):
    with pytest.raises(InputError, match=words) as refused:
        with_feedback(table, [entry])
    assert "secret-id" not in str(refused.value)


def test_feedback_needs_bag_labels(table):
    with pytest.raises(InputError, match="bag labels"):
        with_feedback(BagTable(table.bags, None, None), [said()])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    frame = frame_of()
    frame.to_csv(folder / "train.csv", index=False)
    return folder, frame


def test_fit_learns_from_feedback(files, tmp_path):
    folder, frame = files
    positive = frame[frame["label"] == 1]["bag"].unique()
    negative = frame[frame["label"] == 0]["bag"].unique()
    truth = {name: group["instance_label"].tolist() for name, group in frame.groupby("bag", sort=False)}
    first, second = positive[:2]
    entries = [
        said(first, truth[first].index(1), "agree"),
        said(second, truth[second].index(0), "agree", called=0),
        said(negative[0], None, "disagree", called=0),
        said(negative[1], None, "agree", called=0),
    ]
    write_feedback(tmp_path / "feedback.csv", entries)
    done = call(
        "fit", folder / "train.csv", "--out", tmp_path / "run", "--feedback", tmp_path / "feedback.csv", "--json",
        *QUICK,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    bags = pd.read_csv(tmp_path / "run" / "bags.csv").set_index("bag")["y"]
    assert bags[negative[0]] == 1 and bags[negative[1]] == 0
    told = frame.assign(label=frame["label"].where(frame["bag"] != negative[0], 1), known=-1)
    place = told.groupby("bag").cumcount()
    told.loc[(told["bag"] == first) & (place == truth[first].index(1)), "known"] = 1
    told.loc[(told["bag"] == second) & (place == truth[second].index(0)), "known"] = 0
    told.drop(columns="instance_label").to_csv(tmp_path / "told.csv", index=False)
    done = call("fit", tmp_path / "told.csv", "--out", tmp_path / "same", "--instance-label", "known", *QUICK)
    assert done.exit_code == 0, done.output
    found, expected = (PsiVGPMIL.load(tmp_path / name / "model.safetensors") for name in ("run", "same"))
    np.testing.assert_array_equal(found.q_mean_, expected.q_mean_)


def test_feedback_with_bag_labels_that_may_be_wrong_fixes_instances(files, tmp_path):
    folder, frame = files
    name = frame[frame["label"] == 1]["bag"].iloc[0]
    write_feedback(tmp_path / "feedback.csv", [said(name, 0, "agree", called=0)])
    done = call("fit", folder / "train.csv", "--out", tmp_path / "run", "--feedback", tmp_path / "feedback.csv",
                "--H", "100", "--json", *QUICK)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["training"]["bags"] == 30


def test_feedback_that_does_not_fit_ends_the_fit(files, tmp_path):
    folder, _ = files
    write_feedback(tmp_path / "feedback.csv", [said("b99")])
    arguments = ["fit", folder / "train.csv", "--out", tmp_path / "run", "--feedback"]
    fails(call(*arguments, tmp_path / "feedback.csv"), 65, "row 1 (feedback.csv)", "not in the table")
    fails(call(*arguments, tmp_path / "none.csv"), 66, "none.csv")
    assert not (tmp_path / "run").exists()


def test_a_carriage_return_in_an_id_comes_back(tmp_path):
    said = [Feedback("a\rb", None, "agree", "", 1, ""), Feedback("'=c", 2, None, "'note", 0, "")]
    write_feedback(tmp_path / "feedback.csv", said)
    assert list(read_feedback(tmp_path / "feedback.csv")) == said


def table_of(features, names=("size", "mass")):
    bags = Bags(np.asarray(features, dtype=float), np.array([0, 2, 3]), ids=["a", "b"], feature_names=names)
    return BagTable(bags, np.array([1, 0]), None)


def test_feedback_on_rows_that_were_sorted_anew_is_refused():
    rows = [[0.5, 2.0], [0.7, 1.1], [0.1, 3.2]]
    entry = Feedback("a", 1, "agree", "", 1, WHEN, {"mass": 1.1, "size": 0.7})
    assert with_feedback(table_of(rows), [entry]).y_instances.tolist() == [-1, 1, -1]
    with pytest.raises(InputError, match=r"row 1 .*other features than the reader saw"):
        with_feedback(table_of([rows[1], rows[0], rows[2]]), [entry])


def test_features_that_the_table_no_longer_has_say_nothing_and_single_precision_is_enough():
    entry = Feedback("a", 0, "agree", "", 1, WHEN, {"gone": 9.0, "size": float(np.float32(0.1))})
    assert with_feedback(table_of([[0.1, 2.0], [0.7, 1.1], [0.1, 3.2]]), [entry]).y_instances[0] == 1


def test_files_without_what_was_seen_are_read(tmp_path):
    path = tmp_path / "feedback.csv"
    path.write_text(f"bag,instance,verdict,note,called,known,when\na,1,agree,,1,1,{WHEN}\n")
    assert read_feedback(path) == (Feedback("a", 1, "agree", "", 1, WHEN),)


@pytest.mark.parametrize(
    "seen", ["[1]", "{", '{"a": "b"}', '{"a": NaN}', '{"a": 1e999999}x', '{"a": ' + "9" * 400 + "}"]
)
def test_what_was_seen_must_be_numbers_by_name(tmp_path, seen):
    path = tmp_path / "feedback.csv"
    write_feedback(path, [said(instance=1)])
    rows = path.read_text().splitlines()
    quoted = seen.replace('"', '""')
    path.write_text(f'{rows[0]}\n{rows[1]}"{quoted}"\n')
    with pytest.raises(InputError, match=r"row 1 .*seen is not valid"):
        read_feedback(path)
