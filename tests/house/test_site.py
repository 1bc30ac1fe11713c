"""Pages of the reference as a reader at 1366 px sees them: parameters are lists of sentences, nothing runs over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chromium import chromium, why_not

ROOT = Path(__file__).parents[2]
MEASURE = """() => {
  const content = document.querySelector('.md-content'), edge = content.getBoundingClientRect().right;
  const wide = [...content.querySelectorAll('article p, article li, article td, article th')]
    .filter(e => !e.closest('.highlight, .md-source, .arithmatex') && e.getBoundingClientRect().right > edge + 1);
  const heads = [...content.querySelectorAll('table:not(.highlighttable) th')];
  const scrolled = [...content.querySelectorAll('.md-typeset__scrollwrap')].filter(e => e.scrollWidth > e.clientWidth);
  return {over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          wide: [...wide, ...scrolled].map(e => e.textContent.slice(0, 60)),
          narrowest: Math.min(1e4, ...heads.map(h => h.getBoundingClientRect().width))};
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    if why_not():
        pytest.skip(why_not())
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    environment["PSIMIL_TUTORIALS"] = "unrun"  # which are not looked at here
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, timeout=600)
    return target


@pytest.mark.slow
def test_the_reference_can_be_read_at_1366_pixels(site):
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1366, "height": 900})
        for path in sorted((site / "reference").glob("*.html")):
            page.goto(path.as_uri())
            found = page.evaluate(MEASURE)
            assert found["over"] <= 0, path.name
            assert found["wide"] == [], path.name
            assert found["narrowest"] > 60, path.name  # a few characters
