"""Figures of the experiments: each is drawn from a table that is written beside it."""

from psimil.paper.figures.bars import bars_table, plot_bars
from psimil.paper.figures.time_auc import plot_time_auc, time_auc_table

__all__ = ["bars_table", "plot_bars", "plot_time_auc", "time_auc_table"]
