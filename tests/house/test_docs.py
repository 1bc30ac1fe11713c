"""README, docs and notebooks: every Python block runs, commands exist, links lead somewhere, worked examples work."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from psimil.cli.main import app
from psimil.cli.settings import CommandWithSettings, described

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *sorted(DOCS.rglob("*.ipynb"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
FENCE = re.compile(r"^ *```(\w*)([^\n]*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
TITLE = re.compile(r' title="([^"]+)"')
SHELL = {"sh", "bash"}
LANGUAGES = {"python", "csv", "diff"} | SHELL
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def text_of(page):
    """The whole page; of a notebook its words, the code is run by test_tutorials.py."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def blocks():
    for page in PAGES:
        for number, match in enumerate(BLOCK.finditer(text_of(page)), 1):
            yield pytest.param(match.group(1), id=f"{name_of(page)}-{number}")


def links():
    for page in PAGES:
        for target in sorted(set(LINK.findall(text_of(page)))):
            if not re.match(r"[a-z]+:", target):
                yield pytest.param(page, target, id=f"{name_of(page)}-{target}")


def anchors(page):
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in HEADING.findall(text)}


@pytest.mark.parametrize("code", list(blocks()))
def test_python_blocks_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "<docs>", "exec"), {"__name__": "__docs__"})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_of_a_kind_that_is_checked(page):
    """Python runs, sh is compared with the command line, csv is data, diff and titled Python are worked examples."""
    for language, options, _ in FENCE.findall(text_of(page)):
        assert language in LANGUAGES
        assert not options or (page.name == "contributing.md" and TITLE.fullmatch(options))


@pytest.mark.parametrize(("page", "target"), list(links()))
def test_relative_links_lead_somewhere(page, target):
    name, _, anchor = target.partition("#")
    found = page.parent / name if name else page
    assert found.exists()
    if anchor:
        assert anchor in anchors(found)


def test_readme_has_a_python_block():
    assert BLOCK.search(text_of(ROOT / "README.md"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_machine_paths(page):
    assert not re.search(r"(/home/|/tmp/|/work/|/Users/)", text_of(page))


def commands():
    for page in PAGES:
        for language, _, text in FENCE.findall(text_of(page)):
            for line in text.splitlines() if language in SHELL else ():
                if line.startswith("psimil "):
                    yield pytest.param(
                        line.split("#")[0].split()[1:], id=f"{name_of(page)}-{line.split('#')[0].strip()}"
                    )


@pytest.mark.parametrize("words", list(commands()))
def test_commands_and_their_options_exist(words):
    path = [typer.main.get_command(app)]
    while words and hasattr(path[-1], "commands"):
        assert words[0] in path[-1].commands
        path, words = [*path, path[-1].commands[words[0]]], words[1:]
    options = {option for command in path for parameter in command.params for option in parameter.opts}
    if isinstance(path[-1], CommandWithSettings):
        options |= {f"--{name.replace('_', '-')}" for name in described()}
    assert {word.split("=")[0] for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tests_and_scripts_that_a_page_names_exist(page):
    for name in re.findall(r"`(test_\w+\.py)`", text_of(page)):
        assert list((ROOT / "tests").rglob(name)), name
    for name in re.findall(r"\b((?:scripts|benchmarks|examples)/\w+\.py)\b", text_of(page)):
        assert (ROOT / name).is_file(), name


def test_what_source_and_pages_name_in_docs_exists():
    sources = [path for folder in ("src", "scripts", "benchmarks", "examples", "tests", "fuzz")
               for path in sorted((ROOT / folder).rglob("*.py"))]  # fmt: skip
    for path in [*sources, *PAGES, ROOT / "Makefile", ROOT / "fuzz" / "README.md"]:
        for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|ipynb|csv|png)\b", text_of(path)):
            assert (ROOT / name).is_file(), f"{name_of(path)}: {name}"


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    for page in PAGES:
        for _, _, text in (found for found in FENCE.findall(text_of(page)) if found[0] in SHELL):
            assert set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)) <= targets


