"""The viewer's pages for every reader: names, contrast, keyboard, small screens, nothing that jumps."""

import re
from pathlib import Path

import pytest

import psimil.viewer
from chromium import why_not
from psimil.ct.scans.cohort import ReadingRules
from psimil.viewer.volumes import volumes_of
from viewed import HASHER, ct_results, feature_results, image_results

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
KINDS = ("ct", pytest.param("images", marks=pytest.mark.slow), pytest.param("features", marks=pytest.mark.slow))
NAMELESS = """() => [...document.querySelectorAll('a, button, input, select, textarea, [role=img], [tabindex="0"]')]
  .filter(node => node.offsetParent !== null || node.closest('svg'))
  .filter(node => !(node.getAttribute('aria-label') || node.labels?.[0]?.innerText.trim() || node.innerText?.trim()))
  .map(node => node.outerHTML.slice(0, 120))"""
FAINT = (Path(__file__).parents[1] / "support" / "contrast.js").read_text()


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    scans, studies = ct_results(folder / "scans", scans=2, size=64)
    notes = ("gantry tilt of 8.5 degrees", *[""] * (len(scans) - 1))
    volumes = volumes_of(studies, scans.series, ReadingRules(), HASHER)
    object.__setattr__(scans, "notes", notes)
    return {"ct": (scans, volumes), "images": (image_results(), None), "features": (feature_results(), None)}


def both_pages(visited):
    yield visited.page
    page = visited.open()
    page.locator("#bag-feedback").get_by_label("Disagree", exact=True).check()
    page.locator("#bag-feedback").get_by_text("Saved", exact=True).wait_for()
    page.evaluate("document.getElementById('values').open = true")
    page.wait_for_selector("#values-table tbody tr")
    yield page
    page.get_by_role("link", name="Worklist").click()
    page.wait_for_url("**/worklist*")
    yield visited.settled()


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_can_be_used_has_a_name_and_pages_say_what_they_are_not(visit, kind):
    for page in both_pages(visit(kind)):
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate("document.documentElement.lang") == "en"
        assert page.title()
        for landmark in ("banner", "main", "contentinfo"):
            assert page.get_by_role(landmark).count() == 1
        assert page.locator("h1").count() == 1
        assert page.locator("th:not([scope])").count() == 0
        assert page.locator("table:not(:has(caption))").count() == 0
        assert page.locator("img:not([alt])").count() == 0
        ids = page.locator("[id]").evaluate_all("nodes => nodes.map(node => node.id)")
        assert len(ids) == len(set(ids))
        assert page.get_by_role("contentinfo").inner_text() == "Research use only, not a medical device."


@pytest.mark.parametrize("kind", KINDS)
def test_text_stands_out_from_what_is_behind_it(visit, kind):
    """WCAG 2.2: 4.5 to 1, or 3 to 1 for large text and for the edges of controls; in light and in dark."""
    for page in both_pages(visit(kind, reduced_motion="reduce")):
        backgrounds = set()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            measured, faint = page.evaluate(FAINT)
            assert measured > 20
            assert faint == []
        assert len(backgrounds) == 2


def test_the_measure_of_contrast_finds_faint_text(visit):
    page = visit("features", reduced_motion="reduce").page
    page.evaluate("document.getElementById('heading').style.color = '#999'")
    _, faint = page.evaluate(FAINT)
    assert [found["text"] for found in faint] == ["Worklist of 30 bags"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_needs_no_scrolling_to_the_side(visit, kind):
    visited = visit(kind, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    for page in both_pages(visited):
        assert page.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_jumps_while_it_loads_or_when_slices_change(visit, kind):
    visited = visit(kind)
    observe = """() => { window.shifts = []; new PerformanceObserver(list => window.shifts.push(...list.getEntries()
                 .map(entry => entry.value))).observe({ type: 'layout-shift', buffered: true }); }"""
    visited.page.reload()
    visited.settled().evaluate(observe)
    visited.page.wait_for_timeout(60)
    assert sum(visited.page.evaluate("window.shifts")) < 0.01
    page = visited.open()
    page.reload()
    visited.settled().evaluate(observe)
    for key in ("Home", "ArrowDown", "ArrowDown", "PageDown", "End"):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
    assert sum(page.evaluate("window.shifts")) < 0.01


def test_the_whole_way_can_be_gone_by_keyboard(visit):
    visited = visit("ct")
    page = visited.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('tbody') !== null"):
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/bag/*")
    visited.settled()
    stops = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        stops.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"viewport", "slider", "level", "width", "bag-note", "instance-note", "next"} <= stops
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_letters_in_a_note_do_not_move_the_slices(visit):
    page = visit("ct").open()
    page.keyboard.press("Home")
    page.locator("#bag-note").focus()
    for key in ("4", "ArrowDown", "End", "PageDown"):
        page.keyboard.press(key)
    assert page.locator("#place").inner_text().startswith("Slice 1 of")
    assert page.get_by_role("button", name="Brain").get_attribute("aria-pressed") == "true"


def test_the_reader_chooses_light_or_dark_and_it_stays(visit):
    visited = visit("features", color_scheme="light")
    page = visited.page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Dark mode").click()
    dark = page.evaluate(background)
    assert dark != light
    visited.open()
    assert page.evaluate(background) == dark


def test_nothing_moves_for_those_who_ask_for_it(visit):
    duration = "getComputedStyle(document.querySelector('#filters button')).transitionDuration"
    assert visit("features").page.evaluate(duration) != "0s"
    assert visit("features", reduced_motion="reduce").page.evaluate(duration) == "0s"


def test_pages_load_their_scripts_at_once(visit):
    """Each script is named in the page, so none waits for another one to be read."""
    visited = visit("features")
    for go in (visited.settled, visited.open):
        page = go()
        named = page.locator("head [href$='.js'], head [src$='.js']").evaluate_all("n => n.map(e => e.href || e.src)")
        visited.requests.clear()
        page.reload()
        visited.settled()
        assert sorted(url for url in visited.requests if url.endswith(".js")) == sorted(named) != []


def test_scripts_are_small_and_pages_have_nothing_inline():
    package = Path(psimil.viewer.__file__).parent
    for script in sorted((package / "static").glob("*.js")):
        assert len(script.read_text(encoding="utf-8").splitlines()) < 200, script.name
    for page in sorted((package / "templates").glob("*.html")):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"style=|<style|\son\w+=", text), page.name
        assert all("src=" in tag for tag in text.split("<script")[1:]), page.name
