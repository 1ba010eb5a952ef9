"""Logs of other tools made into observations: one module a format yields replies, replies.py puts them together."""
