"""Methods that answer questions with a probability of being right: one a file, all with one interface."""
