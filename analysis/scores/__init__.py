"""How good confidences are: proper scores, calibration errors, their intervals and paired differences."""
