"""Where the arithmetic on many rows happens: the verbs of a pass, on NumPy or on a torch device."""
