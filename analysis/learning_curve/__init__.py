"""How good each method becomes with the number of labelled questions that it learns from."""
