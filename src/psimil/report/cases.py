"""The rows of a report's worklist, and the bags that it shows in detail."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psimil.foundations.arrays import Array
from psimil.report.calls import Words, difference_words, reason_words
from psimil.report.numerals import Numeral, decimal, probability, truth_words
from psimil.report.pictures import picture_uri, profile_uri
from psimil.results.edges import Edges, edge_words
from psimil.results.result_set import ResultSet

FILM = 60  # thumbnails of a bag at most
TABLE = 200  # rows of a bag's table at most
HASH = re.compile(r"[0-9a-f]{16}")  # of psimil.ct.scans.identity.Hasher
NAMED = 3  # features of an instance whose effects are named


@dataclass(frozen=True)
class Estimate:
    """What the model says about a bag or an instance, and truth and novelty where they are known."""

    prob: Numeral
    std: Numeral
    lower: Numeral
    upper: Numeral
    log_odds: Numeral
    called: str
    truth: str
    novelty: Numeral | None
    novel: bool

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> Estimate:
        """From the numbers of :meth:`psimil.results.result_set.ResultSet.estimate`."""
        return cls(
            probability(numbers["prob"]),
            probability(numbers["std"]),
            probability(numbers["lower"]),
            probability(numbers["upper"]),
            decimal(numbers["log_odds"], ".2f"),
            truth_words(numbers["label"]),
            truth_words(numbers["truth"]),
            probability(numbers["novelty"]) if "novelty" in numbers else None,
            numbers["novel"],
        )

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
    estimate: Estimate
    reason: str
    size: int
    notes: str


@dataclass(frozen=True)
class Instance:
    """One row of a bag's table; ``effects`` has name, value and effect of features, ``owed`` its own and its bag's."""

    index: int
    shown: int
    position: Numeral | None
    estimate: Estimate
    effects: Sequence[tuple[str, Numeral, Numeral]]
    owed: Sequence[Numeral]
    thumbnail: str | None


@dataclass(frozen=True)
class Case:
    """A bag in detail: profile, thumbnails, a table of its instances; ``difference`` explains unlike calls.

    ``edges`` says which side of the patient is at which edge of the pictures of a scan.
    """

    row: Row
    why: str
    difference: str
    referral: str
    profile: str
    film: Sequence[Instance]
    instances: Sequence[Instance]
    edges: str


def bag_names(results: ResultSet, show_ids: bool) -> Array:
    """(B,) what bags are called: by their ids if these are keyed hashes or asked for, else by number."""
    ids = [str(name) for name in results.prediction.ids]
    if show_ids or (results.kind == "ct" and all(HASH.fullmatch(name) for name in ids)):
        return np.array(ids, dtype=np.object_)
    word = Words.of(results.kind).bag
    return np.array([f"{word} {number + 1}" for number in range(len(results))], dtype=np.object_)


def worklist(results: ResultSet, names: Array) -> list[Row]:
    """All bags, from the most to the least probable."""
    rows, sizes = [], np.diff(results.prediction.offsets).tolist()
    for bag in results.by_probability().tolist():
        numbers, size = results.estimate(bag), sizes[bag]
        rows.append(Row(bag, str(names[bag]), Estimate.of(numbers), numbers["reason"], size, results.notes[bag]))
    return rows


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
    edges = edge_words(Edges.of(results.orientation_of(row.number))) if results.kind == "ct" else ""
    return Case(row, why, difference_words(*of), reason_words(*of), profile, film, table, edges)


def _most_probable(instances: Sequence[Instance], most: int) -> list[Instance]:
    """The most probable instances, in the order of the bag."""
    ranked = sorted(instances, key=lambda instance: -float(instance.estimate.log_odds.value))
    return sorted(ranked[:most], key=lambda instance: instance.index)


def _instances(results: ResultSet, bag: int) -> list[Instance]:
    rows, first = results.instances_of(bag), Words.of(results.kind).first
    return [
        Instance(
            index,
            index + first,
            None if results.positions is None else decimal(results.positions[n], ".1f"),
            Estimate.of(results.estimate(bag, index)),
            [
                (name, decimal(value, ".4g"), decimal(effect, "+.3f"))
                for name, value, effect in results.effects_of(bag, index)[:NAMED]
            ],
            [decimal(part, "+.3f") for part in results.owed_of(bag, index) or ()],
            None if results.images is None else picture_uri(results.images[n]),
        )
        for index, n in enumerate(range(rows.start, rows.stop))
    ]
