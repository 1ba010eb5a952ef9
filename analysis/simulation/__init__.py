"""Checks on simulated worlds whose truth is known: simulation-based calibration, coverage of intervals."""
