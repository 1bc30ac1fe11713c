"""What a model of CT scans is for: the finding, the procedure, and the body parts it has seen, as DICOM codes them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from psimil.foundations.errors import InputError

RULE = (
    "a finding is named by words, at most 64 letters, or as SCHEME:VALUE:MEANING, e.g. SCT:1386000:Intracranial "
    "hemorrhage; the procedure may follow after a semicolon."
)
ODD, ODD_WORDS = re.compile(r"[^A-Za-z0-9_.-]"), re.compile(r"[:;\\]")  # in scheme and value, and in the meaning
TURNS = (  # of a pentagon one after another, those from 5 on with a flip: the group in which Verhoeff adds
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
MIXED = "1576283094"  # what each digit becomes, once more for every place to the left
FORMS = {  # of values, with an example, by scheme
    "SCT": (re.compile(r"[1-9][0-9]{5,15}"), "36118008"),
    "LN": (re.compile(r"[0-9]{1,7}-[0-9]"), "24627-2"),
    "RADLEX": (re.compile(r"RID[0-9]+"), "RID5352"),
}
OTHER_NAMES = {"SNOMED": "SCT", "SNOMED-CT": "SCT", "SNOMEDCT": "SCT", "LOINC": "LN"}
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
            When the text is neither; see :meth:`check`.

        Examples
        --------
        >>> Code.read("SCT:36118008:Pneumothorax").value, Code.read("Free air").scheme
        ('36118008', '99PSIMIL')
        """
        text = " ".join(text.split())
        parts = [part.strip() for part in text.split(":")]
        if len(parts) not in (1, 3):
            raise InputError(f"{len(parts)} parts between colons; {RULE}")
        own = f"F{hashlib.sha256(text.lower().encode(errors='replace')).hexdigest()[:12].upper()}"
        code = cls(own, SCHEME, text) if len(parts) == 1 else cls(parts[1], parts[0], parts[2])
        code.check()
        return code

    def check(self) -> None:
        """Refuse what is no code, or what DICOM has no room for.

        Raises
        ------
        InputError
            When a part is empty, too long or has odd characters, or the value is none of its scheme.

        Examples
        --------
        >>> Code("pneumothorax", "SCT", "Pneumothorax").check()
        Traceback (most recent call last):
        psimil.foundations.errors.InputError: the value of scheme SCT is not of its form, as 36118008; a finding is ...
        """
        for name, text, most, odd in zip(self._fields, self, (16, 16, 64), (ODD, ODD, ODD_WORDS), strict=True):
            if not isinstance(text, str) or not text.strip():
                raise InputError(f"the {name} is empty; {RULE}")
            if len(text) > most:
                raise InputError(f"the {name} has {len(text)} letters, more than {most}; {RULE}")
            if odd.search(text) or not text.isprintable() or text != text.strip():
                raise InputError(f"the {name} has letters that a code cannot have; {RULE}")
        known = {name: name for name in FORMS} | OTHER_NAMES
        if (ours := known.get(self.scheme.upper(), self.scheme)) != self.scheme:
            raise InputError(f"the scheme is called {ours} in DICOM; {RULE}")
        form, example = FORMS.get(self.scheme, (None, ""))
        if form is not None and not form.fullmatch(self.value):
            raise InputError(f"the value of scheme {self.scheme} is not of its form, as {example}; {RULE}")
        if self.scheme in CHECKS and not CHECKS[self.scheme](self.value.replace("-", "")):
            raise InputError(f"the value of scheme {self.scheme} has a digit too many, too few or mistyped; {RULE}")


def _fits_verhoeff(digits: str) -> bool:
    """Whether the last digit is the check digit of the others that SNOMED CT uses.

    Examples
    --------
    >>> _fits_verhoeff("36118008"), _fits_verhoeff("36118009"), _fits_verhoeff("36181008")
    (True, False, False)
    """
    total = 0
    for place, digit in enumerate(reversed(digits)):
        mixed = int(digit)
        for _ in range(place % 8):
            mixed = int(MIXED[mixed])
        total = int(TURNS[total][mixed])
    return total == 0


def _fits_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of the others that LOINC uses.

    Examples
    --------
    >>> _fits_luhn("246272"), _fits_luhn("246273"), _fits_luhn("264272")
    (True, False, False)
    """
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(number - 9 * (number > 9) for number in doubled) % 10 == 0


CHECKS = {"SCT": _fits_verhoeff, "LN": _fits_luhn}


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

    def __post_init__(self) -> None:
        for code in (self.finding, self.procedure):
            if not isinstance(code, Code):
                raise InputError(f"finding and procedure must be Code, got {type(code).__name__}. Use Purpose.read.")
            code.check()

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
            found = cls(Code(*facts["finding"]), Code(*facts["procedure"]), tuple(facts["regions"]))
            right = set(facts) == {"finding", "procedure", "regions"} and set(found.regions) <= PARTS
        except (TypeError, KeyError, InputError):
            right = False
        if not right:
            raise InputError("the purpose needs a coded finding, a coded procedure and known body parts.")
        return found

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
