"""Chromium under Playwright, for the tests of the viewer's pages, its screenshots and its benchmark."""

import contextlib
import importlib.util
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
MEDIA = {"color_scheme": "light", "reduced_motion": "no-preference"}  # as they are unless told otherwise


def program():
    """Where chromium is: PSIMIL_CHROMIUM, the PATH, or what scripts/install_chromium.sh unpacked; None if nowhere."""
    unpacked = ROOT / ".chromium" / "chromium"
    found = [os.environ.get("PSIMIL_CHROMIUM"), *map(shutil.which, NAMES), str(unpacked) if unpacked.exists() else None]
    return next((path for path in found if path), None)


def why_not():
    """Why there can be no browser here, or None; under CI a missing browser is an error and no excuse."""
    if os.environ.get("CI"):
        return None
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed: pip install playwright"
    return None if program() else "chromium is not installed: sh scripts/install_chromium.sh"


@contextlib.contextmanager
def chromium():
    """A headless browser; root, and chromium unpacked without root, have no sandbox of its own."""
    from playwright.sync_api import sync_playwright

    bare = os.geteuid() == 0 or ".chromium" in (program() or "")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox"] if bare else [])
        try:
            yield browser
        finally:
            browser.close()


def empty_page(browser, **options):
    """A page in a context of its own."""
    return browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}).new_page()


class Visit:
    """One reader: a page of the browser, signed in; remembers what went wrong and where requests went.

    The page is in a context of its own and has gone the way from the link to the worklist. Or it is one that other
    readers had before and gave back, for a context costs as much as two pages that are loaded: this reader is signed in
    without the link, ``viewed`` says what is served, the first page to be loaded is the one that is asked for, and the
    options are those of MEDIA alone.
    """

    def __init__(self, browser, settings, lent=None, viewed=None, **options):
        self.settings, self.lent, self.viewed, self.entered = settings, lent is not None, viewed, False
        self.tab = lent or empty_page(browser, **options)
        self.context = self.tab.context
        self.problems, self.requests, self.dialogs = [], [], []
        self.listeners = {
            "console": lambda said: self.problems.append(said.text) if said.type == "error" else None,
            "pageerror": lambda error: self.problems.append(str(error)),
            "request": lambda request: self.requests.append(request.url),
            "dialog": lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()),
        }
        for event, listener in self.listeners.items():
            self.tab.on(event, listener)
        if self.lent:
            self.tab.emulate_media(**{**MEDIA, **options})
            asked = {"data": {"token": settings.token}, "headers": {"Origin": settings.address}}
            assert self.context.request.post(f"{settings.address}/session", **asked).status == 204
        else:
            self.enter(settings.link)

    def enter(self, address):
        """Load the first page; the link leads to the worklist."""
        self.entered = True
        self.tab.goto(address)
        if address == self.settings.link:
            self.tab.wait_for_url("**/worklist*")
        self.settled()

    @property
    def page(self):
        """The page; unless another one was asked for before, the worklist."""
        if not self.entered:
            self.enter(f"{self.settings.address}/worklist")
        return self.tab

    def settled(self):
        """Wait until the page has its data."""
        self.page.wait_for_selector("main:not([aria-busy])")
        return self.page

    def open(self, place=0):
        """The page of the bag at this place of the worklist."""
        if not self.entered:
            bag = self.viewed.results.by_probability()[place]
            self.enter(f"{self.settings.address}/bag/{self.viewed.keys[bag]}")
            return self.page
        self.page.locator("#rows a").nth(place).click()
        self.page.wait_for_url("**/bag/*")
        return self.settled()

    def shown(self, index):
        """Wait until this slice is painted."""
        self.page.wait_for_selector(f'#canvas[data-shown="{index}"]')

    def close(self):
        """Leave; without errors, and without having asked anyone but the viewer."""
        if self.lent:
            for event, listener in self.listeners.items():
                self.tab.remove_listener(event, listener)
            self.tab.goto("about:blank")
            self.context.clear_cookies()
        else:
            self.context.close()
        assert self.problems == []
        assert all(url.startswith((self.settings.address, "data:")) for url in self.requests)
