"""Metrics, baselines, evaluations and the tables made of them. Import from the modules; nothing is loaded here."""
