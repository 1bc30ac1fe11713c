"""The rows of a report's worklist, and the bags that it shows in detail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psimil.report.calls import Words, difference_words, reason_words
from psimil.report.numerals import Numeral, decimal, probability, truth_words
from psimil.report.pictures import picture_uri, profile_uri
from psimil.results.result_set import ResultSet

Array = NDArray[Any]

FILM = 60  # thumbnails of a bag at most
TABLE = 200  # rows of a bag's table at most
HASH = re.compile(r"[0-9a-f]{16}")  # of psimil.ct.scans.identity.Hasher
NAMED = 3  # telling features of an instance


@dataclass(frozen=True)
class Said:
    """What the model says about a bag or an instance, and truth and novelty where they are known."""

    prob: Numeral
    std: Numeral
    lower: Numeral
    upper: Numeral
    log_odds: Numeral
    called: str
    truth: str
    novelty: Numeral | None

    @property
    def short(self) -> tuple[str, str]:
        """Probability and standard deviation with two digits, to stand below a picture."""
        return f"{float(self.prob.value):.2f}", f"{float(self.std.value):.2f}"

    @property
    def wrong(self) -> bool:
        """Whether the call is known to be wrong."""
        return self.truth not in ("", self.called)


@dataclass(frozen=True)
class Row:
    """One bag of the worklist; ``number`` is its place in the results file, from 0, ``reason`` that of a referral."""

    number: int
    name: str
    said: Said
    refer: bool
    reason: str
    novel: bool
    size: int
    notes: str


@dataclass(frozen=True)
class Instance:
    """One row of a bag's table; ``telling`` has name, value and effect of features, ``owed`` its own and its bag's."""

    index: int
    shown: int
    position: Numeral | None
    said: Said
    telling: Sequence[tuple[str, Numeral, Numeral]]
    owed: tuple[Numeral, Numeral] | None
    thumbnail: str | None
    novel: bool


@dataclass(frozen=True)
class Case:
    """A bag in detail: profile, thumbnails, a table of its instances; ``difference`` explains unlike calls."""

    row: Row
    why: str
    difference: str
    referral: str
    profile: str
    film: Sequence[Instance]
    instances: Sequence[Instance]


def bag_names(results: ResultSet, show_ids: bool) -> Array:
    """(B,) what bags are called: by their ids if these are keyed hashes or asked for, else by number."""
    ids = [str(name) for name in results.prediction.ids]
    if show_ids or (results.kind == "ct" and all(HASH.fullmatch(name) for name in ids)):
        return np.array(ids, dtype=np.object_)
    word = Words.of(results.kind).bag
    return np.array([f"{word} {number + 1}" for number in range(len(results))], dtype=np.object_)


def worklist(results: ResultSet, names: Array) -> list[Row]:
    """All bags, from the most to the least probable."""
    found = results.prediction
    numbers = (found.prob, found.std, found.lower, found.upper, found.log_odds, found.label, results.truth)
    columns = (*numbers, _known(found.novelty, len(results)))
    refer, reason, novel, sizes = found.refer, found.reason, found.novel, np.diff(found.offsets)
    return [
        Row(
            int(bag),
            str(names[bag]),
            _said(*(column[bag] for column in columns)),
            bool(refer[bag]),
            str(reason[bag]),
            bool(novel[bag]),
            int(sizes[bag]),
            results.notes[bag],
        )
        for bag in results.by_probability()
    ]


def chosen_cases(
    results: ResultSet, rows: Sequence[Row], probable: int, uncertain: int
) -> tuple[list[Case], list[Case]]:
    """The most probable bags, and the most uncertain ones that are not among them.

    Parameters
    ----------
    rows : of the worklist.
    probable, uncertain : how many of each; a bag that is both is shown once, as probable.
    """
    by_number = {row.number: row for row in rows}
    reasons: dict[int, list[str]] = {}
    orders = ((results.by_probability()[:probable], "probable"), (results.by_uncertainty()[:uncertain], "uncertain"))
    for order, word in orders:
        for place, bag in enumerate(order, start=1):
            reasons.setdefault(int(bag), []).append(f"no. {place} of the most {word}")
    cases = [_case(results, by_number[bag], " and ".join(why)) for bag, why in reasons.items()]
    first = len(orders[0][0])
    return cases[:first], cases[first:]


def _case(results: ResultSet, row: Row, why: str) -> Case:
    instances = _instances(results, row.number)
    film = [] if results.images is None else _most_probable(instances, FILM)
    of = (results.prediction, row.number, Words.of(results.kind))
    profile, table = profile_uri(results, row.number), _most_probable(instances, TABLE)
    return Case(row, why, difference_words(*of), reason_words(*of), profile, film, table)


def _most_probable(instances: Sequence[Instance], most: int) -> list[Instance]:
    """The most probable instances, in the order of the bag."""
    ranked = sorted(instances, key=lambda instance: -float(instance.said.log_odds.value))
    return sorted(ranked[:most], key=lambda instance: instance.index)


def _instances(results: ResultSet, bag: int) -> list[Instance]:
    found, rows, first = results.prediction, results.instances_of(bag), Words.of(results.kind).first
    columns = [
        column[rows]
        for column in (
            found.instance_prob,
            found.instance_std,
            found.instance_lower,
            found.instance_upper,
            found.instance_log_odds,
            found.instance_label,
            results.instance_truth,
            _known(found.instance_novelty, len(results.instance_truth)),
        )
    ]
    novel = found.instance_novel
    return [
        Instance(
            index,
            index + first,
            None if results.positions is None else decimal(results.positions[n], ".1f"),
            _said(*(column[index] for column in columns)),
            _telling(results, n),
            _owed(results, n),
            None if results.images is None else picture_uri(results.images[n]),
            bool(novel[n]),
        )
        for index, n in enumerate(range(rows.start, rows.stop))
    ]


def _telling(results: ResultSet, n: int) -> list[tuple[str, Numeral, Numeral]]:
    if results.features is None or results.values is None or results.effects is None:
        return []
    columns = (results.features[n, :NAMED], results.values[n, :NAMED], results.effects[n, :NAMED])
    return [
        (results.feature_names[feature], decimal(value, ".4g"), decimal(effect, "+.3f"))
        for feature, value, effect in zip(*columns, strict=True)
    ]


def _owed(results: ResultSet, n: int) -> tuple[Numeral, Numeral] | None:
    if results.own_effect is None or results.bag_effect is None:
        return None
    return decimal(results.own_effect[n], "+.3f"), decimal(results.bag_effect[n], "+.3f")


def _known(novelty: Array | None, n: int) -> Array:
    """(n,) novelty, nan where it is not known."""
    return np.full(n, np.nan) if novelty is None else novelty


def _said(prob: Any, std: Any, lower: Any, upper: Any, log_odds: Any, called: Any, truth: Any, novelty: Any) -> Said:
    return Said(
        probability(prob),
        probability(std),
        probability(lower),
        probability(upper),
        decimal(log_odds, ".2f"),
        truth_words(called),
        truth_words(truth),
        None if np.isnan(novelty) else probability(novelty),
    )
