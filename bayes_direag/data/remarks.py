"""What stands out in signals, in levels (runs, votes, copies, ratings) and in answers (unreadable, never right)."""

import re
from collections import Counter
from collections.abc import Collection
from itertools import combinations

import numpy as np

from bayes_direag.data.answers import canonical
from bayes_direag.data.arrays import spellings
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Status

#: The fewest reports of which a share is remarked on, and the shares that make a copy and a constant confidence.
_FEWEST, _COPIED, _CONSTANT = 20, 0.95, 0.6
#: The share of labelled questions that an answer which is never right is given to, for it to be named.
_NEVER_RIGHT = 0.1
#: The most examples.
_SHOWN = 5
#: The largest rating.
_LARGEST_RATING = 0.1


def signals_remark(observations: Observations) -> str:
    """Name the signals of reports; empty if they have one."""
    names = observations.signal_names
    if len(names) < 2:
        return ""
    return f"Signals of a report: {', '.join(names)}. Presets paper and release use {names[0]} alone."


def runs_remark(observations: Observations) -> str:
    """Say which levels are taken for runs because of their names, and how they become levels of their own."""
    names, groups = observations.table.names, observations.groups
    if names is None or not names.are_runs or groups is None:
        return ""
    runs = ", ".join(f"{group} ({n})" for group, n in Counter(groups).items() if n > 1)
    return (
        f"These are taken for runs, each group as one level: {runs}. With --groups none (groups='none') every run is a "
        "level of its own."
    )


def voting_remark(observations: Observations) -> str:
    """Say how reports of levels that only vote count; empty if there are none."""
    if not observations.voting:
        return ""
    if len(observations.voting) == len(observations.learned_levels):
        return "No report states a confidence, so each counts by its level alone."
    return f"These levels state no confidence, so their reports count by level alone: {', '.join(observations.voting)}."


def level_remark(observations: Observations, among: Collection[str] | None = None) -> str:
    """Say in a paragraph which levels are nearly copies, state one confidence, or ratings; empty if none does.

    Two levels are copies if answer and stated confidence are equal in nearly all questions with both, to the last
    digit. Levels of one group are known to be alike, and a level of one confidence is not compared.

    Parameters
    ----------
    among
        The names of the levels to remark on; by default all.
    """
    names, groups = observations.level_names, observations.groups or observations.level_names
    stated = np.where(observations.usable, observations.confidence, np.nan)
    constant, ratings, varied = [], [], []
    for column in [column for column, name in enumerate(names) if among is None or name in among]:
        values, counts = np.unique(stated[~np.isnan(stated[:, column]), column], return_counts=True)
        if counts.sum() < _FEWEST:
            continue
        if counts.max() >= _CONSTANT * counts.sum():
            said = f"{100 * values[counts.argmax()]:.3g}% in {counts.max() / counts.sum():.0%}"
            constant.append(f"{names[column]} ({said})")
        else:
            varied.append(column)
        if 0.01 < values.max() <= _LARGEST_RATING < np.nanmax(stated) and not (np.round(values * 100, 9) % 1).any():
            ratings.append(f"{names[column]} (at most {100 * values.max():.0f}%)")
    copies = dict[int, str]()  # of each level, the first that it copies
    for a, b in combinations(varied, 2):
        both = ~np.isnan(stated[:, a] + stated[:, b]) & (groups[a] != groups[b])
        same = (observations.candidate[:, a] == observations.candidate[:, b]) & (stated[:, a] == stated[:, b])
        if both.sum() >= _FEWEST and same[both].mean() >= _COPIED:
            copies.setdefault(b, f"{names[a]} and {names[b]} ({same[both].mean():.0%})")
    table = observations.table.take(observations.row)
    is_between = np.zeros(len(table.line), bool) if table.is_between is None else table.is_between
    between = table.level_names.objects()[is_between], table.numbers("confidence")[is_between]
    first = {name: f"{number:g}" for name, number in zip(*(of[::-1] for of in between), strict=True)}
    sentences = {
        "Missing, as numbers between 0 and 1 among percentages may be fractions or percentages: {}. If all are one of "
        "these, say so: --scale fraction, or --scale percent (scale='percent').": [
            f"{name} ({n}, such as {first[name]})" for name, n in Counter(between[0]).items()
        ],
        "These levels are nearly copies, with one answer and confidence: {}. Keep one of them, or make runs of one "
        "model a group (--column group=COLUMN, --groups).": copies.values(),
        "Most reports of these levels state the same confidence, which tells little: {}.": constant,
        "Confidences of these levels look like ratings, not percentages: {}. If they are, write percentages.": ratings,
    }
    return " ".join(sentence.format(", ".join(named)) for sentence, named in sentences.items() if named)


