"""What is fitted: settings, priors, the evidence equations and the NumPyro model."""
