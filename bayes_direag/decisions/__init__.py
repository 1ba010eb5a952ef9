"""What follows from a fit: how many new answers are right, and whom to ask next."""
