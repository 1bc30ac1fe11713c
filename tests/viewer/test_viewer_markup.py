"""Markup in every text that reaches the viewer's pages: it is shown as it is written, and nothing of it runs."""

from dataclasses import replace

import numpy as np
import pytest

from chromium import Visit, why_not
from psimil.viewer.feedback_store import FeedbackStore
from psimil.viewer.state import ViewerState
from viewed import feature_results, serving

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PAYLOADS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg onload=alert(3)>",
    "<svg><script>alert(4)</script></svg>",
    "<iframe srcdoc='<script>parent.alert(5)</script>'></iframe>",
    "<body onload=alert(6)>",
    "<input autofocus onfocus=alert(7)>",
    "<details open ontoggle=alert(8)>",
    "<video><source onerror=alert(9)></video>",
    "<a href='javascript:alert(10)'>x</a>",
    "<object data='javascript:alert(11)'></object>",
    "<embed src='javascript:alert(12)'>",
    "<math><mtext></p><img src=x onerror=alert(13)>",
    "<template><img src=x onerror=alert(14)></template>",
    "<style>@import 'javascript:alert(15)';</style>",
    "<link rel=stylesheet href='data:text/css,*{color:red}'>",
    "<base href='http://evil.example/'>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(18)'>",
    "<form action='javascript:alert(19)'><button autofocus>x</button></form>",
    '"><img src=x onerror=alert(20)>',
    "'><svg/onload=alert(21)>",
    "</textarea><img src=x onerror=alert(22)>",
    "</title><script>alert(23)</script>",
    "</script><script>alert(24)</script>",
    "{{constructor.constructor('alert(25)')()}}",
    "{% raw %}<img src=x onerror=alert(26)>{% endraw %}",
    "${alert(27)}",
    "javascript:alert(28)",
    "&lt;img src=x onerror=alert(29)&gt;",
    '<img src=\'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" onload="alert(30)"/>\'>',
)
FOREIGN = "main :is(script, style, iframe, object, embed, video, template, base, meta, link, math, img, form[action])"


@pytest.fixture(scope="module")
def hostile():
    """30 bags: payloads as ids, notes, names of features and in the model's card."""
    n = len(PAYLOADS)
    results = feature_results(n_bags=n, ids=PAYLOADS, notes=PAYLOADS)
    features = np.arange(results.features.size).reshape(results.features.shape) % n
    card = {payload: payload for payload in PAYLOADS}
    return replace(results, features=features, feature_names=PAYLOADS, model=card)


@pytest.fixture
def visited(browser, hostile, tmp_path):
    """A browser that would run injected scripts: the policy that forbids them is switched off."""
    with serving(ViewerState(hostile, FeedbackStore(tmp_path), show_ids=True), show_ids=True) as settings:
        visited = Visit(browser, settings, bypass_csp=True)
        yield visited
        visited.close()


def assert_inert(visited):
    visited.page.wait_for_timeout(60)
    assert visited.dialogs == []
    assert visited.page.locator(FOREIGN).count() == 0


def test_the_alarm_rings_when_markup_is_let_in(visited):
    visited.page.evaluate("text => { document.getElementById('main').innerHTML = text; }", PAYLOADS[1])
    visited.page.wait_for_timeout(300)
    assert visited.dialogs == ["2"]
    assert visited.page.locator(FOREIGN).count() == 1
    visited.problems.clear()


def test_the_worklist_shows_markup_as_text(visited):
    assert len(PAYLOADS) == 30
    assert sorted(visited.page.locator("#rows a").all_text_contents()) == sorted(PAYLOADS)
    assert visited.page.locator("#model dd").all_text_contents() == list(PAYLOADS)
    assert_inert(visited)


def open_bag(visited, key):
    visited.page.goto(f"{visited.settings.address}/bag/{key}")
    return visited.settled()


def check_bag(visited, number):
    page, payload = open_bag(visited, visited_key(visited, number)), PAYLOADS[number]
    assert payload in page.locator("#heading").text_content()
    assert page.title() == f"{payload} - psimil viewer".strip()
    assert page.locator("#card .note").text_content() == f"Reading note: {payload}"
    assert set(page.locator("#telling tbody th").all_text_contents()) <= set(PAYLOADS)
    page.locator("#bag-note").fill(payload)
    page.locator("#bag-feedback").get_by_role("button", name="Save").click()
    page.locator("#instance-note").fill(payload)
    page.locator("#instance-feedback").get_by_role("button", name="Save").click()
    page.locator("#instance-feedback").get_by_text("Saved", exact=True).wait_for()
    open_bag(visited, visited_key(visited, number))
    assert page.locator("#instance-note").input_value() == payload
    assert_inert(visited)


def visited_key(visited, number):
    return visited.page.evaluate(
        """async id => { const found = await (await fetch('/api/bags?limit=500')).json();
                         return found.bags.find(bag => bag.id === id).key; }""",
        PAYLOADS[number],
    )


@pytest.mark.parametrize("number", [0, 1])
def test_a_bag_shows_markup_as_text(visited, number):
    check_bag(visited, number)


@pytest.mark.slow
def test_every_bag_shows_markup_as_text(visited):
    for number in range(len(PAYLOADS)):
        check_bag(visited, number)


def test_scripts_and_pages_hold_no_markup_from_data():
    from psimil.viewer.app import static_files

    text = b"".join(data for name, data in static_files().items() if name.endswith(".js")).decode()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "DOMParser"):
        assert way not in text
