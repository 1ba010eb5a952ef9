"""One question, explained: what each report counted for, and why the answer got its confidence."""
