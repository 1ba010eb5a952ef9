"""Labelling in a browser."""
