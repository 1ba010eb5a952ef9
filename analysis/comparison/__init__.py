"""Fits and evaluations side by side: parameters, answers, confidences, scores, leave-one-out."""
