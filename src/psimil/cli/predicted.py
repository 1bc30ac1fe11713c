"""What ``psimil predict`` writes of a table, range by range, so that its size does not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from psimil.cli.score_tables import bag_frame
from psimil.data.bagtable import BagTable, Slide
from psimil.estimators.psi_vgpmil import PsiVGPMIL
from psimil.figures import new_figure, plot_slide, save_figure, slide_table
from psimil.files.rundir import RunDirectory
from psimil.foundations.phases import tell
from psimil.model.bags import Bags
from psimil.model.labels import Classes
from psimil.predictive.predicted_ranges import RANGE_ROWS, whole
from psimil.predictive.prediction import Prediction
from psimil.results.result_set import LARGEST, warn_of_size
from psimil.results.slide_results import write_slide
from psimil.results.tabular_results import tabular_results

SLIDES = "slides"  # folder of their files


@dataclass
class Counts:
    """How many bags were called and referred, and for what reasons."""

    facts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, prediction: Prediction) -> None:
        """Count the bags of a range."""
        of_bags = {"called_positive": prediction.label, "to_refer": prediction.refer, "novel": prediction.novel}
        self.facts.update({name: int(flags.sum()) for name, flags in of_bags.items()})
        self.reasons.update(prediction.reason.tolist())


def write_prediction(
    run: RunDirectory,
    table: BagTable,
    estimator: PsiVGPMIL,
    client: Any = None,
    *,
    file: Path | None = None,
    image_size: tuple[int, int] | None = None,
) -> Counts:
    """Write bags.csv, instances.csv and, of no more than 500 000 instances, the results for viewer and report.

    Of slides that say where their patches lie, tables, shapes and heat maps are written into a folder of their own.

    Parameters
    ----------
    table : with the features of the model in its order.
    client : of a Dask cluster; None predicts here.
    file, image_size : as of :func:`psimil.results.tabular_results.tabular_results`.
    """
    counts, parts, N, done = Counts(), list[Prediction](), table.bags.n_instances, 0
    with run.growing_table("bags.csv") as add_bags, run.growing_table("instances.csv") as add_instances:
        for part in _predictions(estimator, table.bags, client):
            add_bags(bag_frame(part))
            add_instances(part.to_frame("instance"))
            counts.add(part)
            _write_slides(run, part, table.slides, estimator.classes, done)
            done += int(part.offsets[-1])
            if N <= LARGEST:
                parts.append(replace(part))  # without what it has worked out for the tables
    if N > LARGEST:
        warn_of_size(N)
        return counts
    tell("tables", 0, 1)
    whole_prediction = whole(parts)
    parts.clear()  # before there are two copies of it
    tabular_results(table, whole_prediction, estimator, file=file, image_size=image_size).save(run)
    return counts


def _write_slides(
    run: RunDirectory, part: Prediction, all_slides: tuple[Slide, ...], classes: Classes, start: int
) -> None:
    """The slides among the bags of a range whose first instance is ``start``."""
    folder, stop = run.file(SLIDES), start + int(part.offsets[-1])
    slides = [slide for slide in all_slides if start <= slide.start < stop]
    if slides:
        folder.mkdir(exist_ok=True)
    for number, slide in enumerate(slides):
        tell("slides", number, len(slides))
        own = slide._replace(start=slide.start - start)
        write_slide(folder, part, own, classes)
        save_figure(plot_slide(part, own, ax=new_figure()), folder / f"{slide.name}.png", slide_table(part, own))


def _predictions(estimator: PsiVGPMIL, bags: Bags, client: Any) -> Iterator[Prediction]:
    """Of ranges of bags; of all in one where the rows of the file do not come bag after bag, which tables restore."""
    ordered = bags.rows is None or bool((bags.rows[1:] > bags.rows[:-1]).all())
    rows = RANGE_ROWS if ordered else bags.n_instances
    if client is None:
        return estimator.predict_ranges(bags, chunk_size=rows)
    from psimil.cluster import predict_ranges

    return predict_ranges(estimator.model_, bags, client, rows)
