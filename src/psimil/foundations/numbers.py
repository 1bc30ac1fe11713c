"""Numbers as callers give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from psimil.foundations.errors import InputError


def is_number(value: Any) -> bool:
    """Whether a value is a real number; inf is one, nan and truth values are not.

    Examples
    --------
    >>> is_number(0.5), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool) and value == value  # noqa: PLR0124


def unmasked(values: Any, what: str) -> Any:
    """The values as they are, refused where some are masked: NumPy drops a mask without a word.

    Parameters
    ----------
    values : array, or a list of values or arrays.
    what : the values are, for the message.

    Examples
    --------
    >>> unmasked(np.ma.masked_invalid([1.0, np.nan]), "features")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: features has masked values. Fill them in or leave them out.
    """
    for part in values if isinstance(values, (list, tuple)) else (values,):
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            raise InputError(f"{what} has masked values. Fill them in or leave them out.")
    return values


def at_least(low: float, *, whole: bool = False, **values: Any) -> None:
    """Refuse parameters that are not finite numbers >= low, or not whole where that is asked.

    Examples
    --------
    >>> at_least(1, whole=True, epochs=0)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: epochs must be a whole number >= 1, got 0.
    """
    for name, value in values.items():
        right_kind = is_number(value) and (not whole or isinstance(value, (int, np.integer)))
        if not right_kind or not low <= value < np.inf:
            kind = "a whole number" if whole else "a number"
            raise InputError(f"{name} must be {kind} >= {low}, got {value!r}.")


def generator(rng: Any) -> np.random.Generator:
    """The generator, refused when it is a seed or anything else.

    Examples
    --------
    >>> generator(0)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: rng must be a numpy Generator, got int. Write np.random.default_rng(0).
    """
    if not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy Generator, got {type(rng).__name__}. Write np.random.default_rng(0).")
    return rng


def above_zero(**values: Any) -> None:
    """Refuse parameters that are not finite numbers > 0.

    Examples
    --------
    >>> above_zero(C=-1.0)
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: C must be a number > 0, got -1.0.
    """
    for name, value in values.items():
        if not is_number(value) or not 0 < value < np.inf:
            raise InputError(f"{name} must be a number > 0, got {value!r}.")
