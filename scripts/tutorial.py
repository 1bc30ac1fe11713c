"""A notebook of docs/tutorials: its cells, what they show when they are run in order, and both as a page of the site.

    python scripts/tutorial.py docs/tutorials/slides.ipynb OUT       # OUT/slides.md and its figures

No kernel is needed: code is run in one namespace, as Jupyter does it, and the value of a last line is shown.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PLAIN = re.compile(
    r'<style.*?</style>\n?| border="1" class="dataframe"', re.DOTALL
)  # tables look as others of the site


class Cell(NamedTuple):
    """A cell: "markdown" or "code", and its text."""

    kind: str
    source: str


class Shown(NamedTuple):
    """What a cell shows below itself: text, a table in HTML, and figures as PNG files."""

    text: str = ""
    html: str = ""
    pictures: tuple[bytes, ...] = ()


def read_cells(path: Path) -> list[Cell]:
    """The cells of a notebook, in order."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return [Cell(cell["cell_type"], "".join(cell["source"])) for cell in content["cells"]]


def run_cells(cells: list[Cell], folder: Path) -> Iterator[Shown]:
    """Run the code in one namespace, with the folder as the current one; yields what each cell shows."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell.kind != "code":
            yield Shown()
            continue
        said = io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(said):
            value = _run(cell.source, f"<cell {number}>", names)
        html = PLAIN.sub("", value._repr_html_()) if hasattr(value, "_repr_html_") else ""
        if value is not None and not html:
            said.write(f"{value!r}\n")
        yield Shown(said.getvalue().replace(sys.executable, "python"), html, tuple(_figures()))


def _run(source: str, place: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line where that is an expression."""
    body = ast.parse(source, place).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), place, "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), place, "eval"), names)


def _figures() -> Iterator[bytes]:
    """The open figures of pyplot as PNG without a date inside; they are closed."""
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        drawn = io.BytesIO()
        pyplot.figure(number).savefig(drawn, format="png", dpi=110, metadata={"Software": None})
        pyplot.close(number)
        yield drawn.getvalue()


def page_of(path: Path, *, run: bool = True) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown with what its cells show, if they are run, and the figures by their names."""
    cells, pictures, parts = read_cells(path), {}, []
    with tempfile.TemporaryDirectory() as folder:
        shown = list(run_cells(cells, Path(folder))) if run else [Shown()] * len(cells)
    for cell, below in zip(cells, shown, strict=True):
        text = cell.source.replace(".ipynb)", ".md)")  # links between tutorials stay in the site
        parts.append(text if cell.kind == "markdown" else f"```python\n{cell.source}\n```")
        if below.text.strip():
            parts.append(f"```text\n{below.text.rstrip()}\n```")
        if below.html:
            parts.append(below.html)
        for picture in below.pictures:
            name = f"{path.stem}-{len(pictures) + 1}.png"
            pictures[name] = picture
            parts.append(f"![Figure {len(pictures)} of this tutorial]({name})")
    note = (
        f"This page is a notebook that was run when the site was built: [download it]({path.name}) and run it yourself."
    )
    title, rest = parts[0].split("\n", 1)
    return "\n\n".join([title, note, rest.strip(), *parts[1:]]) + "\n", pictures


def main() -> None:
    """Write one notebook as a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", type=Path)
    parser.add_argument("out", type=Path)
    chosen = parser.parse_args()
    text, pictures = page_of(chosen.notebook)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / f"{chosen.notebook.stem}.md").write_text(text, encoding="utf-8")
    for name, picture in pictures.items():
        (chosen.out / name).write_bytes(picture)


if __name__ == "__main__":
    main()
