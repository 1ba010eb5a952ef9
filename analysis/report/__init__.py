"""The report of an evaluation as one HTML file."""
