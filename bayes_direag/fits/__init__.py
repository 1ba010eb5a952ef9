"""What users hold: fits, how they are made, kept and read, and what they predict."""
