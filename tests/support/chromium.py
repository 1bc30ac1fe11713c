"""Chromium under Playwright, for the tests of the viewer's pages, its screenshots and its benchmark."""

import contextlib
import importlib.util
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")


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


class Visit:
    """One reader: a context of the browser, signed in; remembers what went wrong and where requests went."""

    def __init__(self, browser, settings, **options):
        self.settings = settings
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.problems, self.requests, self.dialogs = [], [], []
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(settings.link)
        self.page.wait_for_url("**/worklist*")
        self.settled()

    def settled(self):
        """Wait until the page has its data."""
        self.page.wait_for_selector("main:not([aria-busy])")
        return self.page

    def open(self, place=0):
        """The page of the bag at this place of the worklist."""
        self.page.locator("#rows a").nth(place).click()
        self.page.wait_for_url("**/bag/*")
        return self.settled()

    def shown(self, index):
        """Wait until this slice is painted."""
        self.page.wait_for_selector(f'#canvas[data-shown="{index}"]')

    def close(self):
        """Leave; without errors, and without having asked anyone but the viewer."""
        self.context.close()
        assert self.problems == []
        assert all(url.startswith((self.settings.address, "data:")) for url in self.requests)