def unused_reports(question: Observations) -> list[str]:
    """Say of each report on one question that cannot be used what it lacks."""
    table, said = question.table, []
    levels, answers = table.level_names.objects(), table.texts("answer")
    for row in np.flatnonzero(table.is_report).tolist():
        status = Status(question.status[0, question.level_names.index(levels[row])])
        reason = {
            Status.NO_ANSWER: "it has no answer",
            Status.UNPARSABLE: f"its answer {answers.value(row)!r} is no {question.kind} answer",
            Status.NO_CONFIDENCE: "its confidence is missing, or neither a fraction nor a percentage",
        }.get(status)
        said += [f"The report of {levels[row]} was not used: {reason}."] if reason else []
    return said


def answer_remark(observations: Observations) -> str:
    """Say in a paragraph which answers are unreadable, whether right ones are given, and which are never right.

    Right answers are remarked on if no report gives most of them, or a report gives a part of one, as of
    ``Nile | Nile River`` and ``1) Nile``. Empty if there is nothing to say.
    """
    sentences = _unreadable(observations), _not_given(observations), _never_right(observations)
    return " ".join(filter(None, sentences))


def _unreadable(observations: Observations) -> str:
    table, kind = observations.table.take(observations.row), observations.kind
    said = (text for text in table.texts("answer").objects()[table.is_report] if text is not None)
    texts = Counter(text for text in said if canonical(text, kind) is None)
    return f"Missing, as they are no {kind} answers: {_most(texts)}." if texts else ""


def _not_given(observations: Observations) -> str:
    known = observations.select(observations.labelled & observations.answered)
    missed = known.select(~known.gold_generated)
    golds = missed.table.texts_of_questions("gold_answer").objects()[missed.row].tolist()
    pairs = [
        (gold, text)
        for gold, candidates in zip(golds, missed.candidates, strict=True)
        for text in candidates
        if known.kind == "text" and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", canonical(gold, "text") or "")
    ]
    if not pairs and 2 * len(missed) <= len(known):
        return ""
    such = f", such as {pairs[0][0]!r} where one says {pairs[0][1]!r}" if pairs else ""
    return (
        f"To {len(missed)} of {len(known)} labelled questions no report gives the right answer{such}. Look at how the "
        "right answers are written."
    )


def _never_right(observations: Observations) -> str:
    known = observations.select(observations.labelled)
    spelled = spellings(known.table, known.kind)
    n_given, right, said = Counter[str](), set[str](), dict[str, str]()
    for row, candidates, correct in zip(known.row, known.candidates, known.correct_candidate, strict=True):
        n_given.update(candidates)
        said |= {text: spelled[row][text] for text in candidates}
        right.update(text for text, is_right in zip(candidates, correct, strict=False) if is_right)
    often = {said[text]: n for text, n in n_given.items() if text not in right and n >= _NEVER_RIGHT * len(known)}
    if known.kind != "text" or len(known) < _FEWEST or not often:
        return ""
    return (
        f"Often given, and never right: {_most(Counter(often))}. What stands for a reply that could not be read should "
        "be empty (null)."
    )


def _most(texts: Counter[str]) -> str:
    return ", ".join(f"{text[:60]!r} ({n})" for text, n in texts.most_common(_SHOWN))


#: All of them, in the order in which they are said.
REMARKS = (signals_remark, runs_remark, voting_remark, level_remark, answer_remark)
