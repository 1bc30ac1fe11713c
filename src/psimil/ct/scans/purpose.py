"""What a model of CT scans is for: the finding, the procedure, and the body parts it has seen, as DICOM codes them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from psimil.foundations.errors import InputError

CODED = re.compile(r"(?P<scheme>[A-Za-z0-9_]{1,16}):(?P<value>[A-Za-z0-9_.-]{1,16}):(?P<meaning>[^:;]{1,64})")
SCHEME = "99PSIMIL"
HEAD = frozenset(("HEAD", "BRAIN", "SKULL", "HEADNECK"))
# Terms of BodyPartExamined that are told apart; any other, and what people type there, counts as unknown.
PARTS = HEAD | frozenset(
    ("ABDOMEN", "ANKLE", "CHEST", "CSPINE", "ELBOW", "FOOT", "HAND", "HEART", "HIP", "KNEE", "LSPINE", "NECK",
     "PELVIS", "SHOULDER", "SSPINE", "TSPINE", "WHOLEBODY", "WRIST")
)  # fmt: skip


class Code(NamedTuple):
    """A coded concept: value of at most 16 characters, scheme such as SCT, LN or DCM, and meaning in words."""

    value: str
    scheme: str
    meaning: str

    @classmethod
    def read(cls, text: str) -> Code:
        """A code as ``SCHEME:VALUE:MEANING``, or words alone, which get a value of their own under 99PSIMIL.

        Raises
        ------
        InputError
            When the text is neither.

        Examples
        --------
        >>> Code.read("SCT:36118008:Pneumothorax").value, Code.read("Free air").scheme
        ('36118008', '99PSIMIL')
        """
        text = " ".join(text.split())
        if match := CODED.fullmatch(text):
            return cls(match["value"], match["scheme"], match["meaning"].strip())
        if not 1 <= len(text) <= 64 or ":" in text or ";" in text or "\\" in text or not text.isprintable():
            raise InputError(
                "a finding is named by words, at most 64 letters, or as SCHEME:VALUE:MEANING, e.g. "
                "SCT:1386000:Intracranial hemorrhage; the procedure may follow after a semicolon."
            )
        return cls(f"F{hashlib.sha256(text.lower().encode()).hexdigest()[:12].upper()}", SCHEME, text)


ANY_CT = Code("25045-6", "LN", "CT unspecified body region")


@dataclass(frozen=True)
class Purpose:
    """What a model looks for, in which kind of scan.

    Parameters
    ----------
    finding : what label 1 means.
    procedure : the examination that is reported.
    regions : body parts of the training scans, as :func:`region_of` names them; empty when their files do not say.

    Examples
    --------
    >>> found = Purpose.read("SCT:36118008:Pneumothorax; LN:24627-2:CT Chest")
    >>> found.finding.meaning, found.procedure.value
    ('Pneumothorax', '24627-2')
    """

    finding: Code
    procedure: Code = ANY_CT
    regions: tuple[str, ...] = ()

    @classmethod
    def read(cls, text: str) -> Purpose:
        """The finding, and after a semicolon the procedure; see :meth:`Code.read`."""
        return cls(*(Code.read(part) for part in text.split(";", 1)))

    @classmethod
    def from_json(cls, facts: Any) -> Purpose:
        """What :attr:`json` gave; anything else is refused.

        Raises
        ------
        InputError
            When a code or a body part is none.
        """
        try:
            codes = [Code(*facts[name]) for name in ("finding", "procedure")]
            regions = tuple(facts["regions"])
            right = set(facts) == {"finding", "procedure", "regions"} and set(regions) <= PARTS
            right = right and all(CODED.fullmatch(f"{code.scheme}:{code.value}:{code.meaning}") for code in codes)
        except (TypeError, KeyError):
            codes, regions, right = [], (), False
        if not right:
            raise InputError("the purpose needs a coded finding, a coded procedure and known body parts.")
        return cls(codes[0], codes[1], regions)

    @property
    def json(self) -> dict[str, Any]:
        """As a table of lists."""
        return {name: list(value) for name, value in asdict(self).items()}

    @property
    def words(self) -> str:
        """The finding and its code.

        Examples
        --------
        >>> HEMORRHAGE.words
        'Intracranial hemorrhage (SCT 1386000)'
        """
        return f"{self.finding.meaning} ({self.finding.scheme} {self.finding.value})"

    def seen_on(self, regions: Iterable[str]) -> Purpose:
        """The purpose of a model that was trained on scans of these regions."""
        return replace(self, regions=tuple(sorted(set(regions) - {""})))


HEMORRHAGE = Purpose(Code("1386000", "SCT", "Intracranial hemorrhage"), Code("24725-4", "LN", "CT Head"))
UNNAMED = Purpose(Code("404684003", "SCT", "Clinical finding"))


def region_of(body_part: str) -> str:
    """The region that BodyPartExamined names; empty when it is unknown.

    Examples
    --------
    >>> region_of("Brain"), region_of("CHEST"), region_of("Mr Smith")
    ('HEAD', 'CHEST', '')
    """
    term = body_part.strip().upper()
    return "HEAD" if term in HEAD else term if term in PARTS else ""
