"""What a report says about all bags together: counts, thresholds, scores, calls against truth, calibration."""

from __future__ import annotations

from dataclasses import dataclass

from psimil.figures import reliability_table
from psimil.predictive.referral import UNLIKE
from psimil.report.calls import Words
from psimil.report.numerals import Numeral, count, decimal, probability
from psimil.report.pictures import referral_uri, reliability_uri
from psimil.results.localisation import NAMES as INSIDE
from psimil.results.metrics import UNKNOWN
from psimil.results.referral_curve import referral_cost
from psimil.results.result_set import ResultSet

SCORES = {
    "accuracy": "accuracy", "f1": "F1", "auc": "area under the ROC curve", "log_loss": "log-loss, nats",
    "brier": "Brier score", "ece": "expected calibration error",
}  # fmt: skip


def tiles(results: ResultSet) -> list[tuple[str, str, Numeral]]:
    """Key, label and number of the first things to know."""
    prediction, words, counts = results.prediction, Words.of(results.kind), results.counts()
    labels = {
        "bags": words.bags,
        "instances": words.instances,
        "positives_called": "called positive",
        "to_refer": "to refer to a reader",
        "novel": UNLIKE,
    }
    if prediction.novelty is None:
        del labels["novel"]
    return [
        *((key, label, count(counts[key])) for key, label in labels.items()),
        ("threshold", f"{words.bag} threshold", probability(prediction.threshold)),
        ("instance_threshold", f"{words.instance} threshold", probability(prediction.instance_threshold)),
    ]


@dataclass(frozen=True)
class Scores:
    """Scores where the truth is known.

    Parameters
    ----------
    n_bags, n_instances : with a known label.
    rows : key, name, score of the bags, score of the instances (None without instance labels).
    calls : truth in words, numbers called positive and negative, and how many of both are to be referred.
    bins : rows of the reliability table: start, count, mean probability, share of positives with its interval.
    reliability, referral : pictures as data: URIs.
    inside : key, name, score of the model and of the middle of the bag, for what is found inside bags.
    n_inside : bags with instances of both kinds.
    cost : what the referral of the model costs on these bags, in words.
    """

    n_bags: Numeral
    n_instances: Numeral
    rows: list[tuple[str, str, Numeral, Numeral | None]]
    calls: list[tuple[str, Numeral, Numeral, Numeral]]
    bins: list[tuple[Numeral, ...]]
    reliability: str
    referral: str
    cost: str
    inside: list[tuple[str, str, Numeral, Numeral]]
    n_inside: Numeral


def scores(results: ResultSet) -> Scores | None:
    """Scores of the bags whose label is known; None when there are none."""
    bags, instances = results.scores(), results.instance_scores()
    if bags is None:
        return None
    prediction, known = results.prediction, results.truth != UNKNOWN
    y, prob, score = results.truth[known], prediction.prob[known], prediction.referral_score[known]
    return Scores(
        count(int(known.sum())),
        count(int((results.instance_truth != UNKNOWN).sum())),
        [
            (key, name, decimal(bags[key]), None if instances is None else decimal(instances[key]))
            for key, name in SCORES.items()
        ],
        _calls(results),
        [
            (decimal(start, ".1f"), count(n), *map(decimal, rest))
            for start, n, *rest in reliability_table(y, prob).itertuples(index=False)
        ],
        reliability_uri(y, prob),
        referral_uri(y, prob, score, prediction.threshold),
        referral_cost(y, prob, score > 0, prediction.threshold).words,
        *_inside(results),
    )


def _inside(results: ResultSet) -> tuple[list[tuple[str, str, Numeral, Numeral]], Numeral]:
    inside, words = results.localisation(), Words.of(results.kind)
    if inside is None:
        return [], count(0)
    names = (name for name, *_ in inside.rows(words.bag, words.instance))
    rows = [
        (key, name, decimal(inside.model[key]), decimal(inside.middle[key]))
        for key, name in zip(INSIDE, names, strict=True)
    ]
    return rows, count(inside.n_both_kinds)


def _calls(results: ResultSet) -> list[tuple[str, Numeral, Numeral, Numeral]]:
    prediction = results.prediction

    def numbers(label: int) -> tuple[Numeral, Numeral, Numeral]:
        part = results.truth == label
        positive = prediction.label == 1
        return count((part & positive).sum()), count((part & ~positive).sum()), count((part & prediction.refer).sum())

    return [("positive", *numbers(1)), ("negative", *numbers(0))]
