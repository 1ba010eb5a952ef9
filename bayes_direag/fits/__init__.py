"""What users hold: fits, cross-fitting, predictions, abstention."""
