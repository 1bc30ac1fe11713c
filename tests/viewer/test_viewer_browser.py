"""The viewer's pages in a real browser: what a reader does, and what then is on the screen."""

import re
from dataclasses import replace

import numpy as np
import pytest

from chromium import why_not
from psimil.ct.scans.cohort import ReadingRules
from psimil.ct.scans.windows import BLOOD, BONE, BRAIN, SOFT
from psimil.predictive.referral import UNLIKE
from psimil.report.calls import Words, reason_words
from psimil.viewer.volumes import volumes_of
from viewed import CARD, HASHER, ct_results, feature_results, image_results

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SIZE = 64


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    scans, studies = ct_results(tmp_path_factory.mktemp("scans"), scans=3, size=SIZE)
    volumes = volumes_of(studies, scans.series, ReadingRules(), HASHER)
    unlike = replace(scans, prediction=replace(scans.prediction, threshold=1 - 1e-12, instance_threshold=0.1))
    return {
        "unlike": (unlike, volumes),
        "ct": (scans, volumes), "thumbnails": (scans, None), "images": (image_results(), None),
        "features": (feature_results(), None),
    }  # fmt: skip


def numbers(page, column):
    return [
        float(v) for v in page.locator(f"td.{column} [data-value]").evaluate_all("n => n.map(e => e.dataset.value)")
    ]


def first_bag(viewed):
    return int(viewed.results.by_probability()[0])


def place_text(page):
    return page.locator("#place").inner_text().split("\n")[0]


def canvas_grey(page):
    """(rows, columns) what the canvas shows."""
    script = """c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                       return [c.height, c.width, Array.from(d).filter((_, i) => i % 4 === 0)]; }"""
    rows, columns, grey = page.locator("#canvas").evaluate(script)
    return np.array(grey).reshape(rows, columns)


def test_the_link_signs_in_and_its_token_leaves_the_address(visit):
    visited = visit("features", viewport={"width": 1280, "height": 900})  # so that no page was lent
    assert visited.settings.token not in visited.page.url
    assert [address for address in visited.requests if address.endswith("/session")]
    visited.page.go_back()
    assert visited.settings.token not in visited.page.url


def test_without_a_valid_token_the_page_says_what_to_do(visit, browser):
    settings = visit("features").settings
    with browser.new_context() as stranger:
        page = stranger.new_page()
        for address, said in (("/", "psimil view printed"), ("/#wrong", "not valid any more")):
            page.goto("about:blank")  # an address with another fragment alone is no other page
            page.goto(settings.address + address)
            page.get_by_role("alert").get_by_text(said).wait_for()


def test_headers_sort_and_sort_back_and_survive_a_reload(visit):
    visited = visit("features")
    page = visited.page
    assert numbers(page, "probability") == sorted(numbers(page, "probability"), reverse=True)
    header = page.locator("th.uncertainty")
    header.get_by_role("button").click()
    page.wait_for_selector('th.uncertainty[aria-sort="descending"]')
    assert numbers(page, "uncertainty") == sorted(visited.viewed.results.prediction.std.tolist(), reverse=True)
    header.get_by_role("button").press("Enter")
    page.wait_for_selector('th.uncertainty[aria-sort="ascending"]')
    page.reload()
    visited.settled()
    assert numbers(page, "uncertainty") == sorted(visited.viewed.results.prediction.std.tolist())


def test_the_filter_shows_the_cases_to_refer(visit):
    visited = visit("features")
    page, refer = visited.page, visited.viewed.results.prediction.refer
    page.get_by_role("button", name="To refer").click()
    page.wait_for_selector('[data-show="refer"][aria-pressed="true"]')
    assert page.locator("#rows tr").count() == page.locator("#rows .badge.refer").count() == refer.sum() > 0


def test_what_is_unlike_the_training_data_is_said_in_the_list(visit):
    visited = visit("features")
    page, found = visited.page, visited.viewed.results.prediction
    page.get_by_role("button", name="Unlike training").click()
    page.wait_for_selector('[data-show="novel"][aria-pressed="true"]')
    assert page.locator("#rows tr").count() == page.locator("#rows .badge.novel").count() == found.novel.sum() > 0
    assert set(page.locator("#rows .badge.novel").all_inner_texts()) == {UNLIKE.capitalize()}
    whole = page.locator("#rows .badge.refer").all_text_contents()
    assert sorted(whole) == sorted(f"Refer: {why}" for why in found.reason[found.novel])
    assert numbers(page, "novelty") == [0.875] * int(found.novel.sum())
    assert page.locator("#tiles").get_by_text(UNLIKE.capitalize()).count() == 1


