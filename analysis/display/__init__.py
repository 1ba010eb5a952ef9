"""Pictures of evaluations and fits, in one style."""
