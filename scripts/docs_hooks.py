"""Hooks of mkdocs: pictures of results/ and tutorials become part of the site; no page asks another host for a script.

PSIMIL_TUTORIALS=unrun leaves out what the cells of tutorials show, for a quick look at other pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from tutorial import page_of

ROOT = Path(__file__).parents[1]
PICTURE = re.compile(r"\]\(\.\./(\.\./results/[^)\s]+\.png)\)")
TUTORIAL = re.compile(r"(\]\((?:\.\./)?tutorials/[\w-]+)\.ipynb\)")
RUN = os.environ.get("PSIMIL_TUTORIALS") != "unrun"
SHIM, VENDORED = (
    "https://unpkg.com/iframe-worker/shim",
    "assets/iframe-worker/index.js",
)  # search in pages opened as files


def on_files(files: Files, config: Any) -> Files:
    """Add every picture under results/, which lies outside docs/, and a page for every notebook."""
    for path in sorted((ROOT / "results").glob("*/figures/*.png")):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        text, pictures = page_of(path, run=RUN)
        for name, content in {f"{path.stem}.md": text, **pictures}.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let the page show the copy in the site, and link to pages in place of notebooks."""
    return TUTORIAL.sub(r"\1.md)", PICTURE.sub(r"](\1)", markdown))


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Take the script from the site."""
    return output.replace(SHIM, get_relative_url(VENDORED, page.url))


def on_post_template(output_content: str, **_: Any) -> str:
    """The same for pages without Markdown, which lie at the top."""
    return output_content.replace(SHIM, VENDORED)
