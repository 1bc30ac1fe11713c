"""FOUNDATIONS: errors, linear algebra and quadrature. Knows nothing of bags."""
