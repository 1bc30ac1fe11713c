"""Paths as callers give them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from psimil.foundations.errors import InputError


def as_path(value: Any, what: str = "path") -> Path:
    """The path, refused when it is no text or path object.

    Parameters
    ----------
    value : str or os.PathLike of str.
    what : name of the argument, for the message.

    Raises
    ------
    InputError
        When the value is something else, or empty.

    Examples
    --------
    >>> as_path("model.safetensors").suffix
    '.safetensors'
    >>> as_path(None, "directory")
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: directory must be a path (str or pathlib.Path), got NoneType.
    """
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if isinstance(text, str) and text and "\0" not in text:
            return Path(text)
        if isinstance(text, str):
            raise InputError(f"{what} must be a path (str or pathlib.Path), got {text!r}. Name a file or folder.")
    raise InputError(f"{what} must be a path (str or pathlib.Path), got {type(value).__name__}.")
