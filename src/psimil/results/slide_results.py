"""What a prediction says about the patches of a slide, for other tools: HDF5 beside coords, and GeoJSON for QuPath."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from psimil.data.bagtable import Slide
from psimil.data.h5_file import h5_bytes
from psimil.files.atomic import atomic_write
from psimil.model.labels import ZERO_ONE, Classes, text
from psimil.predictive.prediction import Prediction
from psimil.predictive.prediction_table import estimate

NUMBERS = ("prob", "std", "lower", "upper", "label", "novelty")
MEASURED = {"prob": "Probability", "std": "Standard deviation", "novelty": "Novelty"}
WORDS = {0: "Negative", 1: "Positive"}  # of classes that are numbers
COLOURS = ((0, 114, 178), (213, 94, 0))  # of negative and positive patches: blue and vermilion of Okabe and Ito


def slide_table(prediction: Prediction, slide: Slide) -> pd.DataFrame:
    """One row per patch in the order of the slide's file: its place, probability, uncertainty, call and novelty.

    Parameters
    ----------
    prediction : of ``predict_dist``.
    slide : one of the :class:`psimil.data.bagtable.Slide` of the table that was predicted.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> slide_table(prediction, Slide("s2", 4, np.zeros((4, 2)), {})).columns.tolist()
    ['x', 'y', 'prob', 'std', 'lower', 'upper', 'label', 'novelty']
    """
    numbers = prediction.instance_numbers
    columns = {"x": slide.coords[:, 0], "y": slide.coords[:, 1]}
    return pd.DataFrame(columns | {name: numbers[name][slide.rows] for name in NUMBERS if name in numbers})


def bag_of(prediction: Prediction, slide: Slide) -> int:
    """The position of the bag that a slide is, or is part of."""
    return int(np.searchsorted(prediction.offsets, slide.start, side="right")) - 1


def geojson(prediction: Prediction, slide: Slide, classes: Classes = ZERO_ONE) -> dict[str, Any]:
    """The patches as squares with a class and measurements, as QuPath imports them (File, Import objects from file).

    Parameters
    ----------
    prediction, slide : as of :func:`slide_table`.
    classes : what negative and positive patches are called.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> found = geojson(prediction, Slide("s2", 4, np.zeros((4, 2)), {"patch_size": np.array(256)}))
    >>> found["features"][0]["geometry"]["coordinates"]
    [[[0.0, 0.0], [256.0, 0.0], [256.0, 256.0], [0.0, 256.0], [0.0, 0.0]]]
    """
    table, side = slide_table(prediction, slide), slide.side
    kinds = [
        {"name": WORDS[number] if tuple(classes) == ZERO_ONE else text(name), "color": list(COLOURS[number])}
        for number, name in enumerate(classes)
    ]
    measured = {words: table[name].tolist() for name, words in MEASURED.items() if name in table}
    features = []
    for patch, (x, y, called) in enumerate(zip(*(table[name].tolist() for name in ("x", "y", "label")), strict=True)):
        square = [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]]
        properties = {
            "objectType": "tile",
            "classification": kinds[called],
            "measurements": {words: values[patch] for words, values in measured.items()},
        }
        geometry = {"type": "Polygon", "coordinates": [square]}
        features.append({"type": "Feature", "geometry": geometry, "properties": properties})
    return {"type": "FeatureCollection", "features": features}


def write_slide(folder: Path, prediction: Prediction, slide: Slide, classes: Classes = ZERO_ONE) -> None:
    """Write ``<slide>.h5`` and ``<slide>.geojson`` into a folder.

    The HDF5 file has the datasets coords, with the attributes of the slide's own file, prob, std, lower, upper, label
    and novelty (n,), and as attributes of the file the same numbers of the bag and the threshold of the patches.

    Parameters
    ----------
    folder : must be there.
    prediction, slide, classes : as of :func:`geojson`.

    Raises
    ------
    OutputError
        When a file cannot be written.

    Examples
    --------
    >>> from psimil import VGPMIL, datasets
    >>> bags, y, _ = datasets.make_bags(n_bags=10, bag_size=(4, 4), seed=0)
    >>> prediction = VGPMIL(n_inducing=5, random_state=0).fit(bags, y).predict_dist(bags)
    >>> write_slide(Path(), prediction, Slide("s2", 4, np.zeros((4, 2)), {}))
    >>> sorted(path.name for path in Path().iterdir())
    ['s2.geojson', 's2.h5']
    """
    table = slide_table(prediction, slide).drop(columns=["x", "y"])
    of_bag = estimate(prediction, bag_of(prediction, slide))
    attributes = {f"bag_{name}": of_bag[name] for name in NUMBERS if name in of_bag}
    attributes |= {"instance_threshold": prediction.instance_threshold, "level": prediction.level}
    arrays = {"coords": slide.coords} | {name: table[name].to_numpy() for name in table}
    content = h5_bytes(arrays, {"coords": slide.attributes, "/": attributes})
    atomic_write(folder / f"{slide.name}.h5", lambda stream: stream.write(content))
    shapes = json.dumps(geojson(prediction, slide, classes), allow_nan=False).encode()
    atomic_write(folder / f"{slide.name}.geojson", lambda stream: stream.write(shapes))
