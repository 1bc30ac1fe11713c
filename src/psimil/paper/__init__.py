"""What only the paper and its published code need: presets, baselines, experiments and their figures."""
