"""From latent Gaussians to probabilities of instances and bags, whatever model the latents come from."""