def test_without_novelty_nothing_is_said_of_it(visit):
    page = visit("images").page
    assert page.get_by_role("button", name="Unlike training").count() == page.locator("th.novelty").count() == 0


def test_what_is_unlike_the_training_data_is_said_of_scan_and_slice(visit):
    visited = visit("ct")
    found = visited.viewed.results.prediction
    number = int(np.flatnonzero(found.novel)[0])
    place = visited.viewed.results.by_probability().tolist().index(number)
    page, last = visited.open(place), int(np.diff(found.offsets)[number])
    assert reason_words(found, number, Words.of("ct")) in page.locator("#card").inner_text()
    assert page.locator("#strip .is-novel").count() == page.locator("#profile .novel").count() == 1
    assert f"{UNLIKE}, " in page.locator("#strip .is-novel").get_attribute("aria-label")
    assert f"Marks above: {UNLIKE}." in page.locator("#profile-key").inner_text()
    page.keyboard.press("End")
    assert UNLIKE.capitalize() in page.locator("#value").inner_text()
    page.get_by_role("status").filter(has_text=re.compile(f"^slice {last} of {last}.*, {UNLIKE}$")).wait_for(
        state="attached"
    )
    page.keyboard.press("Home")
    assert UNLIKE.capitalize() not in page.locator("#value").inner_text()
    page.locator("#values summary").click()
    row = page.locator(f'#values-table tr[data-index="{last - 1}"]').inner_text()
    assert "0.88" in row and UNLIKE in row


def test_keys_scroll_and_the_place_is_said(visit):
    visited = visit("ct")
    page, found = visited.open(), visited.viewed.results.prediction
    n = int(np.diff(found.offsets)[first_bag(visited.viewed)])
    best = np.argmax(found.split(found.instance_log_odds)[first_bag(visited.viewed)])
    assert place_text(page) == f"Slice {best + 1} of {n}"
    for key, place in [("Home", 1), ("ArrowDown", 2), ("ArrowRight", 3), ("ArrowUp", 2), ("ArrowLeft", 1),
                       ("ArrowUp", 1), ("PageDown", 11), ("PageUp", 1), ("End", n), ("ArrowDown", n)]:  # fmt: skip
        page.keyboard.press(key)
        assert place_text(page) == f"Slice {place} of {n}", key
    said = page.get_by_role("status").filter(has_text=re.compile(rf"^slice {n} of {n}, probability [<> ]*0\.\d+ ± "))
    said.wait_for(state="attached")
    page.reload()
    visited.settled()
    assert place_text(page) == f"Slice {n} of {n}"


def test_wheel_slider_and_fingers_scroll(visit):
    visited = visit("ct", has_touch=True)
    page = visited.open()
    page.keyboard.press("Home")
    page.locator("#viewport").hover()
    page.mouse.wheel(0, 120)
    page.locator("#place", has_text="Slice 2 of").wait_for()
    page.mouse.wheel(0, -120)
    page.locator("#place", has_text="Slice 1 of").wait_for()
    page.locator("#slider").fill("5")
    assert place_text(page).startswith("Slice 5 of")
    box, touch = page.locator("#viewport").bounding_box(), page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, points in [("touchStart", [x]), ("touchMove", [x - 20]), ("touchMove", [x - 45]), ("touchEnd", [])]:
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": p, "y": y} for p in points]})
    page.locator("#place", has_text=re.compile(r"Slice ([6-9]|1\d) of")).wait_for()


def test_the_canvas_shows_the_window_of_the_hounsfield_units(visit):
    visited = visit("ct")
    page, viewed = visited.open(), visited.viewed
    page.keyboard.press("End")
    page.keyboard.press("PageUp")
    index = int(page.locator("#slider").input_value()) - 1
    visited.shown(index)
    hu = viewed.slice(first_bag(viewed), index)

    def expected(level, width):
        return np.floor(255 * np.clip((hu - (level - width / 2)) / width, 0, 1) + 0.5)

    for window, name in [(BRAIN, "Brain"), (BLOOD, "Blood"), (SOFT, "Soft tissue"), (BONE, "Bone")]:
        page.get_by_role("button", name=name).click()
        np.testing.assert_array_equal(canvas_grey(page), expected(window.level, window.width))
    page.get_by_label("Level").fill("30")
    page.get_by_label("Width").fill("100")
    page.get_by_label("Width").press("Enter")
    np.testing.assert_array_equal(canvas_grey(page), expected(30, 100))
    page.locator("#viewport").press("1")
    assert page.get_by_role("button", name="Brain").get_attribute("aria-pressed") == "true"
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 110, box["y"] + 105)
    page.mouse.up()
    np.testing.assert_array_equal(canvas_grey(page), expected(45, 100))
    place = int(100 / box["width"] * SIZE), int(100 / box["height"] * SIZE)
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    assert page.locator("#probe").inner_text() == f"{hu[place[::-1]]} HU".replace("-", "−")


