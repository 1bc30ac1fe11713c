"""Draw the figures of results/ that need no predictions again, from the rows of fits that are kept there.

Run from the root of a checkout: ``python scripts/redraw_results.py``. Bars and times change with how they are drawn,
never in what they say; reliability and referral need the predictions of the run and stay as they are.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pandas as pd

from psimil.paper.experiments.report import draw_scores

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    """Every experiment."""
    for fits in sorted(RESULTS.glob("*/fits.csv")):
        rows = pd.read_csv(fits).fillna({"preset": ""})
        with tempfile.TemporaryDirectory() as folder:
            draw_scores(rows, Path(folder))
            for path in sorted(Path(folder).glob("*.png")):
                kept = fits.parent / "figures" / path.name
                if kept.exists():
                    shutil.copyfile(path, kept)
                    print(kept.relative_to(RESULTS))


if __name__ == "__main__":
    main()
