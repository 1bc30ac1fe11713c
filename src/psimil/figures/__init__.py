"""Figures: each is drawn from a table that is written beside it. Functions return Axes and never show anything."""

from psimil.figures.bag import bag_table, plot_bag
from psimil.figures.canvas import new_figure, save_figure
from psimil.figures.digits import digits_table, plot_digits
from psimil.figures.heat_map import plot_slide
from psimil.figures.heat_sheet import heat_table, plot_heat
from psimil.figures.history import history_table, plot_history
from psimil.figures.referral import plot_referral, referral_table
from psimil.figures.reliability import plot_reliability, reliability_table
from psimil.figures.strip import plot_strip, strip_table
from psimil.figures.theta import plot_theta, theta_table
from psimil.results.slide_results import slide_table

__all__ = [
    "bag_table",
    "digits_table",
    "heat_table",
    "history_table",
    "new_figure",
    "plot_bag",
    "plot_digits",
    "plot_heat",
    "plot_history",
    "plot_referral",
    "plot_reliability",
    "plot_slide",
    "plot_strip",
    "plot_theta",
    "referral_table",
    "reliability_table",
    "save_figure",
    "slide_table",
    "strip_table",
    "theta_table",
]
