"""Results whose images a reader looks at, and what a hand does on the page."""

import json
from dataclasses import replace

import numpy as np

from commands import trained
from psimil.ct.scans.cohort import ReadingRules
from psimil.results.result_set import ResultSet
from psimil.viewer.volumes import Volumes, volumes_of
from viewed import HASHER, ct_results, feature_results

SIZE, SPACING = 64, (0.8, 0.4)
TILT = (1, 0, 0, 0, np.cos(0.35), -np.sin(0.35))
ORIENTATIONS = [
    ((1, 0, 0, 0, 1, 0), ("R", "L", "A", "P"), ["feet", "head"]),
    ((-1, 0, 0, 0, 1, 0), ("L", "R", "A", "P"), ["feet", "head"]),  # mirrored
    ((1, 0, 0, 0, -1, 0), ("R", "L", "P", "A"), ["feet", "head"]),  # upside down
    ((1, 0, 0, 0, 0, -1), ("R", "L", "H", "F"), ["front", "back"]),  # coronal
    ((0, 1, 0, 0, 0, -1), ("A", "P", "H", "F"), ["right", "left"]),  # sagittal
    (TILT, ("R", "L", "AH", "PF"), ["feet", "head"]),
    (None, ("", "", "", ""), ["first", "last"]),
]


def sample_results(tmp_path_factory):
    """Scans of several orientations with and without files, spacing and thumbnails; features; a run of a fit."""
    fit = ResultSet.load(trained(tmp_path_factory.mktemp("fit")) / "run")
    return {**sample_scans(tmp_path_factory), "features": (feature_results(), None), "fit": (fit, None)}


def sample_scans(tmp_path_factory, count=7):
    """The scans alone, of the first ``count`` orientations."""
    scans, studies = ct_results(tmp_path_factory.mktemp("scans"), scans=count, size=SIZE)
    real = volumes_of(studies, scans.series, ReadingRules(), HASHER)

    def shown(orientations, spacing=SPACING):
        """The scans with other headers."""
        other = {}
        for name, orientation in zip(scans.series, orientations, strict=True):
            slices = real._series[name].slices
            slices = tuple(replace(header, orientation=orientation, spacing=spacing) for header in slices)
            other[name] = replace(real._series[name], slices=slices)
        return scans, Volumes(other, lambda series: real._read(real._series[series.id]))

    ways = [way for way, *_ in ORIENTATIONS[:count]]
    known = np.array([(0,) * 6 if way is None else way for way in ways], dtype=float)
    return {
        "ways": shown(ways),
        "thumbnails": (replace(scans, orientation=known), None),
        "old thumbnails": (scans, None),
        "ct": shown([ways[0]] * len(ways)),
        "no heat": (replace(scans, heat=None), None),
        "no spacing": shown(ways, None),
    }


def letters(page):
    return tuple(page.locator(f"#edge-{side}").text_content() for side in ("left", "right", "top", "bottom"))


def zoom(page):
    return float(page.locator("#viewport").get_attribute("data-zoom"))


def middle(box):
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def slice_number(page):
    return int(page.locator("#slider").input_value())


def mark(page, *ends):
    for name, value in zip(("from-column", "from-row", "to-column", "to-row"), ends, strict=True):
        page.locator(f"#{name}").fill(str(value))
    page.locator("#to-row").press("Enter")
    return json.loads(page.locator("#measured").get_attribute("data-values"))


def drag(page, start, end, **options):
    page.mouse.move(*start)
    page.mouse.down(**options)
    page.mouse.move(*end, steps=3)
    page.mouse.up(**options)


def at(page, x, y):
    """Where a place of the image, in columns and rows, is on the screen."""
    box = page.locator("#canvas").bounding_box()
    return box["x"] + x / SIZE * box["width"], box["y"] + y / SIZE * box["height"]
