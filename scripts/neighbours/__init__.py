"""The parts of docs/mathematics/neighbours-and-context.md."""
