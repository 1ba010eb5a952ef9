"""Arithmetic word problems of graded difficulty, with exact answers, generated without a download.

=====  ====================================================================================
grade  steps
=====  ====================================================================================
1      one addition or subtraction of numbers below 20
2      one addition or subtraction of numbers below 100
3      two steps of addition, subtraction and multiplication
4      three steps, one of them equal sharing
5      three steps with percentages, then a price: the answer is in dollars and may have cents
=====  ====================================================================================
"""

import random
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from bayes_direag.data.answers import canonical
from bayes_direag.errors import DirEAGError

Event = Literal["gain", "lose", "times", "share", "percent"]

GRADES = (1, 2, 3, 4, 5)


class WordProblem(NamedTuple):
    """One generated problem, with its exact answer."""

    grade: int
    question: str
    gold: str


class _Grade(NamedTuple):
    low: int
    high: int
    steps: int
    events: tuple[Event, ...]
    sold: bool = False


_GRADES = {
    1: _Grade(2, 19, 1, ("gain", "lose")),
    2: _Grade(11, 99, 1, ("gain", "lose")),
    3: _Grade(11, 99, 2, ("gain", "lose", "times")),
    4: _Grade(21, 199, 3, ("gain", "lose", "times", "share")),
    5: _Grade(41, 299, 3, ("gain", "lose", "times", "percent"), sold=True),
}
_NAMES = ("Amina", "Bruno", "Chen", "Dalia", "Emeka", "Freya", "Goran", "Hana", "Ivo", "Jomo", "Kirsi", "Luis")
_THINGS = ("marbles", "stamps", "apples", "postcards", "shells", "pencils", "candles", "tickets", "walnuts", "buttons")
_TOLD: dict[Event, tuple[str, ...]] = {
    "gain": ("A neighbour gives {name} {n} more.", "{name} finds another {n}.", "{name} buys {n} more."),
    "lose": ("{name} gives {n} of them away.", "{name} loses {n} of them.", "{name} uses up {n} of them."),
    "times": ("Over the summer the number grows to {n} times what it was.",),
    "share": ("{name} splits them equally into {n} boxes and keeps only one of the boxes.",),
    "percent": ("Then {n} percent of them turn out to be broken and are thrown away.",),
}
_MOST = 100_000  # largest number of things
_DRAWS = 1000  # attempts at a new problem


def word_problems(n: int, seed: int = 0, grades: Sequence[int] = GRADES) -> Iterator[WordProblem]:
    """Yield ``n`` different problems of alternating grades; a longer list begins with the shorter one.

    The same seed and grades give the same list on every machine. Raises DirEAGError if a grade is unknown, or no new
    problem of a grade is found.

    Examples
    --------
    >>> next(word_problems(1, seed=3)).gold.isdigit()
    True
    """
    unknown = [grade for grade in grades if grade not in _GRADES]
    if unknown or not grades:
        raise DirEAGError(f"arithmetic grades {list(grades)} are not all known; expected some of {list(GRADES)}.")
    told: set[str] = set()
    for index in range(n):
        generator = random.Random(f"{seed}/{index}")  # noqa: S311 - a reproducible draw, not a secret
        grade = grades[index % len(grades)]
        drawn = (_tell(grade, generator) for _ in range(_DRAWS))
        problem = next((problem for problem in drawn if problem is not None and problem.question not in told), None)
        if problem is None:
            raise DirEAGError(
                f"no new problem of grade {grade} was found after {index} problems; expected fewer of this grade. "
                "Ask for fewer problems, or for more grades."
            )
        told.add(problem.question)
        yield problem


def _tell(grade: int, generator: random.Random) -> WordProblem | None:
    """Return a random problem, None if its numbers do not work out."""
    recipe = _GRADES[grade]
    name, things = generator.choice(_NAMES), generator.choice(_THINGS)
    value = generator.randint(recipe.low, recipe.high)
    sentences = [f"{name} has {value} {things}."]
    for event in _plot(recipe, generator):
        number = _number(event, value, recipe, generator)
        if number is None:
            return None
        value = _AFTER[event](value, number)
        sentences.append(generator.choice(_TOLD[event]).format(name=name, n=number))
    if not 1 <= value <= _MOST:
        return None
    gold = Fraction(value)
    if recipe.sold:
        cents = 5 * generator.randint(3, 99)
        gold *= Fraction(cents, 100)
        sentences.append(f"{name} sells all that are left for ${cents // 100}.{cents % 100:02} each.")
        sentences.append(f"How many dollars does {name} get?")
    else:
        sentences.append(f"How many {things} does {name} have now?")
    spelling = canonical(str(gold), "numeric")
    assert spelling is not None  # noqa: S101 - a rational number of this size has a spelling
    return WordProblem(grade, " ".join(sentences), spelling)


def _plot(recipe: _Grade, generator: random.Random) -> Sequence[Event]:
    """Return the events: several are all of different kinds, and include the hardest kind."""
    if recipe.steps == 1:
        return [generator.choice(recipe.events)]
    hardest = recipe.events[-1]
    plot = [hardest, *generator.sample(recipe.events[:-1], recipe.steps - 1)]
    generator.shuffle(plot)
    return plot


def _number(event: Event, value: int, recipe: _Grade, generator: random.Random) -> int | None:
    """Return a number for an event that leaves a whole number of things, None if there is none."""
    if event == "gain":
        return generator.randint(recipe.low, recipe.high)
    if event == "lose":
        most = min(value - 1, recipe.high)
        return generator.randint(2, most) if most >= 2 else None
    choices = {
        "times": [number for number in range(2, 10) if value * number <= _MOST],
        "share": [number for number in range(2, 10) if value % number == 0],
        "percent": [number for number in (10, 20, 25, 30, 40, 50, 60, 75) if value * number % 100 == 0],
    }[event]
    return generator.choice(choices) if choices else None


# The number of things after an event.
_AFTER: dict[Event, Callable[[int, int], int]] = {
    "gain": lambda value, number: value + number,
    "lose": lambda value, number: value - number,
    "times": lambda value, number: value * number,
    "share": lambda value, number: value // number,
    "percent": lambda value, number: value - value * number // 100,
}
