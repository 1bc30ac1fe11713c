"""Numbers as a report shows them: rounded text for the reader, all digits for whoever checks."""

from __future__ import annotations

import math
from typing import NamedTuple


class Numeral(NamedTuple):
    """A number in two forms.

    Parameters
    ----------
    value : with all digits, so that ``float(value)`` is the number itself.
    text : rounded.
    """

    value: str
    text: str


def probability(number: float) -> Numeral:
    """A probability; one that would be rounded to 0 or 1 is shown by the bound that it keeps.

    Examples
    --------
    >>> probability(0.12345), probability(0.99999)
    (Numeral(value='0.12345', text='0.123'), Numeral(value='0.99999', text='>0.999'))
    """
    number = float(number)
    if 0 < number < 0.0005:
        text = "<0.001"
    elif 0.9995 < number < 1:
        text = ">0.999"
    else:
        text = f"{number:.3f}"
    return Numeral(repr(number), text)


def decimal(number: float, form: str = ".3f") -> Numeral:
    """Any number, with a proper minus sign; a dash for what could not be computed.

    Examples
    --------
    >>> decimal(-1.234, ".1f"), decimal(float("nan"))
    (Numeral(value='-1.234', text='−1.2'), Numeral(value='nan', text='–'))
    """
    number = float(number)
    return Numeral(repr(number), "–" if math.isnan(number) else format(number, form).replace("-", "−"))


def count(number: int) -> Numeral:
    r"""A whole number, with thin spaces between thousands.

    Examples
    --------
    >>> count(12345).text == "12\u2009345"
    True
    """
    return Numeral(repr(int(number)), f"{int(number):,}".replace(",", "\u2009"))


def truth_words(label: int) -> str:
    """A known label in words, "" for an unknown one.

    Examples
    --------
    >>> truth_words(1), truth_words(0), truth_words(-1)
    ('positive', 'negative', '')
    """
    return {1: "positive", 0: "negative"}.get(int(label), "")
