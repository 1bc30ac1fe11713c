"""One HTML file of a prediction: no script, no network, pictures inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from psimil.foundations.errors import InputError
from psimil.foundations.extras import needed
from psimil.report.calls import NOTE, Words, referral_words, threshold_words
from psimil.report.cases import bag_names, chosen_cases, worklist
from psimil.report.numerals import probability
from psimil.report.summary import scores, tiles
from psimil.results.result_set import ResultSet
from psimil.version import VERSION


@dataclass(frozen=True)
class Choices:
    """What a report shows.

    Parameters
    ----------
    probable, uncertain : how many of the most probable and the most uncertain bags are shown in detail.
    show_ids : name bags by their ids; without it only ids of scans that are keyed hashes are shown.
    title : of the document.

    Examples
    --------
    >>> Choices(uncertain=0).title
    'Prediction report'
    """

    probable: int = 5
    uncertain: int = 5
    show_ids: bool = False
    title: str = "Prediction report"

    def __post_init__(self) -> None:
        if min(self.probable, self.uncertain) < 0:
            raise InputError("the numbers of bags to show in detail must not be negative.")


def render_report(results: ResultSet, choices: Choices | None = None, *, source: str = "") -> str:
    """The report as the text of an HTML file; the same results give the same text.

    Parameters
    ----------
    results : of a run.
    source : says which results file it was made of, for instance the beginning of its SHA-256.

    Raises
    ------
    InputError
        When Jinja2 is not installed.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> text = render_report(ResultSet.of(prediction), Choices(probable=1, uncertain=0))
    >>> text[:15], "Research use only" in text
    ('<!doctype html>', True)
    """
    choices = choices or Choices()
    prediction, words = results.prediction, Words.of(results.kind)
    rows = worklist(results, bag_names(results, choices.show_ids))
    probable, uncertain = chosen_cases(results, rows, choices.probable, choices.uncertain)
    render: Callable[..., str] = _template().render
    return render(
        results=results,
        title=choices.title,
        note=NOTE,
        version=VERSION,
        source=source,
        words=words,
        percent=f"{100 * prediction.level:.4g} %",
        threshold=probability(prediction.threshold),
        thresholds=threshold_words(prediction.threshold, prediction.instance_threshold, words),
        has_novelty=prediction.novelty is not None,
        tiles=tiles(results),
        referral=referral_words(prediction),
        scores=scores(results),
        rows=rows,
        probable=probable,
        uncertain=uncertain,
        shown={case.row.number for case in (*probable, *uncertain)},
    )


@cache
def _template() -> Any:
    with needed("reports need Jinja2", "viewer"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
    environment = Environment(
        loader=PackageLoader("psimil.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")
