"""A prediction as one HTML file that needs nothing else: to read, to print, to attach."""

from psimil.report.page import Choices, render_report

__all__ = ["Choices", "render_report"]
