"""What is written and read back: whole or not at all, and checked."""
