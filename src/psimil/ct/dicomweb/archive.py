"""An archive of DICOM files: what it has (QIDO-RS), files from it (WADO-RS) and to it (STOW-RS)."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from psimil.ct.dicomweb.connection import Connection
from psimil.foundations.errors import DataWarning, InputError, ServerFault

STUDY, SERIES, INSTANCE, MODALITY = "0020000D", "0020000E", "00080018", "00080060"
IMAGES, FAILED, SOP_CLASS = "00201208", "00081198", "00080016"
RAW_DATA = "1.2.840.10008.5.1.4.1.1.66"  # and registrations, segmentations: large, and no slices
KIND, JSON = "application/dicom", "application/dicom+json"
HEAD = 1 << 14  # bytes of a body before its file begins, at most
BOUNDARY = re.compile(r"""[;\s]boundary="?([\w'()+,./:=?-]{1,70})"?""", re.ASCII | re.IGNORECASE)
PAGE, MOST_ROWS = 200, 1_000_000
MOST_IMAGES = 20_000  # of one study
UID = re.compile(r"[0-9A-Za-z][\w.-]{0,63}", re.ASCII)  # and no path to elsewhere


@dataclass(frozen=True)
class Instance:
    """One file of the archive, by UIDs that are never shown."""

    study: str = field(repr=False)
    series: str = field(repr=False)
    uid: str = field(repr=False)

    @property
    def path(self) -> str:
        """Where it is, below the root of the services."""
        return f"studies/{self.study}/series/{self.series}/instances/{self.uid}"


@dataclass(frozen=True)
class Archive:
    """What one archive has and takes.

    Parameters
    ----------
    connection : to its server; the query of its URL says which studies are wanted.
    modalities : of the images that are wanted.

    Examples
    --------
    >>> Archive(Connection.of("http://localhost:8042/dicom-web")).modalities
    ('CT',)
    """

    connection: Connection
    modalities: Collection[str] = ("CT",)

    def studies(self) -> dict[str, int]:
        """UIDs of all wanted studies, and how many files each has.

        Raises
        ------
        ServerFault
            When the server does not say.
        """
        counts: dict[str, int] = {}
        for modality in self.modalities:
            images_of: Counter[str] = Counter()
            wanted = {**self.connection.query, "ModalitiesInStudy": modality, "includefield": IMAGES}
            for row in self._rows("studies", wanted):
                try:
                    study, images = _uid(row, STUDY), _value(row, IMAGES)
                    # two patients in one study are two rows of it
                    images_of[study] += images if isinstance(images, int) else len(self.instances(study))
                except InputError as error:
                    warnings.warn(f"a study of the archive is left out: {error}", DataWarning, stacklevel=2)
            counts.update(images_of)
        return counts

    def instances(self, study: str) -> list[Instance]:
        """The images of a study that are wanted, by UID.

        Raises
        ------
        InputError
            When there are more than are read.
        """
        instances = set()
        for modality in self.modalities:
            wanted = {"Modality": modality, "includefield": MODALITY}
            for row in self._rows(f"studies/{study}/instances", wanted):
                image = not str(_value(row, SOP_CLASS)).startswith(RAW_DATA)
                if image and _value(row, MODALITY) in (None, modality):
                    instances.add(Instance(study, _uid(row, SERIES), _uid(row, INSTANCE)))
                if len(instances) > MOST_IMAGES:
                    raise InputError(f"the study has more than {MOST_IMAGES} images, which is the limit.")
        return sorted(instances, key=lambda instance: instance.uid)

    def fetch(self, instance: Instance, path: Path, limit: int) -> int:
        """Write a file of the archive to a path; its size, which is no more than ``limit`` bytes."""
        accept = f'multipart/related; type="{KIND}"; transfer-syntax=*'
        path.write_bytes(only_part(*self.connection.ask("GET", instance.path, limit=limit, Accept=accept)))
        return path.stat().st_size

    def holds(self, study: str, uid: str) -> bool:
        """Whether the archive has a file of this UID."""
        rows = self._rows(f"studies/{study}/instances", {"SOPInstanceUID": uid})
        return any(_uid(row, INSTANCE) == uid for row in rows)

    def store(self, study: str, content: bytes) -> None:
        """Send a DICOM file.

        Raises
        ------
        ServerFault
            When the archive does not take it, or nobody knows.
        """
        kind, body = one_part(content)
        _, answer = self.connection.ask("POST", f"studies/{study}", None, body, Content_Type=kind, Accept=JSON)
        if any(_value(row, FAILED) is not None for row in _parsed(answer or b"[]")):
            raise ServerFault("the server did not take the report.")

    def _rows(self, path: str, query: Mapping[str, object]) -> Iterator[dict[str, Any]]:
        """All rows of a list, page after page; a server that knows no pages gives the same again."""
        before: list[dict[str, Any]] = []
        for offset in range(0, MOST_ROWS, PAGE):
            page = {**query, "limit": PAGE, "offset": offset}
            rows = _parsed(self.connection.ask("GET", path, page, Accept=JSON)[1] or b"[]")
            if rows != before:
                yield from rows
            if rows == before or len(rows) < PAGE:
                return
            before = rows


def _parsed(text: bytes) -> list[dict[str, Any]]:
    """The objects of a list; one that stands alone is a list of one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = [None]
    rows = [value] if isinstance(value, dict) else value
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ServerFault("the server's answer was cut or is no DICOM JSON.")
    return rows


def _value(row: dict[str, Any], tag: str) -> Any:
    """The first value of an element, None when there is none."""
    element = row.get(tag)
    values = element.get("Value") if isinstance(element, dict) else None
    return values[0] if isinstance(values, list) and values else None


def _uid(row: dict[str, Any], tag: str) -> str:
    value = _value(row, tag)
    if not isinstance(value, str) or not UID.fullmatch(value):
        raise InputError("a UID in the archive's list is none.")
    return value


def only_part(content_type: str, body: bytes) -> memoryview:
    """The one file that a body carries, as its only part or as it is.

    Raises
    ------
    ServerFault
        When there is no such file, more than one, or it was cut.

    Examples
    --------
    >>> bytes(only_part(*one_part(b"DICM")))
    b'DICM'
    """
    kind, boundary = content_type.partition(";")[0].strip().lower(), BOUNDARY.search(content_type)
    if kind == KIND and body:
        return memoryview(body)
    if kind != "multipart/related" or boundary is None:
        raise ServerFault("the server answers with something that is no DICOM file.")
    delimiter = b"--" + boundary[1].encode()
    begin = body.find(delimiter, 0, HEAD)
    start = body.find(b"\r\n\r\n", begin, HEAD) + 4
    end = body.find(b"\r\n" + delimiter, start)
    if begin < 0 or start < 4 or end < 0 or body[end + 2 + len(delimiter) :].strip() != b"--":
        raise ServerFault("the server's answer was cut, or has more parts than one.")
    return memoryview(body)[start:end]


def one_part(content: bytes) -> tuple[str, bytes]:
    """Content type and body that carry one file; the same file gives the same bytes.

    Examples
    --------
    >>> kind, body = one_part(b"DICM")
    >>> kind.startswith('multipart/related; type="application/dicom"; boundary='), b"DICM" in body
    (True, True)
    """
    boundary = sha256(content).hexdigest()  # a file does not hold its own hash
    head = f"--{boundary}\r\nContent-Type: {KIND}\r\n\r\n"
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    return f'multipart/related; type="{KIND}"; boundary={boundary}', body