def test_the_profile_and_the_filmstrip_lead_to_slices(visit):
    visited = visit("ct")
    page, found = visited.open(), visited.viewed.results.prediction
    prob = found.split(found.instance_prob)[first_bag(visited.viewed)]
    box = page.locator("#profile").bounding_box()
    left, right = 34, 12  # margins of the chart
    across = (box["width"] - left - right) * 3.5 / len(prob)
    page.mouse.click(box["x"] + left + across, box["y"] + 60)
    assert place_text(page) == f"Slice 4 of {len(prob)}"
    page.locator("#strip button").nth(7).click()
    assert place_text(page) == f"Slice 8 of {len(prob)}"
    assert page.locator("#strip [aria-current]").get_attribute("aria-label").startswith(f"slice 8 of {len(prob)}, ")
    called = page.locator("#strip button.is-positive").count()
    assert called == (prob >= found.instance_threshold).sum()


def test_a_negative_scan_with_a_slice_above_its_threshold_is_no_contradiction(visit):
    visited = visit("unlike")
    page, found = visited.open(), visited.viewed.results.prediction
    assert page.locator("#card .badge").first.inner_text() == "Negative"
    card = page.locator("#card").inner_text()
    assert "scan threshold > 0.999" in card and "that reach the slice threshold 0.10: " in card
    assert "slices reach the slice threshold 0.100, but the scan stays below the scan threshold >0.999" in card
    assert "no contradiction" in card
    assert page.locator("#value").inner_text().split("\n")[1] == "Above the slice threshold"
    legend = page.locator("#instance-feedback legend").inner_text()
    assert legend.endswith(": above the slice threshold, so positive. Do you agree?")
    assert "Positive" not in page.locator("#value").inner_text()
    page.locator("#values summary").click()
    page.locator("#values-table tbody tr").first.wait_for()  # the table is filled when it is opened
    called = page.locator("#values-table tbody tr").locator("td:nth-child(7)").all_inner_texts()
    assert set(called) == {"Above the slice threshold", "Negative"}
    rows = visited.viewed.results.instances_of(first_bag(visited.viewed))
    assert called.count("Negative") == (found.instance_prob[rows] < 0.1).sum()


def test_both_thresholds_stand_beside_the_worklist(visit):
    said = visit("ct").page.locator("#thresholds").inner_text()
    assert said.startswith("Scans are called positive from probability 0.500 on, slices from 0.500 on: two thresholds")


def test_feedback_is_found_again(visit):
    visited = visit("ct")
    page, forms = visited.open(), visited.page.locator("#feedback")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    for form, note in [("bag", "small, left"), ("instance", "artefact")]:
        forms.locator(f"#{form}-feedback").get_by_label("Disagree").check()
        forms.locator(f"#{form}-note").fill(note)
        forms.locator(f"#{form}-feedback").get_by_role("button", name="Save").click()
        forms.locator(f"#{form}-feedback").get_by_text("Saved", exact=True).wait_for()
    page.keyboard.press("ArrowDown")
    page.reload()
    visited.settled()
    assert forms.locator("#bag-note").input_value() == "small, left"
    assert forms.locator("#bag-feedback").get_by_label("Disagree").is_checked()
    page.locator("#strip button").nth(1).click()
    assert forms.locator("#instance-note").input_value() == "artefact"
    page.locator("#strip button").nth(2).click()
    assert forms.locator("#instance-note").input_value() == ""
    page.get_by_role("link", name="Worklist").click()
    visited.settled()
    page.get_by_role("button", name="Disagreed").click()
    page.wait_for_selector('[data-show="disagreed"][aria-pressed="true"]')
    assert page.locator("#rows tr").count() == 1
    assert page.locator("#rows").get_by_text("Reader disagrees").is_visible()


