"""What a reader does with an image: sides of the patient, zoom, pan, inversion, cine, measurements, keys, next case."""

import pytest

from chromium import why_not
from image_tools import ORIENTATIONS, SPACING, at, drag, letters, middle, sample_results, slice_number, zoom
from psimil.results.edges import Edges
from psimil.results.result_set import OUT_OF_BAG

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return sample_results(tmp_path_factory)


@pytest.mark.parametrize(("kind", "places"), [("ways", range(7)), ("thumbnails", (0, 3, 6))])
def test_the_edges_say_which_side_of_the_patient_they_are(visit, kind, places):
    visited = visit(kind)
    page = visited.page
    assert len(ORIENTATIONS) == len(visited.viewed.keys) == 7
    for place in places:
        (way, expected, ends), key = ORIENTATIONS[place], visited.viewed.keys[place]
        page.goto(f"{visited.settings.address}/bag/{key}")
        visited.settled()
        assert letters(page) == expected
        assert page.locator("#unoriented").text_content() == ("Orientation unknown" if way is None else "")
        said = f"Every image: {Edges(*expected).words}." if way is not None else "Orientation unknown: "
        assert page.locator("#strip-edges").text_content().startswith(said)
        assert page.locator("#profile text").all_text_contents()[-2:] == ends
        assert "sides" in page.locator("#viewport").get_attribute("aria-describedby").split()
        side = {"R": "right", "L": "left", "A": "front", "": ""}[expected[0]]
        words = f"Left edge of the image: {side} of the patient." if way is not None else "Orientation unknown"
        assert page.locator("#sides").text_content().startswith(words)


def test_results_that_do_not_know_their_orientation_say_so(visit):
    page = visit("old thumbnails").open()
    assert letters(page) == ("",) * 4 and page.locator("#unoriented").is_visible()


def test_only_scans_have_sides(visit):
    page = visit("features").open()
    assert page.locator("#unoriented").text_content() == page.locator("#strip-edges").text_content() == ""


def test_wheel_buttons_and_keys_zoom_where_they_point_and_reset_undoes_it(visit):
    visited = visit("ct")
    page = visited.open()
    whole, start = page.locator("#canvas").bounding_box(), slice_number(page)
    view = page.locator("#viewport").bounding_box()
    assert whole["width"] / whole["height"] == pytest.approx(SPACING[1] / SPACING[0], rel=0.01)  # as in the patient
    assert whole["height"] == pytest.approx(view["height"] - 2, abs=1) and zoom(page) == 1
    x, y = at(page, 48, 16)
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.wait_for_function("document.getElementById('viewport').dataset.zoom > 1.1")
    page.keyboard.up("Control")
    assert at(page, 48, 16) == pytest.approx((x, y), abs=1) and slice_number(page) == start
    before = zoom(page)
    page.get_by_role("button", name="Zoom in").click()
    assert zoom(page) == pytest.approx(1.25 * before, abs=2e-3)
    page.locator("#viewport").press("-")
    assert zoom(page) == pytest.approx(before, abs=2e-3)
    for _ in range(3):
        page.locator("#viewport").press("-")
    assert zoom(page) == 1  # not smaller than the whole
    for _ in range(30):
        page.locator("#viewport").press("+")
    assert zoom(page) == 16
    page.locator("#viewport").press("i")
    page.locator("#viewport").press("3")
    page.get_by_role("button", name="Reset").click()
    assert page.locator("#canvas").bounding_box() == pytest.approx(whole) and zoom(page) == 1
    assert page.get_by_role("button", name="Brain").get_attribute("aria-pressed") == "true"
    assert page.get_by_role("button", name="Invert").get_attribute("aria-pressed") == "false"


