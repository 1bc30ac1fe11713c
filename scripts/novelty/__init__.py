"""What a model does far from its data, and what its referrals catch: measured and written down."""
