"""What to do by a fit: how many new answers are right, which to give, and which level to ask next."""
