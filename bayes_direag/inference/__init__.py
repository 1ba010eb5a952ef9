"""How it is fitted: MAP, NUTS, the final calibration, leave-one-out. Arrays in, arrays out."""
