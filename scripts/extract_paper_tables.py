"""Read Tables 1 to 9 of the paper's LaTeX source into one tidy CSV, so that no number is typed by hand.

Usage::

    python scripts/extract_paper_tables.py psi-vgpmil.tex > src/psimil/paper/experiments/data/paper_tables.csv

Tables of results (4 to 9) give one row per dataset, features, inducing points, model and metric with mean and standard
deviation. Tables 1 to 3 (datasets, literature on RSNA and on CQ500) give one row per source and column with the cell's
text. Digits are copied as they are printed.
"""

import argparse
import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

COLUMNS = (
    "table", "dataset", "n_features", "n_inducing", "model", "metric", "mean", "sd", "source", "column", "value",
)  # fmt: skip
LABELS = (
    "datasets_info", "rsna_literature_comparison", "cq500_literature_comparison",
    "mnist_pca", "mnist_raw", "musk1", "musk2", "rsna", "cq500",
)  # fmt: skip
KEYS = {"num. features": "n_features", "num. ind. points": "n_inducing", "model": "model"}
WRAPPERS = re.compile(r"\\(?:mathbf|underline|textbf|multirow\[c\]\{\d+\}\{\*\}|multicolumn\{\d+\}\{\w+\})\{([^{}]*)\}")
RULES = re.compile(r"\\(?:toprule|midrule|bottomrule|hline|cline\{[\d-]+\})")
NUMBERS = re.compile(r"([\d.]+) ± ([\d.]+)")


def cell_text(cell: str) -> str:
    """A cell without rules, citations, fonts and dollars; plus-minus as one character."""
    cell = re.sub(r"\s*\\cite\{[^}]*\}", "", RULES.sub("", cell)).replace(r"\pm", "±")
    while (plain := WRAPPERS.sub(r"\1", cell)) != cell:
        cell = plain
    plain = " ".join(cell.replace("$", "").split())
    if re.search(r"[\\{}]", plain):
        raise SystemExit(f"unknown LaTeX in the cell {cell.strip()!r}.")
    return plain


def tables(tex: str) -> Iterator[tuple[str, str, list[list[str]]]]:
    """Label, caption and cells (the heading first) of every table, in the order of the paper."""
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    for body in re.findall(r"\\begin\{table\}(.*?)\\end\{table\}", tex, re.DOTALL):
        label = re.search(r"\\label\{table:(\w+)\}", body)
        caption = re.search(r"\\caption\{(?:\\centering)?(.*?)\}\s*\\label", body, re.DOTALL)
        tabular = re.search(r"\\begin\{tabular\}\{[^\n]*\}\n(.*?)\\end\{tabular\}", body, re.DOTALL)
        if label is None or caption is None or tabular is None:
            raise SystemExit("a table has no label, caption or tabular.")
        lines = [[cell_text(cell) for cell in line.split("&")] for line in tabular[1].split(r"\\")]
        lines = [line for line in lines if any(line)]
        if len({len(line) for line in lines}) != 1:
            raise SystemExit(f"table {label[1]} has lines of different lengths.")
        yield label[1], caption[1].strip(), lines


def result_rows(number: int, dataset: str, lines: list[list[str]]) -> Iterator[dict[str, str]]:
    """One row per cell of a table of results; an empty key repeats the one above."""
    heading, keys = lines[0], dict[str, str]()
    for line in lines[1:]:
        for name, text in zip(heading, line, strict=True):
            if name.lower() in KEYS:
                keys[KEYS[name.lower()]] = text or keys[KEYS[name.lower()]]
                continue
            level, metric = name.lower().removeprefix(dataset.lower()).split()
            found = NUMBERS.fullmatch(text)
            if found is None:
                raise SystemExit(f"table {number}, {name}: {text!r} is not mean and standard deviation.")
            level = {"inst.": "instance", "bag": "bag"}[level]
            row = {"table": str(number), "dataset": dataset, **keys, "metric": f"{level}_{metric}"}
            yield row | {"mean": found[1], "sd": found[2]}


def text_rows(number: int, lines: list[list[str]]) -> Iterator[dict[str, str]]:
    """One row per cell of a table of text; the first column names the source."""
    for source, *cells in lines[1:]:
        for column, value in zip(lines[0][1:], cells, strict=True):
            yield {"table": str(number), "source": source, "column": column, "value": value}


def main() -> None:
    """Write the CSV of the LaTeX file named on the command line to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tex", type=Path, help="LaTeX source of the paper")
    found = list(tables(parser.parse_args().tex.read_text(encoding="utf-8")))
    if tuple(label for label, _, _ in found) != LABELS:
        raise SystemExit(f"expected the tables {LABELS}, found {tuple(label for label, _, _ in found)}.")
    sys.stdout.reconfigure(encoding="utf-8")
    writer = csv.DictWriter(sys.stdout, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for number, (_, caption, lines) in enumerate(found, start=1):
        writer.writerows(text_rows(number, lines) if number <= 3 else result_rows(number, caption, lines))


if __name__ == "__main__":
    main()
