"""Whether to believe a fit: sampler, identifiability, model checks, and a verdict in plain words."""
