"""Whether the bound orders kernels as held-out bags do: measured and written down."""
