"""The parts of docs/mil-assumption.md."""
