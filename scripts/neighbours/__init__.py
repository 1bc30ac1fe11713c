"""The parts of docs/neighbours-and-context.md."""
