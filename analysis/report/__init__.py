"""One file that a stranger can read: what was evaluated, what came out, how far to believe it."""
