"""Evaluations, scores, diagnosis, comparison, pictures and reports. Import from the modules; nothing is loaded here."""
