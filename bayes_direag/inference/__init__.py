"""How it is fitted: MAP, NUTS, the posterior container, the final calibration, leave-one-out."""
