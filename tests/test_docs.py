"""README and docs: every Python block runs, every relative link leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks():
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")), 1):
            yield pytest.param(match.group(1), id=f"{page.name}-{number}")


def links():
    for page in PAGES:
        for target in sorted(set(LINK.findall(page.read_text(encoding="utf-8")))):
            if not re.match(r"[a-z]+:", target):
                yield pytest.param(page, target, id=f"{page.name}-{target}")


def anchors(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in HEADING.findall(text)}


@pytest.mark.parametrize("code", list(blocks()))
def test_python_blocks_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<docs>", "exec"), {"__name__": "__docs__"})


@pytest.mark.parametrize(("page", "target"), list(links()))
def test_relative_links_lead_somewhere(page, target):
    name, _, anchor = target.partition("#")
    found = page.parent / name if name else page
    assert found.exists()
    if anchor:
        assert anchor in anchors(found)


def test_readme_has_a_python_block():
    assert BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_machine_paths(page):
    assert not re.search(r"(/home/|/tmp/|/work/|/Users/)", page.read_text(encoding="utf-8"))
