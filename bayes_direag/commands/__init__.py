"""What ``direag`` calls of the core."""
