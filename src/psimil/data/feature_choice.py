"""Which columns are features, by their names: those asked for, without those left out, and none without a name."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any

from psimil.foundations.errors import InputError

Names = str | Sequence[str] | None

UNNAMED = re.compile(r"\s*|Unnamed: \d+(_level_\d+)?|__index_level_\d+__")
SHOWN = 10  # columns that a message lists


def chosen_columns(
    columns: Sequence[Any], name: str, others: Collection[Any] = (), features: Names = None, drop: Names = None
) -> list[Any]:
    """The columns that ``features`` asks for, in that order, without those of ``drop``.

    Parameters
    ----------
    columns : of the table.
    name : of the file, for messages.
    others : columns of bags and labels, which are features only when one of ``features`` is their very name.
    features : names, or patterns with ``*``, ``?`` and ``[...]``; None takes every column but ``others``.
    drop : names or patterns of columns to leave out; "" means those without a name.

    Raises
    ------
    InputError
        When a name or pattern fits no column, nothing is left, or what is left includes a column without a name.

    Examples
    --------
    >>> chosen_columns(["bag", "f1", "f2", "z"], "bags.csv", {"bag"}, drop=["z"])
    ['f1', 'f2']
    >>> chosen_columns(["bag", "f1", "f2", "z"], "bags.csv", {"bag"}, features=["z", "f*"])
    ['z', 'f1', 'f2']
    >>> chosen_columns(["Unnamed: 0", "bag", "f"], "bags.csv", {"bag"})
    Traceback (most recent call last):
    psimil.foundations.errors.InputError: bags.csv: column 1 has no name; it may be the index that pandas writes. \
Write the table with index=False, or leave the column out with --drop "Unnamed: 0" (of psimil fit and data import).
    """
    repeated = next((column for column, n in Counter(columns).items() if n > 1), None)
    if repeated is not None:
        raise InputError(f'{name} has more than one column "{one_line(repeated)}".')
    free = [column for column in columns if column not in others]
    chosen = free if features is None else _fitting(features, columns, free, name)
    if drop is not None:
        out = _fitting(drop, free, free, name)
        chosen = [column for column in chosen if column not in out]
    if not chosen:
        raise InputError(f"{name} has no numeric feature column beside the bag and label columns.")
    for column in chosen:
        if _is_unnamed(column):
            raise InputError(
                f"{name}: column {list(columns).index(column) + 1} has no name; it may be the index that pandas "
                f"writes. Write the table with index=False, or leave the column out with {drop_option([column])}."
            )
    return chosen


def as_names(names: Names) -> list[str]:
    """Names as a list of text, whether one was given or several.

    Examples
    --------
    >>> as_names("f*"), as_names(None), as_names([0, "f"])
    (['f*'], [], ['0', 'f'])
    """
    return [names] if isinstance(names, str) else list(map(str, names or ()))


def drop_option(columns: Sequence[Any]) -> str:
    """The option that leaves columns out, as a message shows it, with the commands that have it.

    Examples
    --------
    >>> drop_option(["f", "g h"])
    '--drop "f,g h" (of psimil fit and data import)'
    """
    names = ",".join(f'"{column}"' if "," in str(column) else str(column) for column in columns)
    return f'--drop "{one_line(names)}" (of psimil fit and data import)'


def one_line(message: object) -> str:
    r"""The message without line breaks and without the point at its end.

    Examples
    --------
    >>> one_line("no\nsuch file.")
    'no such file'
    """
    return " ".join(str(message).split()).rstrip(".")


def _is_unnamed(column: Any) -> bool:
    """Whether a column has no name of its own, as the index of a data frame in a file."""
    return UNNAMED.fullmatch(str(column)) is not None


def _fitting(wanted: Names, columns: Sequence[Any], free: Sequence[Any], name: str) -> list[Any]:
    """Columns of these very names, and free columns that fit a pattern, each once."""
    by_name = {str(column): column for column in columns}
    fitting: dict[Any, None] = {}
    unknown = []
    for text in as_names(wanted):
        if text in by_name:
            fitting[by_name[text]] = None
            continue
        fits = [c for c in free if (fnmatchcase(str(c), text) if text else _is_unnamed(c))]
        if not fits:
            unknown.append(text)
        fitting |= dict.fromkeys(fits)
    if unknown:
        quoted = _listed([f'"{text}"' for text in unknown])
        raise InputError(f"{name} has no column {quoted}. {_near(unknown, list(by_name))}")
    return list(fitting)


def _near(unknown: Sequence[str], names: Sequence[str]) -> str:
    alike = {name.lower(): name for name in names}
    near = difflib.get_close_matches(unknown[0].lower(), list(alike), n=1)
    if near:
        return f'Did you mean "{one_line(alike[near[0]])}"?'
    return f"Columns: {_listed(names)}."


def _listed(names: Sequence[str]) -> str:
    """The names, of many the first and their number."""
    return one_line(", ".join(names[:SHOWN])) + (f", ... ({len(names)})" if len(names) > SHOWN else "")
