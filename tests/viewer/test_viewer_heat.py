"""The heat map in the viewer: over called slices, when asked for, where it belongs."""

import json

import numpy as np
import pytest

from chromium import why_not
from image_tools import SIZE, sample_scans
from psimil.results.heat import HEAT_WORDS

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return sample_scans(tmp_path_factory, 2)


def opacity(page, number):
    """(rows, columns) of the heat over a slice."""
    page.locator("#slider").fill(str(number + 1))
    page.wait_for_function("n => document.getElementById('heat').dataset.shown === String(n)", arg=number)
    taken = "const c = document.getElementById('heat'); return [c.height, c.width, ...c.getContext('2d')"
    found = page.evaluate(f"() => {{ {taken}.getImageData(0, 0, c.width, c.height).data]; }}")
    return np.array(found[2:]).reshape(found[0], found[1], 4)[..., 3]


def test_the_heat_map_lies_over_called_slices_when_asked_for(visit):
    visited = visit("ct")
    page, results = visited.page, visited.viewed.results
    bag = next(b for b in range(len(results)) if results.heat[results.instances_of(b)].any())
    rows = results.instances_of(bag)
    called = results.prediction.instance_label[rows]
    page.goto(f"{visited.settings.address}/bag/{visited.viewed.keys[bag]}")
    visited.settled()
    button, heat = page.get_by_role("button", name="Heat map"), page.locator("#heat")
    assert button.get_attribute("aria-pressed") == "false" and not heat.is_visible()
    assert not page.locator("#heat-words").is_visible()

    page.locator("#viewport").press("e")
    assert button.get_attribute("aria-pressed") == "true" and heat.is_visible()
    warm, cold = int(np.flatnonzero(called)[0]), int(np.flatnonzero(called == 0)[0])
    found, expected = opacity(page, warm), results.heat[rows][warm]
    assert found.shape == (SIZE, SIZE)
    np.testing.assert_allclose(found[4:-4, 4:-4], 0.65 * expected[4:-4, 4:-4], atol=2)
    assert page.locator("#heat-words").text_content() == HEAT_WORDS
    assert not opacity(page, cold).any()
    assert page.locator("#heat-words").text_content().startswith("This slice is not called positive, so it has no")
    whole = page.locator("#canvas").bounding_box()
    assert heat.bounding_box() == pytest.approx(whole)
    page.locator("#viewport").press("+")
    assert heat.bounding_box() == pytest.approx(page.locator("#canvas").bounding_box()) != pytest.approx(whole)
    assert page.locator("#heat-note").is_visible()  # on the image, whatever the page has no room for
    page.reload()
    visited.settled()
    assert heat.is_visible() and button.get_attribute("aria-pressed") == "true"  # as in the next scan
    button.click()
    assert not any(page.locator(name).is_visible() for name in ("#heat", "#heat-words", "#heat-note"))
    page.reload()
    visited.settled()
    assert not heat.is_visible()


def test_where_there_is_no_heat_map_there_is_no_button(visit):
    visited = visit("no heat")
    page = visited.open()
    assert not page.get_by_role("button", name="Heat map").is_visible()
    page.locator("#viewport").press("e")
    assert not page.locator("#heat").is_visible()


def test_a_map_lies_in_the_middle_where_slices_are_not_square(visit):
    """The network saw them padded to squares; here the page is told of slices of 41 columns."""
    visited = visit("ct")
    page, results = visited.page, visited.viewed.results
    bag = next(b for b in range(len(results)) if results.heat[results.instances_of(b)].any())
    rows, columns = results.instances_of(bag), 41
    key = visited.viewed.keys[bag]

    def narrow(route):
        details = route.fetch().json()
        details["image"]["columns"] = columns
        route.fulfill(body=json.dumps(details), content_type="application/json")

    page.route(f"**/api/bags/{key}?*", narrow)
    page.route(f"**/api/bags/{key}", narrow)
    page.route("**/slices/*", lambda route: route.fulfill(body=bytes(2 * SIZE * columns)))
    page.goto(f"{visited.settings.address}/bag/{key}")
    visited.settled()
    page.locator("#viewport").press("e")
    warm = int(np.flatnonzero(results.prediction.instance_label[rows])[0])
    found, first = opacity(page, warm), (SIZE - columns) // 2
    expected = results.heat[rows][warm][:, first : first + columns]
    assert found.shape == (SIZE, columns) and expected[4:-4, 2:-2].any()
    np.testing.assert_allclose(found[4:-4, 2:-2], 0.65 * expected[4:-4, 2:-2], atol=2)
