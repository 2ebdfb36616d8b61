"""What `list`, `check` and `mutations` are made of."""
