"""The attention network: features of slices learned from scan labels."""
