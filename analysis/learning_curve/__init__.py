"""How good each method is, by the number of labelled questions that it learns from."""
