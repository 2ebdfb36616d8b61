"""What `list` and `check` are made of."""
