"""INFERENCE: the pass, the bound, hyperparameters, leave-one-bag-out and prediction. Reads no file, prints nothing."""
