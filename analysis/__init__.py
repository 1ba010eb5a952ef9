"""Dirichlet evidence aggregation (work in progress docstring; replaced before release)."""
