"""Fits and evaluations side by side: predictions, leave-one-out, scores."""
