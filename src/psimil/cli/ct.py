"""``psimil ct``: from a folder of head CT scans to slice probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psimil.cli.ct_demo import demo
from psimil.cli.ct_index import index
from psimil.cli.ct_options import ct
from psimil.cli.ct_phantom import phantom
from psimil.cli.ct_predict import predict
from psimil.cli.ct_train import train
from psimil.cli.groups import EVERYWHERE, OF_CT

COMMANDS: tuple[Callable[..., Any], ...] = (index, train, predict, phantom, demo)
for command in COMMANDS:
    ct.command(epilog=f"{OF_CT} {EVERYWHERE}")(command)

__all__ = ["ct"]
