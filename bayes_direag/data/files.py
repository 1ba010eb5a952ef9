"""Observation files: told apart by content when read, by suffix when written."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pydantic_core import from_json

from bayes_direag.data import long_form
from bayes_direag.data.records import Origin, Question, check_unique, question_from_record
from bayes_direag.data.writing import atomic_path
from bayes_direag.errors import ObservationError

# The names of the released implementation of the paper, by those of this project.
_RELEASED = {
    "observations": "outputs",
    "level": "level_index",
    "answer": "pred_answer_norm",
    "gold_answer": "gold_answer_norm",
}


def read_questions(path: str | Path) -> list[Question]:
    """Read the questions of an observation file.

    The file may be JSON Lines (one question a line, in this project's form or in that of the released
    implementation of the paper), or a Parquet or CSV table in long form (one row an observation). Its content
    decides, not its name.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    list of Question
        In the order of the file.

    Raises
    ------
    ObservationError
        If the file cannot be read, or something in it cannot be used.
    """
    return read_with_origin(path)[0]


def read_with_origin(path: str | Path) -> tuple[list[Question], Origin]:
    """Read the questions of an observation file, and where each begins; see :func:`read_questions`."""
    path = Path(path)
    data = _contents(path)
    if data.startswith(b"PAR1"):
        numbered = long_form.from_parquet(path)
    else:
        text = _decode(data, path)
        start = text.lstrip()[:1]
        if not start:
            raise ObservationError(
                "the file is empty",
                path=path,
                expected="one question a line",
                remedy="Check that the run that should have written it has finished.",
            )
        numbered = _from_json_lines(text, path) if start in "{[" else long_form.from_csv(text, path)
    numbered = list(numbered)
    questions = [question for _, question in numbered]
    origin = Origin(path, tuple(line for line, _ in numbered))
    check_unique(questions, origin)
    return questions, origin


def write_questions(questions: Sequence[Question], path: str | Path) -> None:
    """Write questions as JSON Lines, Parquet or CSV, whichever the suffix says; whole or not at all.

    JSON Lines keep every field. The tables are in long form and hold the columns ``problem_id``, ``level``,
    ``level_name``, ``answer``, ``confidence``, ``correct``, ``gold_answer``, ``dataset``, ``model`` and
    ``question``; a question without observations is one row with an empty level.

    Raises
    ------
    ObservationError
        If the suffix is none of ``.jsonl``, ``.parquet`` and ``.csv``, or the file cannot be written.
    """
    path = Path(path)
    writers: dict[str, Callable[[Sequence[Question], Path], None]] = {
        ".jsonl": _to_json_lines,
        ".parquet": long_form.to_parquet,
        ".csv": long_form.to_csv,
    }
    if path.suffix.lower() not in writers:
        raise ObservationError(
            f"no format goes by the suffix {path.suffix!r}",
            path=path,
            expected=" or ".join(writers),
            remedy="Give the file one of these suffixes.",
        )
    try:
        with atomic_path(path) as temporary:
            writers[path.suffix.lower()](questions, temporary)
    except OSError as error:
        raise ObservationError(
            f"the file cannot be written ({error.strerror or error})",
            path=path,
            expected="a file in an existing folder that may be written",
            remedy="Create the folder, or write somewhere else.",
        ) from error


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        known = {FileNotFoundError: "there is no such file", IsADirectoryError: "this is a folder"}
        raise ObservationError(
            known.get(type(error), f"the file cannot be read ({error.strerror or error})"),
            path=path,
            expected="an observation file (JSON Lines, Parquet or CSV)",
            remedy="Check the path.",
        ) from error


def _decode(data: bytes, path: Path) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ObservationError(
            "this is not UTF-8 text",
            path=path,
            line=data.count(b"\n", 0, error.start) + 1,
            seen=data[error.start : error.end],
            expected="UTF-8",
            remedy="Save the file in UTF-8, or check that it is an observation file at all.",
        ) from error


def _from_json_lines(text: str, path: Path) -> Iterable[tuple[int, Question]]:
    """Yield the questions of JSON Lines, each with its line."""
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for position, (number, line) in enumerate(numbered):
        try:
            record = from_json(line)
        except ValueError as error:
            raise _not_json(error, path, number, line, position, last=line is numbered[-1][1]) from error
        if not isinstance(record, dict) or "observations" in record:
            yield number, question_from_record(record, path, number)
        elif "outputs" in record:
            yield number, question_from_record(_renamed(record), path, number, spelling=_RELEASED)
        else:
            raise ObservationError(
                "this object holds neither observations nor outputs",
                path=path,
                line=number,
                seen=sorted(record),
                expected="observations (this project's form) or outputs (the released implementation's)",
                remedy="Check that this is an observation file and not, for example, a question set.",
            )


def _not_json(error: ValueError, path: Path, number: int, line: str, complete: int, *, last: bool) -> ObservationError:
    """Return the error of a line that is not JSON: cut off, if it is the last of several."""
    reason = str(error).replace("line 1 ", "")
    if last and complete:
        problem, seen = f"this last line is cut off ({reason})", line[-40:]
        remedy = f"The lines before it ({complete}) are whole and fine: remove this one, or resume the run."
    else:
        problem, seen = f"this line is not JSON ({reason})", line
        remedy = "Correct the line; an object or a list that spans several lines must stand on one."
    return ObservationError(
        problem, path=path, line=number, seen=seen, expected="one whole JSON object a line", remedy=remedy
    )


def _renamed(record: dict[str, object]) -> dict[str, object]:
    """Return a record of the released implementation under this project's names.

    Its normalised answers go before its raw ones, which stand in only where the field is absent (a null means
    that there was no answer). Its ``level``, the signed strength of the prompt, gives way to ``level_index``.
    """
    outputs = record["outputs"]
    gold = record.get("gold_answer_norm")
    renamed = {name: value for name, value in record.items() if name != "outputs"}
    renamed["gold_answer"] = record.get("gold_answer_raw") if gold is None else gold
    renamed["observations"] = [_renamed_output(output) for output in outputs] if isinstance(outputs, list) else outputs
    return renamed


def _renamed_output(output: object) -> object:
    if not isinstance(output, dict):
        return output
    kept = {name: value for name, value in output.items() if name not in ("level", "level_index")}
    if "level_index" in output:
        kept["level"] = output["level_index"]
    kept["answer"] = output.get("pred_answer_norm", output.get("pred_answer_raw"))
    return kept


def _to_json_lines(questions: Iterable[Question], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for question in questions:
            file.write(question.model_dump_json(exclude_unset=True) + "\n")