# The site


NAVIGATION = re.compile(r"^( *)- ([^:\n]+):(?: (\S+\.md))?$", re.MULTILINE)


def navigation():
    """The pages of the site, in order: the section that each stands in, "" at the top, and its path in docs."""
    section = ""
    for indent, title, path in NAVIGATION.findall(text_of(ROOT / "mkdocs.yml").split("\nnav:\n")[1]):
        section = section if len(indent) > 2 else "" if path else title
        if path:
            yield section, path


def test_every_page_is_in_the_navigation_of_the_site():
    listed = [path for _, path in navigation()]
    assert len(listed) == len(set(listed))
    assert set(listed) == {page.relative_to(DOCS).with_suffix(".md").as_posix() for page in PAGES[1:]}


@pytest.mark.parametrize(("section", "path"), list(navigation()), ids=lambda name: name or "top")
def test_a_page_lies_in_the_folder_that_its_section_names(section, path):
    folder = section.lower().replace(" ", "-")
    assert Path(path).parent == Path(folder)


def test_only_pages_of_no_section_lie_at_the_top():
    found = {path.name for path in DOCS.iterdir() if path.is_file() and not path.name.startswith(".")}
    assert found == {path for section, path in navigation() if not section}


def test_formulas_are_drawn_without_a_network():
    style = text_of(DOCS / "assets" / "katex" / "katex.min.css")
    fonts = re.findall(r"url\(([^)]+)\)", style)
    assert fonts
    assert all((DOCS / "assets" / "katex" / font).is_file() for font in fonts)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES) - 1
    for page in pages:
        html = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", html):
            assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", tag), f"{page.name}: {tag[:200]}"


# Worked examples of contributing.md: files and changes of a section, made in a copy of the project

EXAMPLES = {
    "A new density": (
        {"src/psimil/files/schema.py": 2},
        [
            "tests/model/test_densities.py",
            "tests/paper/test_pass.py",
            "tests/inference/test_log_z.py",
            "tests/files/test_storage.py",
        ],
        "TwoScales",
    ),
    "A new dataset": ({"src/psimil/datasets/__init__.py": 1}, ["tests/house/test_public_api.py"], "datasets"),
    "A new kernel": (
        {"src/psimil/files/schema.py": 2, "tests/model/test_kernels.py": 2},
        ["tests/model/test_kernels.py"],
        "rational or spectral",
    ),
}


def section(title):
    text = text_of(DOCS / "contributing.md")
    return re.split(r"^## ", text.split(f"\n## {title}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def changed(old, diff):
    """The text with the hunks of a diff applied, each at the one place where its old lines stand; and lines added."""
    added = 0
    for hunk in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = [line for line in hunk.splitlines() if line]
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        if lines:
            assert old.count(before) == 1, before
            old, added = old.replace(before, after), added + sum(line[0] == "+" for line in lines)
    return old, added


def apply(title, copy):
    """Write the section's files into the copy; returns the new ones, and the lines added to each that was there."""
    new, touched = [], {}
    for language, options, text in FENCE.findall(section(title)):
        found = TITLE.fullmatch(options)
        if found and language == "python":
            assert not (copy / found[1]).exists()
            (copy / found[1]).write_text(text, encoding="utf-8")
            new.append(found[1])
        elif found:
            mended, touched[found[1]] = changed(text_of(copy / found[1]), text)
            (copy / found[1]).write_text(mended, encoding="utf-8")
    return new, touched


def run(copy, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("title", EXAMPLES)
def test_worked_examples_touch_what_they_say_and_pass_the_tests(title, tmp_path):
    lists, tests, chosen = EXAMPLES[title]
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    new, touched = apply(title, tmp_path)
    assert len(new) == 1
    assert touched == lists
    found = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", chosen)
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-1000:]
    own = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *new)
    assert own.returncode == 0, own.stdout[-3000:]
    rules = run(tmp_path, "-m", "ruff", "check", "--no-cache", *new, *touched)
    assert rules.returncode == 0, rules.stdout
