"""What bags and instances are called, in words: nouns, numbers, thresholds that differ, and why bags are referred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from psimil.predictive.novelty import NOVEL
from psimil.predictive.prediction import Prediction
from psimil.predictive.referral import BOTH, KEPT, NEAR, UNLIKE, not_analysed
from psimil.report.numerals import probability

NOTE = "Research use only, not a medical device."


@dataclass(frozen=True)
class Words:
    """What bags and instances are called, and the number of the first instance.

    Examples
    --------
    >>> Words.of("ct").bags, Words.of("features").instance
    ('scans', 'instance')
    """

    bag: str
    bags: str
    instance: str
    instances: str
    first: int

    @classmethod
    def of(cls, kind: str) -> Words:
        """For a kind of bags; slices are counted from 1, as in DICOM reports, instances from 0, as in tables."""
        if kind == "ct":
            return cls("scan", "scans", "slice", "slices", 1)
        if kind == "images":
            return cls("bag", "bags", "image", "images", 0)
        return cls("bag", "bags", "instance", "instances", 0)


def threshold_words(threshold: float, instance_threshold: float, words: Words) -> str:
    """From where on bags and instances are called positive, and why that is not the same number.

    Examples
    --------
    >>> threshold_words(0.5, 0.12, Words.of("ct"))[:76]
    'Scans are called positive from probability 0.500 on, slices from 0.120 on: t'
    """
    bag, instance = probability(threshold).text, probability(instance_threshold).text
    return (
        f"{words.bags.capitalize()} are called positive from probability {bag} on, {words.instances} from {instance} "
        f"on: two thresholds, the first chosen so that most training {words.bags} are called rightly, the second so "
        f"that few {words.instances} of negative {words.bags} reach it."
    )


def difference_words(prediction: Prediction, bag: int, words: Words) -> str:
    """Why a bag and its instances are not called alike; empty when they are.

    Parameters
    ----------
    prediction : of B bags.
    bag : number of the bag.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, seed=1)
    >>> found = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).predict_dist(bags)
    >>> isinstance(difference_words(found, 0, Words.of("features")), str)
    True
    """
    above = int(prediction.instance_label[prediction.instances_of(bag)].sum())
    positive = bool(prediction.label[bag])
    if positive == (above > 0):
        return ""
    limits = [probability(value).text for value in (prediction.threshold, prediction.instance_threshold)]
    if positive:
        sums = f", and what its {words.instances} say adds up" if prediction.aggregate == "noisy_or" else ""
        return (
            f"The {words.bag} reaches the {words.bag} threshold {limits[0]}, none of its {words.instances} alone the "
            f"{words.instance} threshold {limits[1]}. This is no contradiction: each has a threshold of its own{sums}."
        )
    reach = f"1 {words.instance} reaches" if above == 1 else f"{above} {words.instances} reach"
    return (
        f"{reach} the {words.instance} threshold {limits[1]}, but the {words.bag} stays below the {words.bag} "
        f"threshold {limits[0]}. This is no contradiction: each has a threshold of its own."
    )


def referral_words(prediction: Prediction) -> str:
    """How many bags are to be referred, and why: :func:`reasons_counted` of one prediction.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, seed=1)
    >>> found = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).predict_dist(bags)
    >>> referral_words(found).partition(" reader")[0].split(" ", 1)[1]
    'to refer to a'
    """
    return reasons_counted(Counter(prediction.reason.tolist()))


def reasons_counted(reasons: Mapping[str, int]) -> str:
    """The same from the number of bags for every reason.

    Examples
    --------
    >>> reasons_counted({NEAR: 2, BOTH: 1, "": 5})
    '3 to refer to a reader (2 near the threshold, 1 both)'
    """
    order = (NEAR, UNLIKE, BOTH, *sorted(set(reasons) - {KEPT, NEAR, UNLIKE, BOTH}))
    counts = {"both" if why == BOTH else why: reasons.get(why, 0) for why in order}
    parts = [f"{n} {short}" for short, n in counts.items() if n]
    return f"{sum(counts.values())} to refer to a reader" + (f" ({', '.join(parts)})" if parts else "")


def reason_words(prediction: Prediction, bag: int, words: Words) -> str:
    """Why a bag is to be referred, or why not, in a sentence.

    Parameters
    ----------
    prediction : of B bags.
    bag : number of the bag.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=8, seed=1)
    >>> found = VGPMIL(n_inducing=4, max_iter=2, tol=0.0, random_state=0).fit(bags, y).predict_dist([bags[0] + 1e6])
    >>> reason_words(found, 0, Words.of("ct")).partition(" (novelty 1.000, more than 0.5)")[0][-24:]
    'unlike the training data'
    """
    novelty = "" if prediction.novelty is None else f" (novelty {probability(prediction.novelty[bag]).text}"
    why = []
    if prediction.obstacles is not None and (obstacle := str(prediction.obstacles[bag])):
        return f"Refer this {words.bag} to a reader, as it {not_analysed(obstacle)}."
    if prediction.uncertain[bag]:
        why.append(NEAR)
    if prediction.novel[bag]:
        why.append(f"{UNLIKE}{novelty}, more than {NOVEL:g}), so that its probability says little")
    if why:
        return f"Refer this {words.bag} to a reader: it is {' and it is '.join(why)}."
    like = f" and like the training data{novelty})" if novelty else ""
    return f"Not referred: this {words.bag} is clear of the threshold{like}."
