"""What follows from a fit: how many new answers are right, and whether reports have changed."""
