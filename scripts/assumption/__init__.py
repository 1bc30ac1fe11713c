"""The parts of docs/trust/mil-assumption.md."""
