"""The options that commands share, each described once."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

TABLE_HELP = "Table with one row per instance (CSV, TSV, parquet, npz), a store, or a folder of torchmil or of slides."


def choice(*values: str) -> Callable[[str], str]:
    """A parser that accepts the values, with _ for -, and refuses everything else.

    Examples
    --------
    >>> choice("mnist-pca", "mnist-raw")("mnist_raw")
    'mnist-raw'
    """

    def parse(text: str) -> str:
        value = text.replace("_", "-").lower()
        if value not in values:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(values)}.")
        return value

    return parse


def names(texts: list[str] | None) -> list[str] | None:
    """Names between commas, from one option or several; a name with a comma is put in quotation marks.

    Examples
    --------
    >>> names(["f1,f2", '"a, b"', ""]), names([])
    (['f1', 'f2', 'a, b', ''], None)
    """
    return [name for text in texts or () for name in (next(csv.reader([text]), None) or [""])] or None


BagFile = Annotated[Path, typer.Argument(metavar="BAGS", help=TABLE_HELP, show_default=False)]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file, or the run directory of a fit.", show_default=False)
]
Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="Run directory to write.", show_default=False)]
BagColumn = Annotated[
    str | None, typer.Option("--bag", metavar="COLUMN", help='Column of the bag ids; "bag" when left out.')
]
BagColumnOfModel = Annotated[
    str | None,
    typer.Option("--bag", metavar="COLUMN", help='Column of the bag ids; that of the fit, or "bag", when left out.'),
]
LabelColumn = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help='Column of the bag labels; "label" if there is one.')
]
Positive = Annotated[
    str | None,
    typer.Option("--positive", metavar="LABEL", help="The label of positive bags; needed unless it is 1 or True."),
]
InstanceColumn = Annotated[
    str | None,
    typer.Option(
        "--instance-label", metavar="COLUMN", help='Column of the instance labels; "instance_label" if there is one.'
    ),
]
PositionColumn = Annotated[
    str | None,
    typer.Option("--position", metavar="COLUMN", help="Column of the positions of instances along their bag."),
]
FeatureNames = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        metavar="NAMES",
        help="Feature columns, names or patterns: 'f1,size_*'. Default: all others. Of a torchmil folder, their name.",
    ),
]
DropNames = Annotated[
    list[str] | None,
    typer.Option("--drop", metavar="NAMES", help="Columns that are no features, names or patterns: 'index,id_*'."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", parser=choice("vgpmil", "gvgpmil"), metavar="vgpmil|gvgpmil", help="Default: vgpmil."),
]
ClusterAddress = Annotated[
    str | None, typer.Option("--cluster", metavar="ADDRESS", help="Dask scheduler whose workers do it.")
]
Split = Annotated[
    str | None,
    typer.Option("--split", metavar="NAME", help="Of a torchmil folder, the bags of this split: train, val, test."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the files of an earlier run.")]
