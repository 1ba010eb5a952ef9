"""The observations that come with the package: really elicited from a small model; see docs/example.md."""

from importlib.resources import as_file, files
from typing import Literal

from bayes_direag.data.observations import Observations

_FILES = {"steered": "observations.jsonl", "samples": "samples.jsonl", "topk": "topk.jsonl"}


def example_observations(protocol: Literal["steered", "samples", "topk"] = "steered") -> Observations:
    """Return the bundled observations of one protocol.

    ``steered``: five confidence-steering prompts. ``samples``: five samples of the neutral one. ``topk``: one list of
    five guesses. The questions are the same.

    Examples
    --------
    >>> observations = example_observations()
    >>> len(observations), observations.level_names[0]
    (300, 'very_cautious')
    """
    with as_file(files("bayes_direag") / "example" / _FILES[protocol]) as path:
        return Observations.read(path, "numeric")
