"""The paper's experiment as one command: asks with ``elicitation``, scores with ``analysis``, and knows both."""
