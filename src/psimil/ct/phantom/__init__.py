"""Synthetic head CT: phantoms, their files, and a trial of the whole way on them."""
