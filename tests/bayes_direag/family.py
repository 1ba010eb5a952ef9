"""The widest member of the family that the model is: preset bayes, and votes that count more where they are surer."""

from bayes_direag.model.presets import preset

VOTING = preset("bayes").override(vote_slope={"link": "identity", "start": 0.0, "scale": 0.2})
