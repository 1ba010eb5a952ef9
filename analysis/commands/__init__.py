"""The commands of the analysis, one per file."""
