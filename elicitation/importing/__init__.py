"""Import of logs of other tools: one module for each format yields replies, and replies.py combines them."""
