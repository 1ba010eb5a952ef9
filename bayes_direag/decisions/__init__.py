"""What follows from a fit: how many new answers are right, whether reports have changed, and whom to ask next."""
