"""The pages of the reproduction: an answer of one screen, and the full record."""