def test_the_image_is_moved_by_hand_and_by_keys_and_never_lost(visit):
    page = visit("ct").open()
    view = page.locator("#viewport")
    for _ in range(4):
        view.press("+")

    def place():
        return middle(page.locator("#canvas").bounding_box())

    x, y = before = place()
    window = page.locator("#window").text_content()
    page.get_by_role("button", name="Move").click()
    drag(page, (x, y), (x + 30, y - 20))
    assert place() == pytest.approx((x + 30, y - 20), abs=0.6)
    page.get_by_role("button", name="Window", exact=True).click()
    drag(page, (x, y), (x - 30, y + 20), button="middle")
    assert place() == pytest.approx(before, abs=0.6)
    page.keyboard.down("Shift")
    drag(page, (x, y), (x + 5, y + 5))
    page.keyboard.up("Shift")
    assert place() == pytest.approx((x + 5, y + 5), abs=0.6)
    assert page.locator("#window").text_content() == window
    number = slice_number(page)
    view.press("Shift+ArrowLeft")
    view.press("Shift+ArrowDown")
    assert place() == pytest.approx((x - 35, y + 45), abs=0.6) and slice_number(page) == number
    for _ in range(60):
        view.press("Shift+ArrowRight")
    box, outer = page.locator("#canvas").bounding_box(), middle(view.bounding_box())
    assert box["x"] == pytest.approx(outer[0], abs=1)  # the middle of the viewport stays on the image
    view.press("r")
    assert place() == pytest.approx(outer, abs=1)


