"""The commands of the analysis, one per file, and how they read lists of numbers and interval levels."""

from bayes_direag.errors import DirEAGError


def check_level(level: float) -> None:
    """Make sure that the level of intervals is a probability, neither 0 nor 1."""
    if not 0 < level < 1:
        raise DirEAGError(f"--level {level}: expected a probability between 0 and 1, such as 0.95.")


def whole_numbers(option: str, text: str, example: str) -> list[int]:
    """Read the whole numbers that an option was given."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise DirEAGError(f"{option} {text}: expected whole numbers with commas between, as in {example}.") from None
