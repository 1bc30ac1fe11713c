"""Scans: studies and series of a folder, Hounsfield units in order, windows, labels."""
