"""MODEL: bags, densities, kernels, label posteriors and inducing points. Reads no file."""
