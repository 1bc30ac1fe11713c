"""``psimil ct``: from a folder of head CT scans to slice probabilities."""

from __future__ import annotations

import typer

from psimil.cli.ct_demo import demo
from psimil.cli.ct_index import index
from psimil.cli.ct_phantom import phantom
from psimil.cli.ct_predict import predict
from psimil.cli.ct_train import train

ct = typer.Typer(
    name="ct",
    help="Head CT: index a folder, train from scan labels, predict scans and slices. Research use only.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
for command in (index, train, predict, phantom, demo):
    ct.command()(command)
