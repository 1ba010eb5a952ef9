"""Equality of answers beyond their kind: a function of the user says which candidates of a question are one."""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

from bayes_direag.errors import DirEAGError

#: Tells whether two answers, as given, are equal. The right answer, if it is one of them, comes first.
type Equal = Callable[[str, str], Any]


class Same:
    """A function that tells whether two answers are equal, by the name that a fit records; each pair is asked once."""

    def __init__(self, function: Equal | None, name: str = "") -> None:
        if not callable(function) and not name:
            raise DirEAGError(
                f"same={function!r}: expected a function of two answers that tells whether they are equal."
            )
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self._function, self._said = function, dict[tuple[str, str], bool]()

    @classmethod
    def of(cls, function: "Sameness") -> "Same | None":
        """Take a function, or what one has said so far."""
        return function if function is None or isinstance(function, Same) else cls(function)

    def __call__(self, first: str, second: str) -> bool:
        """Tell whether two answers are equal; raise DirEAGError if the function fails, or only its name is known."""
        if self._function is None:
            raise DirEAGError(f"the fit compares answers by {self.name}; expected this function. {_remedy(self.name)}")
        if (pair := (first, second)) not in self._said:
            try:
                self._said[pair] = bool(self._function(*pair))
            except Exception as error:  # whatever is wrong with a function of the user
                raise DirEAGError(
                    f"{self.name}({first!r}, {second!r}): {type(error).__name__}: {error}; expected True or False for "
                    "any two answers to a question. Correct the function."
                ) from error
        return self._said[pair]

    def joined(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return which answer stands for each answer to a question: the first that it equals, perhaps through others.

        ``texts`` holds the canonical answers, each with its text as given, the right answer first. Where only the name
        of the function is known, each stands for itself: the answers of a fit are joined already.
        """
        stands = {answer: answer for answer in texts}
        for first, second in combinations(texts if self._function else (), 2):
            if stands[first] != stands[second] and self(texts[first], texts[second]):
                kept, joined = sorted((stands[first], stands[second]), key=list(texts).index)
                stands = {answer: kept if standing == joined else standing for answer, standing in stands.items()}
        return stands


#: A function, one that has been asked already, or none.
type Sameness = Same | Equal | None


def require_same(same: Same | None, recorded: Same | None, where: str = "the fit") -> None:
    """Raise DirEAGError unless answers are compared by a function of the same name, or by none."""
    name, expected = ("" if one is None else one.name for one in (same, recorded))
    if name != expected:
        words = [f"function {one}" if one else "kind alone" for one in (name, expected)]
        advice = _remedy(expected) if expected else "Leave the function out."
        raise DirEAGError(f"answers are compared by {words[0]}; expected {words[1]}, as in {where}. {advice}")


def _remedy(name: str) -> str:
    return (
        f"Read answers, and load the fit, with same={name}, as in Fit.load(FILE, same={name}); on the command line "
        f"--same FILE.py:{name}."
    )
