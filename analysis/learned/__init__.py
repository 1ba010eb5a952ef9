"""What a fit has learned: as tables, and drawn."""
