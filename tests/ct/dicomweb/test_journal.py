"""The journal of a watch belongs to one model, one process and one folder."""

import pytest

from psimil.ct.dicomweb.journal import FAILED, FOUND, PREDICTED, REFUSED, REPORTED, Entry, opened
from psimil.foundations.errors import OutputError


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


def test_what_was_not_analysed_or_has_no_report_is_for_a_reader():
    assert [Entry("1", state, reason="no axial series.").refer for state in (REPORTED, REFUSED, FAILED)] == [True] * 3
    assert not any(Entry("1", state, reason="the server is gone.").refer for state in (FOUND, PREDICTED))
    assert not Entry("1", REPORTED).refer
