"""Scans from a DICOM archive over the web, and reports back to it: what `psimil ct watch` does."""
