"""What only the paper or its published code needs, plugged into inference through its protocols."""
