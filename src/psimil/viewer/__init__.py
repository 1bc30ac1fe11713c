"""Pages about a prediction on this computer: a worklist, scans slice by slice, feedback. Nothing leaves it."""
