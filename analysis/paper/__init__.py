"""The paper's tables, laid out as printed, beside the printed figures."""
