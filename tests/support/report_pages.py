"""Result sets made without training, and a reader of the numbers in a report."""

from html.parser import HTMLParser

import numpy as np

from psimil.predictive.aggregates import NoisyOr
from psimil.predictive.moments import instance_moments
from psimil.predictive.prediction import Prediction
from psimil.results.result_set import ResultSet

VOID = {"meta", "img", "br", "line", "circle"}


def predicted(n_bags=6, size=4, ids=None, seed=0):
    """A prediction of bags of equal size from random latent moments."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(-1, 3, n_bags * size), rng.uniform(0.1, 2, n_bags * size)
    ids = np.arange(n_bags) if ids is None else np.asarray(ids)
    instances, offsets = instance_moments(mean, variance), np.arange(0, n_bags * size + 1, size)
    bags = NoisyOr().moments(instances, offsets)
    return Prediction(ids, offsets, None, mean, variance, instances, bags, "noisy_or")


def feature_results(n_bags=6, size=4, *, ids=None, names=("width", "height"), **how):
    """Bags of numbers with two telling features each."""
    N = n_bags * size
    effects = (np.tile([1, 0], (N, 1)), np.random.default_rng(1).normal(0, 50, (N, 2)), np.full((N, 2), -0.25))
    return ResultSet.of(predicted(n_bags, size, ids), effects=effects, feature_names=names, **how)


def scan_results(n_bags=3, size=8, **how):
    """Scans with thumbnails, positions and known slices."""
    N = n_bags * size
    prediction = predicted(n_bags, size, [f"{n:016x}" for n in range(n_bags)])
    known = (np.arange(N) % 4 == 0).astype(int)
    images = np.random.default_rng(2).integers(0, 256, (N, 8, 8)).astype(np.uint8)
    parts = {"truth": np.maximum.reduceat(known, prediction.offsets[:-1]), "instance_truth": known, "images": images}
    return ResultSet.of(prediction, kind="ct", positions=np.arange(N) * 5.0, **(parts | how))


class Page(HTMLParser):
    """A report as its reader's program sees it.

    ``source`` is what was read, ``tags`` are its start tags with attributes in order, ``texts`` its text; ``open`` is
    what was not closed; ``bags`` and ``instances`` hold the numbers of the worklist by bag, and of the tables by bag
    and instance; ``facts`` those of the summary, ``scores`` those of the scores, ``inside`` those of what is found
    inside bags.
    """

    def __init__(self, text):
        super().__init__()
        self.source, self.tags, self.texts, self.open = text, [], [], []
        self.bags, self.instances, self.facts, self.scores, self.inside, self.bins = {}, {}, {}, {}, {}, []
        self._article, self._row = None, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "article":
            self._article = int(found["data-bag"])
        if tag == "tr":
            self._row = self._place(found)
        if tag in ("th", "td", "dd") and "data-field" in found:
            (self.facts if self._row is None else self._row)[found["data-field"]] = float(found["data-value"])

    def _place(self, found):
        if "data-instance" in found:
            return self.instances.setdefault((self._article, int(found["data-instance"])), {})
        if "data-bag" in found:
            return self.bags.setdefault(int(found["data-bag"]), {})
        if "data-score" in found:
            return self.scores.setdefault(found["data-score"], {})
        if "data-inside" in found:
            return self.inside.setdefault(found["data-inside"], {})
        self.bins.append({})
        return self.bins[-1]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
            self.open.pop()
        if tag == "article":
            self._article = None
        if tag == "tr":
            self._row = None

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        """All text, spaces made one."""
        return " ".join(" ".join(self.texts).split())
