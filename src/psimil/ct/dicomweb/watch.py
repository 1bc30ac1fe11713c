"""New studies of an archive, each read, predicted and reported once, whatever happens in between.

A study goes from found to predicted to reported, and each step is in the journal before the next begins. The report
that is sent is the file that was written, so that after a kill the archive can be asked whether it has it already.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from psimil.ct.dicom.folder import LIMITS, Limits
from psimil.ct.dicomweb.archive import Archive, Instance
from psimil.ct.dicomweb.journal import FAILED, FOUND, PREDICTED, REFUSED, REPORTED, Entry, Journal
from psimil.foundations.errors import InputError, PsimilError, ServerFault

TRIES, LONGEST_PAUSE = 16, 3600.0  # after faults of the server; seconds, at most
INCOMING, SCANS = "incoming", "scans"


@dataclass(frozen=True)
class Watch:
    """What is done with the studies of an archive.

    Parameters
    ----------
    archive : where they come from and reports go.
    journal : what was done before.
    folder : of the journal; results go to folders in it that have the ids of studies.
    hasher : turns UIDs to ids.
    predict : called with the folder of a study's images and the one to write, reports among the rest; raises InputError
        when the study cannot be analysed.
    limits : sizes above which images are not read.
    tell : called with the entry of each study that has come to an end.
    referral : called with the folder that was written; why the study is for a human reader, "" when it is not.
    """

    archive: Archive
    journal: Journal
    folder: Path
    hasher: Callable[[str], str]
    predict: Callable[[Path, Path], object]
    limits: Limits = LIMITS
    tell: Callable[[Entry], object] = lambda entry: None
    referral: Callable[[Path], str] = lambda results: ""

    def look(self, pause: float = 0.0) -> None:
        """Take every study as far as it goes now.

        A study is read when it has as many files as at the last look.

        Parameters
        ----------
        pause : seconds to the next look; a study whose server fails is left in peace for longer each time.

        Raises
        ------
        ServerFault
            When the archive does not say what it has.
        """
        self.clean()
        studies = self.archive.studies()
        entries = [(self.journal.entry(self.hasher(study)), study) for study in studies]
        here = {entry.id for entry, _ in entries}
        for entry in self.journal.entries():
            if entry.id not in here and entry.files:  # if it comes back, its report may have gone with it
                state = PREDICTED if entry.state == REPORTED else FOUND
                self._noted(entry, state=state, files=0, settled=False, tries=0, due=0.0)
        for entry, study in sorted(entries, key=lambda pair: pair[0].tries):  # what kills us comes last
            if entry.files != studies[study]:
                self._noted(entry, files=studies[study], settled=False, due=0.0)
            elif not (entry.settled or 0 < entry.due - time.time() <= LONGEST_PAUSE):
                self._try(study, entry, pause)

    def clean(self) -> None:
        """Remove the images of a study that was being read."""
        shutil.rmtree(self.folder / INCOMING, ignore_errors=True)

    def _noted(self, entry: Entry, **changes: Any) -> Entry:
        """The entry with changes, as it was written."""
        entry = replace(entry, **changes)
        self.journal.write(entry)
        return entry

    def _try(self, study: str, entry: Entry, pause: float) -> None:
        """Take a study further; the try is counted before it begins, for it may be the end of this process."""
        tries = entry.tries + 1
        try:
            instances = self.archive.instances(study)
            if not instances:
                raise ServerFault("the study has no images now.")
            content = self.hasher(" ".join(instance.uid for instance in instances))
            if entry.content != content:
                entry, tries = replace(entry, state=FOUND, content=content, reason=""), 1
            entry = self._noted(entry, tries=tries)
            if entry.state == FOUND:
                self._fetch(instances)
                if self.archive.instances(study) != instances:
                    raise ServerFault("the study is still arriving.")
                self.predict(self.folder / INCOMING, self.folder / SCANS / entry.id)
                entry = self._noted(entry, state=PREDICTED)
            if entry.state == PREDICTED:
                results = self.folder / SCANS / entry.id
                self._send(study, results)
                why = self.referral(results)
                self.tell(self._noted(entry, state=REPORTED, settled=True, tries=0, reason=why))
            else:  # the archive has other files than before, but no other images
                self._noted(entry, settled=True, tries=0)
        except InputError as error:
            self.tell(self._noted(entry, state=REFUSED, settled=True, tries=0, reason=str(error)))
        except Exception as error:  # of the server, the disk or the memory: the other studies go on
            reason = str(error) if isinstance(error, PsimilError) else f"{type(error).__name__}."  # no words of others
            state, given_up = (FAILED, True) if tries >= TRIES else (entry.state, False)
            due = time.time() + min(pause * 2**tries, LONGEST_PAUSE)
            self.tell(self._noted(entry, state=state, settled=given_up, tries=tries, due=due, reason=reason))
        finally:
            self.clean()

    def _fetch(self, instances: list[Instance]) -> None:
        left = self.limits.scan_bytes
        (self.folder / INCOMING).mkdir(mode=0o700)
        for number, instance in enumerate(instances):
            file = self.folder / INCOMING / f"{number:05d}.dcm"
            left -= self.archive.fetch(instance, file, self.limits.multiframe_bytes)
            if left < 0:
                raise InputError(f"the study is above the limit of {self.limits.scan_bytes >> 20} MB.")

    def _send(self, study: str, results: Path) -> None:
        """Send the DICOM files of the results that the archive does not have, and see that it has them."""
        from pydicom import dcmread

        for file in sorted(results.rglob("*.dcm")):
            report = dcmread(file, specific_tags=["SOPInstanceUID", "StudyInstanceUID"])
            if report.StudyInstanceUID != study:
                raise InputError("the archive gave images of another study.")
            if not self.archive.holds(study, report.SOPInstanceUID):
                self.archive.store(study, file.read_bytes())
                if not self.archive.holds(study, report.SOPInstanceUID):
                    raise ServerFault("the archive took the report but does not list it.")
