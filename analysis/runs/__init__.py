"""What an evaluation left in its folder, read back: predictions, metrics, pictures, tables."""
