"""What a reader measures in an image: lengths, regions, and the bar that shows the scale."""

import json
import re

import numpy as np
import pytest

from chromium import why_not
from image_tools import SIZE, SPACING, at, drag, mark, sample_scans

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return sample_scans(tmp_path_factory, count=1)


def test_a_length_is_pixels_times_their_spacing(visit):
    page = visit("ct").open()
    page.get_by_role("button", name="Length").click()
    window = page.locator("#window").text_content()
    found = mark(page, 10, 20, 40, 60)
    assert found["length"] == pytest.approx(np.hypot(30 * SPACING[1], 40 * SPACING[0]))
    assert page.locator("#measured").text_content() == f"Length {found['length']:.1f} mm"
    page.locator("#viewport").press("+")
    drag(page, at(page, 20, 20), at(page, 44, 20))
    across = json.loads(page.locator("#measured").get_attribute("data-values"))["length"]
    assert across == pytest.approx(24 * SPACING[1], abs=0.15)
    drag(page, at(page, 20, 20), at(page, 20, 44))
    down = json.loads(page.locator("#measured").get_attribute("data-values"))["length"]
    assert down == pytest.approx(24 * SPACING[0], abs=0.25)
    assert page.locator("#window").text_content() == window
    assert page.locator("#marks line").count() == 2
    page.locator("#viewport").press("Delete")
    assert page.locator("#marks line").count() == 0 and page.locator("#measured").text_content() == ""


def test_a_region_has_the_statistics_of_its_pixels_in_every_slice(visit):
    visited = visit("ct")
    page = visited.open()
    page.locator("#viewport").press("a")
    for key in ("Home", "ArrowDown"):
        page.keyboard.press(key)
    visited.shown(1)
    number = int(visited.viewed.results.by_probability()[0])
    for ends, rows, columns in (
        ((10, 20, 40, 60), slice(20, 60), slice(10, 40)),
        ((40, 60, 10, 20), slice(20, 60), slice(10, 40)),
        ((9.6, 19.6, 40.4, 60.4), slice(20, 60), slice(10, 40)),
        ((0, 0, 64, 64), slice(0, 64), slice(0, 64)),
    ):
        found = mark(page, *ends)
        hu = visited.viewed.slice(number, 1)[rows, columns].astype(float)
        assert (found["mean"], found["sd"]) == pytest.approx((hu.mean(), hu.std()))
        assert (found["least"], found["most"]) == (hu.min(), hu.max())
        assert (found["height"], found["width"]) == hu.shape
    words = page.locator("#measured").text_content().split("\n")
    assert words[0] == f"Mean {hu.mean():.1f} HU, SD {hu.std():.1f}".replace("-", "−")
    assert words[2] == f"64 × 64 px, {64 * 64 * SPACING[0] * SPACING[1]:.0f} mm²"
    for _ in range(8):
        page.locator("#viewport").press("ArrowDown")
    visited.shown(9)
    found = json.loads(page.locator("#measured").get_attribute("data-values"))
    assert found["mean"] == pytest.approx(visited.viewed.slice(number, 9).mean())
    assert mark(page, 5, 5, 5.2, 5.2) == {} and page.locator("#measured").text_content() == "No pixel in the region"


@pytest.mark.parametrize("kind", ["ct", "no spacing"])
def test_the_scale_bar_is_as_long_as_it_says(visit, kind):
    page = visit(kind).open()
    for _ in range(3):
        words = page.locator("#scale-text").text_content()
        length, unit = re.match(r"([\d.]+) (mm|px)", words).groups()
        box = page.locator("#canvas").bounding_box()
        columns = box["width"] / SIZE / (SPACING[1] if kind == "ct" else 1)
        assert unit == ("mm" if kind == "ct" else "px") and ("unknown" in words) == (kind != "ct")
        assert page.locator("#scale").bounding_box()["width"] == pytest.approx(float(length) * columns, rel=0.02)
        for _ in range(4):
            page.locator("#viewport").press("+")


def test_without_spacing_lengths_are_in_pixels_and_say_so(visit):
    page = visit("no spacing").open()
    page.locator("#viewport").press("l")
    assert mark(page, 0, 0, 30, 40)["length"] == pytest.approx(50)
    assert page.locator("#measured").text_content() == "Length 50.0 px\n(size of pixels unknown)"
    page.locator("#viewport").press("a")
    mark(page, 0, 0, 30, 40)
    assert "mm" not in page.locator("#measured").text_content()
