"""Write requirements-hashed.txt: the pins of constraints.txt with the SHA-256 of every wheel that may be installed.

``python scripts/write_hashes.py --index URL`` asks a simple index (the one that pip uses; PIP_INDEX_URL by default).
Install with ``pip install --require-hashes --only-binary :all: --requirement requirements-hashed.txt``.
"""

from __future__ import annotations

import argparse
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit
from urllib.request import Request, urlopen

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).parents[1]
CONSTRAINTS, HASHED = ROOT / "constraints.txt", ROOT / "requirements-hashed.txt"
OLDEST = (3, 11)
FIRST = "# The pins of constraints.txt with hashes; made by scripts/write_hashes.py, do not edit."
SHA256 = re.compile(r"sha256=([0-9a-f]{64})$")


class Links(HTMLParser):
    """The addresses of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the address of a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def pins(text: str) -> dict[str, str]:
    r"""Versions by name of the lines ``name==version``.

    Examples
    --------
    >>> pins("# versions\nPyYAML==6.0.3\n")
    {'pyyaml': '6.0.3'}
    """
    lines = (line.split("#")[0].split("\\")[0].strip() for line in text.splitlines())
    found = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version.split(";")[0].strip() for name, version in found}


def hashes(page: str, name: str, version: str) -> list[str]:
    """SHA-256 of the wheels of one version that Python 3.11 or later can take, sorted.

    Examples
    --------
    >>> hashes('<a href="a-1.0-py3-none-any.whl#sha256=' + 64 * "0" + '">', "a", "1.0") == [64 * "0"]
    True
    """
    links, found = Links(), set()
    links.feed(page)
    for link in links.found:
        address, fragment = urldefrag(link)
        match = SHA256.search(fragment)
        if match and _suits(unquote(urlsplit(address).path).rsplit("/", 1)[-1], name, version):
            found.add(match[1])
    return sorted(found)


def _suits(file: str, name: str, version: str) -> bool:
    try:
        whose, which, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return False
    return whose == name and which == Version(version) and any(_new_enough(tag.interpreter, tag.abi) for tag in tags)


def _new_enough(interpreter: str, abi: str) -> bool:
    """Whether CPython of our versions takes wheels of these tags."""
    match = re.fullmatch(r"(cp|py)3(\d*)", interpreter)
    return match is not None and (match[1] == "py" or abi == "abi3" or (3, int(match[2] or 0)) >= OLDEST)


def document(found: dict[str, tuple[str, list[str]]]) -> str:
    r"""The text of requirements-hashed.txt.

    Examples
    --------
    >>> print(document({"a": ("1.0", ["00", "11"])}).split("edit.")[1].strip())
    a==1.0 \
        --hash=sha256:00 \
        --hash=sha256:11
    """
    blocks = (
        " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{each}" for each in sums)])
        for name, (version, sums) in sorted(found.items())
    )
    return "\n".join([FIRST, *blocks]) + "\n"


def fetched(index: str, name: str) -> str:
    """The page of a project."""
    request = Request(f"{index.rstrip('/')}/{name}/", headers={"Accept": "text/html"})
    with urlopen(request, timeout=60) as answer:
        return str(answer.read().decode("utf-8"))


def main() -> None:
    """Write the file; stop at the first pin without a wheel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default=os.environ.get("PIP_INDEX_URL"), help="address of a simple index")
    given = parser.parse_args()
    if not given.index:
        parser.error("name the simple index with --index, or set PIP_INDEX_URL.")
    found: dict[str, tuple[str, list[str]]] = {}
    for name, version in pins(CONSTRAINTS.read_text(encoding="utf-8")).items():
        sums = hashes(fetched(given.index, name), name, version)
        if not sums:
            parser.error(f"{name} {version} has no wheel in this index. Change its pin.")
        found[name] = (version, sums)
    HASHED.write_text(document(found), encoding="utf-8")
    print(f"{HASHED.name}: {len(found)} pins, {sum(len(sums) for _, sums in found.values())} hashes")


if __name__ == "__main__":
    main()
