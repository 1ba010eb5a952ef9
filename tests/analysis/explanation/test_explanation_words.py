"""The sentences that say what decided: cases made by hand, where every level's evidence is its weight."""

import numpy as np
import pytest

from analysis.explanation.explanation import Explanation, explain
from analysis.explanation.explanation_words import FEW_FITTED, quoted, shortened, what_decided
from bayes_direag.data.observations import Observation, Observations, Question
from tests.analysis.fits import made_fit, natural

LEVELS = ("a", "b", "c", "d", "e", "f")


def question(answers: str, name: str = "q") -> Question:
    """Return a question of which each level gives one answer, a letter; '-' is no report."""
    observations = tuple(
        Observation(level=level, level_name=LEVELS[level], answer=answer, confidence=50)
        for level, answer in enumerate(answers)
        if answer != "-"
    )
    return Question(problem_id=name, gold_answer=answers[0].strip("-") or "x", observations=observations)


def explained(
    answers: str,
    weights: list[float],
    *,
    prior_strength: float = 1e-9,
    null_base: float = 0.0,
    n_lone: int = FEW_FITTED,
) -> Explanation:
    """Explain under the count variant, without a recalibration: support is the share of the weights.

    The fit has seen one question with a report of every level, and so many with a lone report.
    """
    fitted = [question("x" * len(answers), name="all")]
    fitted += [question("x", name=f"lone {number}") for number in range(n_lone)]
    observations = Observations.from_questions([*fitted, question(answers)], answers="text")
    given = {"weight": weights, "prior_strength": prior_strength, "null_base": null_base}
    seen = observations.select(np.arange(len(fitted)))
    fit = made_fit(seen, given, preset="paper", variant="count", recalibration="none")
    return explain(fit, observations, "q")


def words(answers: str, weights: list[float], **settings: float) -> str:
    return what_decided(explained(answers, weights, **settings))


def test_all_agree() -> None:
    assert words("xxx", [1, 1, 1], null_base=1) == (
        "All 3 reports say x and bring it to a support of 0.75. No single report decides: without any one of them the "
        "answer stays, and so does its probability."
    )


def test_a_majority_with_one_that_counts_little() -> None:
    assert words("xxxxy", [4, 1, 1, 1, 0.5]) == (
        "4 of 5 reports say x and bring it to a support of 0.93, 'a' alone to 0.53; 'e' says y and counts little "
        "(0.07). No single report decides: without any one of them the answer stays, with a probability between 0.86 "
        "(without 'a') and >0.99 (without 'e')."
    )


def test_a_minority_that_counts_more_and_decides() -> None:
    assert words("xyy", [3, 1, 1]) == (
        "Only 1 of 3 reports says x, but brings it to a support of 0.60; 2 say y (0.40). 'a' decides: without it the "
        "answer would be y, with a probability of >0.99."
    )


def test_the_answer_that_more_reports_name_is_named_first() -> None:
    assert words("xyzzv", [4, 3, 1, 1, 1]).startswith(
        "Only 1 of 5 reports says x, but brings it to a support of 0.40; 2 say z (0.20); 'b' says y "
        "(0.30); one more answer has 0.10."
    )


def test_many_rivals_are_summed_up() -> None:
    assert words("xxyzvw", [2, 2, 3, 1, 1, 1]).startswith(
        "2 of 6 reports say x and bring it to a support of 0.40; 'c' says y (0.30); 'e' says v (0.10); 2 more answers "
        "share 0.20."
    )


def test_several_reports_each_of_which_decides() -> None:
    assert "Take away any one of 'a', 'b', and the answer changes." in words("xxyy", [2, 2, 1.9, 1.9])
    assert "Take away any one of 'a', 'b', 'c' and 1 more, and the answer changes." in words(
        "xxxxyy", [1, 1, 1, 1, 1.8, 1.8]
    )


def test_a_tie_is_called_one() -> None:
    assert words("xy", [1, 1]).startswith(
        "1 of 2 reports says x and brings it to a support of 0.50; 'b' says y, tied with it (0.50)."
    )


def test_a_lone_report() -> None:
    assert words("-x", [1, 1]) == "The only report says x and brings it to a support of >0.99."


def test_a_null_with_more_support_and_where_it_has_it_from() -> None:
    said = words("xx", [1, 1], null_base=3)
    assert (
        "The null, 'no candidate is right', has more support (0.60), chiefly from the null's base; x is only the best "
        "of the candidates." in said
    )
    assert "has more support" not in words("xx", [1, 1], null_base=1.9)
    assert "chiefly from the prior" in words("xx", [1, 1], null_base=3, prior_strength=100)


def test_doubt_of_the_reports_is_called_what_it_is() -> None:
    observations = Observations.from_questions([question("xx")], answers="text")
    fit = made_fit(observations, natural(2, bias=[-5.0, -5.0], null_gain=2.0), preset="paper")
    assert "chiefly from what the reports lack of certainty" in what_decided(explain(fit, observations, "q"))


def test_no_report() -> None:
    assert words("--x-", [1, 1, 1, 1]).startswith("The only report")
    assert words("----", [1, 1, 1, 1]) == (
        "No report can be used, so no answer is selected and the null holds all the support."
    )


@pytest.mark.parametrize(("n_lone", "start"), [(0, "None"), (1, "Only 1"), (FEW_FITTED - 1, f"Only {FEW_FITTED - 1}")])
def test_fewer_reports_than_the_fit_has_seen(n_lone: int, start: str) -> None:
    warning = (
        f"{start} of the {n_lone + 1} question{'s' if n_lone else ''} that the fit learned from had as few reports"
    )
    assert words("-xx", [1, 1, 1], n_lone=n_lone).endswith(f" {warning}: this is an extrapolation.")


def test_as_many_reports_as_the_fit_has_seen() -> None:
    assert "extrapolation" not in words("-xx", [1, 1, 1])
    assert "extrapolation" not in words("xxx", [1, 1, 1], n_lone=0)


def test_answers_of_several_words_stand_in_quotation_marks_and_long_ones_are_cut() -> None:
    assert quoted("x") == "x"
    assert quoted("solid\n state") == '"solid state"'
    assert quoted("a trait that helps an organism survive") == '"a trait that he…survive"'
    assert len(shortened("y" * 5000)) == 24
    assert shortened("y" * 24) == "y" * 24
