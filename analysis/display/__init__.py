"""Results as documents of text, tables and pictures, in one style, and what prints them."""
