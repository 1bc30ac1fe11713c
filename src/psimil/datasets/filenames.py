"""Bag names that become file names: none may leave its folder or meet another."""

import re
from collections.abc import Iterable
from typing import Any

from psimil.foundations.errors import InputError

SAFE = re.compile(r"\w[\w .,+=@()-]{0,199}")


def checked_names(names: Iterable[Any]) -> list[str]:
    """Names as text, each safe to use as a file name in one folder, on any system.

    Parameters
    ----------
    names : of the bags.

    Returns
    -------
    checked : the same in text.

    Raises
    ------
    InputError
        When a name is empty, too long, has a separator or begins with a dot, or when two are equal but for case.

    Examples
    --------
    >>> checked_names([7, "scan-8"])
    ['7', 'scan-8']
    >>> checked_names(["../secret"])
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bag name '../secret' cannot be a file name. Use letters, digits, - and _.
    """
    checked = [str(name) for name in names]
    seen: dict[str, str] = {}
    for name in checked:
        if not SAFE.fullmatch(name):
            raise InputError(f"bag name {name!r} cannot be a file name. Use letters, digits, - and _.")
        if name.casefold() in seen:
            other = seen[name.casefold()]
            raise InputError(f"bag names {other!r} and {name!r} would share a file. Make them different.")
        seen[name.casefold()] = name
    return checked
