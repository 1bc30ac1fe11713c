"""The gap between the posteriors of a fit and the exact one: measured, drawn and written down."""