def test_two_fingers_zoom_and_one_then_moves(visit):
    visited = visit("ct", has_touch=True)
    page = visited.open()
    touch, number = page.context.new_cdp_session(page), slice_number(page)
    x, y = middle(page.locator("#viewport").bounding_box())

    def fingers(kind, *places):
        points = [{"x": a, "y": b, "id": n} for n, (a, b) in enumerate(places)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    fingers("touchStart", (x - 20, y), (x + 20, y))
    fingers("touchMove", (x - 30, y), (x + 30, y))
    fingers("touchMove", (x - 40, y), (x + 40, y))
    fingers("touchEnd")
    page.wait_for_function("document.getElementById('viewport').dataset.zoom == '2.000'")
    before = page.locator("#canvas").bounding_box()
    fingers("touchStart", (x, y))
    fingers("touchMove", (x + 10, y + 8))
    fingers("touchMove", (x + 20, y + 16))
    fingers("touchEnd")
    page.wait_for_function(
        "before => document.getElementById('canvas').getBoundingClientRect().x > before + 15", arg=before["x"]
    )
    assert slice_number(page) == number


def test_invert_shows_black_as_white(visit):
    page = visit("ct").open()
    page.locator("#viewport").press("Home")
    x, y = at(page, 1, 1)  # air

    def shade():
        from io import BytesIO

        from PIL import Image

        taken = page.screenshot(clip={"x": x, "y": y, "width": 1, "height": 1})
        return Image.open(BytesIO(taken)).convert("L").getpixel((0, 0))

    assert shade() == 0
    page.get_by_role("button", name="Invert").click()
    assert shade() == 255
    page.locator("#viewport").press("i")
    assert shade() == 0


def test_cine_plays_round_and_stops_where_the_reader_goes_on(visit):
    visited = visit("ct")
    page = visited.open()
    assert page.get_by_label("Per second").input_value() == "10"
    page.get_by_label("Per second").fill("30")
    page.locator("#viewport").press("End")
    count = slice_number(page)
    page.get_by_role("button", name="Play").click()
    page.wait_for_function("() => Number(document.getElementById('slider').value) < 10")  # past the end, from the start
    seen = page.evaluate("""async () => { const seen = new Set(), slider = document.getElementById('slider');
        for (let n = 0; n < 40; n += 1) { seen.add(slider.value); await new Promise(done => setTimeout(done, 16)); }
        return seen.size; }""")
    assert 3 < seen <= count
    page.get_by_role("button", name="Pause").click()
    stopped = slice_number(page)
    page.wait_for_timeout(150)
    assert slice_number(page) == stopped
    page.locator("#viewport").press("p")
    page.wait_for_function("before => Number(document.getElementById('slider').value) !== before", arg=stopped)
    page.keyboard.press("Home")
    page.get_by_role("button", name="Play").wait_for()
    page.wait_for_timeout(150)
    assert slice_number(page) == 1


def test_nothing_plays_by_itself_and_slowly_for_those_who_ask_for_less_motion(visit):
    page = visit("ct", reduced_motion="reduce").open()
    number = slice_number(page)
    page.wait_for_timeout(300)
    assert slice_number(page) == number and page.get_by_label("Per second").input_value() == "2"
    assert page.get_by_role("button", name="Play").get_attribute("aria-pressed") == "false"


def test_full_screen_holds_image_and_tools(visit):
    page = visit("ct").open()
    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function("document.fullscreenElement?.id === 'stage'")
    page.wait_for_selector('#full[aria-pressed="true"]')
    assert page.locator("#canvas").bounding_box()["height"] > 500
    page.locator("#viewport").press("f")
    page.wait_for_function("document.fullscreenElement === null")


def test_the_image_uses_the_room_there_is(visit):
    page = visit("ct", viewport={"width": 1280, "height": 900}).open()
    for width, height in ((1280, 900), (1900, 1000)):
        page.set_viewport_size({"width": width, "height": height})
        box = page.locator("#viewport").bounding_box()
        assert box["width"] > 0.55 * width and box["height"] > 0.68 * height


def test_the_help_lists_every_key_and_every_key_works(visit):
    visited = visit("ct")
    page = visited.open()
    page.locator("#viewport").press("?")
    page.wait_for_selector("#help[open]")
    labels = page.locator("#help kbd").all_text_contents()
    assert labels == [
        "↓ →", "↑ ←", "Page Down", "Page Up", "Home", "End", "+", "−", "Shift ←", "Shift →", "Shift ↑", "Shift ↓",
        "0 or R", "I", "E", "P", "F", "1", "2", "3", "4", "W", "M", "L", "A", "Delete", "? or H",
    ]  # fmt: skip
    number = slice_number(page)
    page.keyboard.press("ArrowDown")
    assert slice_number(page) == number  # keys are for the list while it is open
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Close").click()
    for key, drags in (("m", "pan"), ("l", "length"), ("a", "region"), ("w", "window")):
        page.locator("#viewport").press(key)
        assert page.locator("#viewport").get_attribute("data-drag") == drags
        assert page.locator('#drags [aria-pressed="true"]').get_attribute("data-drag") == drags
    page.locator("#bag-note").focus()
    page.keyboard.type("lpi?r+")
    assert page.locator("#viewport").get_attribute("data-drag") == "window" and zoom(page) == 1
    page.get_by_role("link", name="Worklist").focus()
    page.keyboard.press("l")  # single letters belong to the image alone
    assert page.locator("#viewport").get_attribute("data-drag") == "window"


def test_thumbnails_are_zoomed_but_not_measured(visit):
    page = visit("thumbnails").open()
    assert page.locator("#drags").is_hidden() and page.locator("#scale-box").is_hidden()
    page.locator("#viewport").press("l")
    page.locator("#viewport").press("+")
    assert page.locator("#measuring").is_hidden() and zoom(page) == 1.25
    assert "L" not in page.locator("#help kbd").all_text_contents()


def test_next_and_previous_keep_the_order_and_the_filter_of_the_worklist(visit):
    visited = visit("features")
    page = visited.page
    page.get_by_role("button", name="To refer").click()
    page.wait_for_selector('[data-show="refer"][aria-pressed="true"]')
    page.locator("th.uncertainty").get_by_role("button").click()
    page.wait_for_selector('th.uncertainty[aria-sort="descending"]')
    names = page.locator("#rows a").all_text_contents()
    assert len(names) > 2
    visited.open(1)
    heading = page.locator("#heading")
    assert heading.text_content().lower() == names[1].lower()
    page.get_by_role("link", name="Next").click()
    page.wait_for_function("title => document.title.startsWith(title)", arg=f"{names[2]} -")
    for wanted in (names[1], names[0]):
        visited.settled()
        page.get_by_role("link", name="Previous").click()
        page.wait_for_function("title => document.title.startsWith(title)", arg=f"{wanted} -")
    visited.settled()
    assert page.locator("#previous").get_attribute("aria-disabled") == "true"
    page.get_by_role("link", name="Worklist").click()
    page.wait_for_url("**/worklist?*")
    visited.settled()
    assert page.locator("#rows a").all_text_contents() == names


def test_a_run_of_fit_is_shown_and_says_that_it_is_out_of_bag(visit):
    visited = visit("fit")
    page, said = visited.page, OUT_OF_BAG[0].upper() + OUT_OF_BAG[1:]
    assert page.locator("#origin").inner_text() == said
    assert page.locator("#rows tr").count() == 30
    visited.open()
    assert page.locator("#origin").inner_text() == said
    other = visit("features")
    assert not other.page.locator("#origin").is_visible()
