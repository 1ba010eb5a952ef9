"""Elicitation: questions in, an observation file out.

Questions (:mod:`elicitation.questions`) meet prompts (:mod:`elicitation.prompts`), an engine that speaks the OpenAI
chat protocol answers, and the replies are read (:mod:`elicitation.parsing`) into observations. Nothing here loads
JAX, and the model always runs in a process of its own.
"""
