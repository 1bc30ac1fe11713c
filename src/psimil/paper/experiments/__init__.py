"""Experiments: their tables, tests of significance and curves, and the numbers that the paper prints."""
