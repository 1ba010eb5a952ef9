"""The widest member of the family that the model is: preset bayes with votes besides."""

import math

from bayes_direag.model.presets import preset

VOTES = {
    "vote": {"link": "identity", "start": 0.0, "scale": 0.3},
    "vote_spread": {"link": "exp", "start": math.log(0.1), "loc": math.log(0.1), "scale": 0.5},
    "vote_slope": {"link": "identity", "start": 0.0, "scale": 0.2},
}
VOTING = preset("bayes").override(**VOTES)
