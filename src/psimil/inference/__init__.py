"""INFERENCE: the pass, the bound, hyperparameters, bags left out and prediction. Reads no file, prints nothing."""
