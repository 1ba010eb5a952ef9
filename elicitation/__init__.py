"""Elicitation: questions in, an observation file out.

Questions (:mod:`elicitation.questions`) are put into prompts (:mod:`elicitation.prompts`), an engine sends them by the
OpenAI chat protocol, and the replies are parsed (:mod:`elicitation.parsing`) into observations. This package does not
load JAX, and the model always runs in another process.
"""