def test_feedback_that_cannot_be_saved_is_not_lost(visit):
    visited = visit("features")
    page = visited.open()
    page.route("**/api/feedback", lambda route: route.abort())
    page.locator("#bag-note").fill("look again")
    page.locator("#bag-feedback").get_by_role("button", name="Save").click()
    page.get_by_text("Not saved.").wait_for()
    page.unroute("**/api/feedback")
    page.locator("#bag-feedback").get_by_role("button", name="Save").click()
    page.locator("#bag-feedback").get_by_text("Saved", exact=True).wait_for()
    entry = visited.viewed.feedback.of(visited.viewed.ids[first_bag(visited.viewed)], None)
    assert (entry.note, entry.verdict) == ("look again", None)
    visited.problems.clear()  # the browser reports the request that the test broke


def test_scans_without_files_show_their_thumbnails(visit):
    visited = visit("thumbnails")
    page, viewed = visited.open(), visited.viewed
    page.keyboard.press("Home")
    visited.shown(0)
    page.wait_for_selector('#canvas[width="64"]')
    first = viewed.results.images[viewed.results.instances_of(first_bag(viewed))][0]
    page.wait_for_timeout(200)
    np.testing.assert_array_equal(canvas_grey(page), first)
    assert page.locator("#windows").is_hidden()
    assert page.get_by_text("--dicom").is_visible()


def test_images_are_enlarged(visit):
    visited = visit("images")
    page = visited.open()
    page.keyboard.press("End")
    shown = int(page.locator("#slider").input_value())
    where = visited.viewed.results.instances_of(first_bag(visited.viewed))
    assert shown == where.stop - where.start - 1  # counted from 0, as in tables
    assert place_text(page) == f"Image {shown} (0 to {shown})"
    page.wait_for_selector('#canvas[width="8"]')
    np.testing.assert_array_equal(canvas_grey(page), visited.viewed.results.images[where.stop - 1])


def test_bags_of_features_show_what_tells(visit):
    visited = visit("features")
    page, results = visited.open(), visited.viewed.results
    row = results.instances_of(first_bag(visited.viewed)).start + 2
    page.locator("#values-table").get_by_role("button", name="2", exact=True).click()
    assert page.locator("#telling h2").inner_text().startswith("Instance 2 (0 to ")
    assert "Instance 2:" in page.locator("#instance-feedback legend").inner_text()
    names = page.locator("#telling tbody th").all_inner_texts()
    values = page.locator("#telling td[data-value]").evaluate_all("n => n.map(e => Number(e.dataset.value))")
    assert names == [results.feature_names[feature] for feature in results.features[row]]
    assert values[::2] == results.values[row].tolist()
    assert values[1::2] == results.effects[row].tolist()
    own, bag = (f"{effect[row]:+.2f}".replace("-", "−") for effect in (results.own_effect, results.bag_effect))
    said = f"Against a mean instance, its log-odds owe {own} to itself and {bag} to its bag."
    assert page.locator("#telling .owed").inner_text() == said
    heads = page.locator("#values-table thead th").all_inner_texts()
    assert [head.lower() for head in heads][-3:] == ["owed to itself", "owed to its bag", "reader"]
    cells = page.locator('#values-table tr[data-index="2"] td[data-value]')
    shown = cells.evaluate_all("n => n.map(e => Number(e.dataset.value))")
    assert shown[-2:] == [results.own_effect[row], results.bag_effect[row]]


@pytest.mark.parametrize("kind", ["ct", "features"])
def test_what_is_found_inside_bags_stands_beside_the_worklist(visit, kind):
    visited = visit(kind)
    page, found = visited.page, visited.viewed.results.localisation()
    lists = page.locator("#inside dl:visible").all_inner_texts()
    shown = [found.model, found.middle] if kind == "ct" else [found.model]
    values = [["n/a" if np.isnan(v) else f"{v:.3f}" for v in scores.values()] for scores in shown]
    assert [text.split("\n")[1::2] for text in lists] == values
    names = ["Slice AUC", "Slice AUC within scans", "Localisation error, mm"]
    bags = ["Instance AUC", "Instance AUC within bags", "Localisation error"]
    assert lists[0].split("\n")[::2] == (names if kind == "ct" else bags)
    assert f"over {found.n_both_kinds} " in page.locator("#inside-note").inner_text()


def test_the_model_and_its_calibration_stand_beside_the_worklist(visit):
    page = visit("features").page
    assert page.locator("#model").inner_text().split("\n")[1] == CARD["model"]
    assert page.locator("#reliability-plot circle").count() > 2
