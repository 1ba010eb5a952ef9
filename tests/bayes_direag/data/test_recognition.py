"""Tables that come without a word: their columns are told by what is in them, or asked for where two would do."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_direag import Fit, Observations
from bayes_direag.data.columns import Columns
from bayes_direag.errors import ColumnsWarning, LevelError, ObservationError
from tests.command_line import direag as run
from tests.command_line import one_line, succeed

MODELS, N = ("gpt", "llama", "qwen", "gemma", "phi"), 40  # as many as the levels of other tests' fits
NAMED = {"question": "ticket", "level": "llm", "answer": "said", "confidence": "sure", "gold": "truth"}


def tickets(*, scale: int = 100) -> pd.DataFrame:
    """Return five reports on each ticket, with other columns: a text, a length, a time, a topic, a number of row."""
    rng = np.random.default_rng(3)
    truth = rng.integers(10, 900, N)
    said = truth[:, None] + (rng.random((N, 5)) < 0.3)
    table = pd.DataFrame(
        {
            "row": np.arange(5 * N),
            "ticket": np.repeat([f"T-{n:03}" for n in range(N)], 5),
            "wording": np.repeat([f"How many are there in box {n}?" for n in range(N)], 5),
            "topic": np.repeat(rng.choice(["boxes", "bags"], N), 5),
            "llm": np.tile(MODELS, N),
            "said": [f"{number} pieces" for number in said.ravel()],
            "sure": rng.integers(0, 101, 5 * N) * scale / 100,
            "truth": np.repeat(truth, 5),
            "tokens": rng.integers(200, 900, 5 * N),
            "seconds": rng.random(5 * N) * 20,
        }
    )
    return table.sample(frac=1, random_state=1)


TRUTH = tickets()["truth"]


def side_by_side(form: str) -> pd.DataFrame:
    table = tickets()
    wide = table.pivot_table(["said", "sure"], "ticket", "llm", aggfunc="first")
    wide.columns = pd.Index([form.format(field=field, level=level) for field, level in wide.columns])
    about = table[["ticket", "wording", "truth"]].drop_duplicates("ticket")
    return about.merge(wide.reset_index(), on="ticket")


def told(table: pd.DataFrame, **given: object) -> Observations:
    with pytest.warns(ColumnsWarning, match=r"by what is in it: .*\nTo change it: "):
        return Observations.from_frame(table, **given)


def test_right_answers_may_be_called_correct() -> None:
    table = side_by_side("{level}_{field}").rename(columns={"truth": "correct"})
    observations = told(table)
    assert observations.labelled.all()
    assert observations.correct.any()
    table["correct"] = "yes"  # verdicts, of no report
    with pytest.raises(ObservationError, match="correct"):
        told(table)


def test_recognition_reads_a_row_a_report_as_if_its_columns_were_named(tmp_path: Path) -> None:
    table = tickets()
    expected = Observations.from_frame(table, **NAMED)
    assert expected.labelled.all()
    assert told(table).fingerprint == expected.fingerprint
    assert told(table, level="llm").fingerprint == expected.fingerprint
    renamed = table.rename(columns={"sure": "confidence", "truth": "gold_answer"})
    assert told(renamed).fingerprint == expected.fingerprint
    table.to_csv(tmp_path / "mine.csv", index=False)
    table.to_parquet(tmp_path / "mine.parquet", index=False)
    table.to_json(tmp_path / "mine.jsonl", orient="records", lines=True)
    for name in ("mine.csv", "mine.parquet", "mine.jsonl"):
        with pytest.warns(
            ColumnsWarning,
            match=r"question ticket, level llm \(gemma, gpt, .*\), answer said, confidence sure, gold truth\.",
        ):
            assert Observations.read(tmp_path / name).fingerprint == expected.fingerprint


def test_numbered_answers_under_our_own_name_are_runs_of_one_group(tmp_path: Path) -> None:
    """Its predictor says what it takes."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"ticket": [f"T{n}" for n in range(N)], "truth": rng.choice([*"ABCD"], N)})
    for run_number in range(1, 4):
        table[f"answer_{run_number}"] = table["truth"].where(rng.random(N) < 0.6, rng.choice([*"ABCD"], N))
    table.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        said = one_line(succeed("fit", "runs.csv"))
        assert "runs (3)" in said
        fit = Fit.load("runs.nc")
    assert fit.answer([{"level": "3", "answer": "A"}, {"level": 4, "answer": "A"}])["n_used"] == 2
    with pytest.raises(LevelError, match="saw 'gpt'; expected one of runs"):
        fit.answer([{"level": "gpt", "answer": "A"}])
    with pytest.raises(ObservationError, match="this level occurs twice"):
        fit.answer([{"level": "runs", "answer": "A"}] * 2)


def test_right_answers_may_be_called_answer_beside_numbered_runs() -> None:
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"id": np.arange(N), "question": "How many?", "answer": rng.integers(10, 99, N)})
    for run_number in range(1, 4):
        table[f"run{run_number}"] = table["answer"] + (rng.random(N) < 0.4)
    observations = told(table)
    assert observations.labelled.all()
    names = observations.table.names
    assert (names.question, names.answer, names.gold) == ("id", "run{level}", "answer")
    assert set(observations.groups) == {"runs"}


def test_fractions_no_confidences_and_two_columns_of_a_level_are_told() -> None:
    expected = Observations.from_frame(tickets(), **NAMED)
    fractions = told(tickets(scale=1))
    assert (fractions.fingerprint, fractions.table.names) == (expected.fingerprint, Columns(**NAMED, scale="fraction"))
    votes = told(tickets().drop(columns="sure"))
    assert ({*votes.voting}, votes.table.names.confidence) == ({*MODELS}, None)
    both = pd.concat([tickets().drop(columns=["row", "seconds"]).assign(prompt=name) for name in ("bold", "shy")])
    assert told(both).table.names == Columns(**NAMED | {"level": "llm,prompt"})


@pytest.mark.parametrize("form", ["{field}_{level}", "{level} {field}", "{level}.{field}.1"])
def test_levels_side_by_side_are_told_with_their_form(form: str) -> None:
    forms = {field: form.format(field=field, level="{level}") for field in ("said", "sure")}
    named = {"question": "ticket", "answer": forms["said"], "confidence": forms["sure"], "gold": "truth"}
    expected = Observations.from_wide(side_by_side(form), **named)
    observations = told(side_by_side(form))
    assert (observations.fingerprint, observations.table.names) == (expected.fingerprint, Columns(**named))
    unlabelled = side_by_side(form).drop(columns="truth")
    assert told(unlabelled, answers="numeric").table.names == Columns(**{**named, "gold": "gold_answer"})


def test_confidences_side_by_side_under_our_names_are_no_signals() -> None:
    theirs = side_by_side("{field}_{level}")
    ours = theirs.rename(columns=lambda name: name.replace("said_", "answer_").replace("sure_", "confidence_"))
    assert told(ours).fingerprint == told(theirs).fingerprint
    with pytest.raises(ObservationError, match=f"no column {ours.columns[-1]}"):
        Observations.from_frame(ours.iloc[:, :-1])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"p": tickets()["tokens"] % 100}, "may hold the confidence: sure and p; .*--column confidence=sure"),
        ({"guess": TRUTH.where(TRUTH % 9 > 0, 5)}, "may hold the right answer: truth and guess; .*gold='truth'"),
        ({"other": tickets()["said"].where(TRUTH % 9 > 0, "?")}, "two columns may hold the answer: said and other"),
        (
            {"truth": range(5 * N), "other": tickets()["said"].where(TRUTH % 9 > 0, "?")},
            "two columns may hold the answer: said and other",
        ),
        ({"ticket": 1, "wording": 2, "truth": 3}, "the table has no column problem_id for the question"),
    ],
)
def test_recognition_names_both_columns_where_two_would_do(change: dict[str, object], said: str) -> None:
    with pytest.raises(ObservationError, match=said):
        Observations.from_frame(tickets().assign(**change))


def test_fractions_beside_percentages_with_their_sign_are_told() -> None:
    table = tickets(scale=1)
    table["sure"] = [f"{100 * sure:g}%" if number % 2 else str(sure) for number, sure in enumerate(table["sure"])]
    with pytest.warns(ColumnsWarning, match="scale fraction, since all confidences without % lie in 0 to 1"):
        mixed = Observations.from_frame(table)
    assert np.allclose(mixed.confidence, told(tickets(scale=1)).confidence, equal_nan=True)


def test_recognition_takes_the_index_of_a_frame_and_joins_parts_of_names() -> None:
    named = told(tickets()).fingerprint
    assert told(tickets().set_index(["ticket", "llm"])).fingerprint == named
    table = tickets()
    wide = table.pivot_table(["said", "sure"], "ticket", "llm", aggfunc="first")
    wide["truth", ""] = table.groupby("ticket")["truth"].first()
    joined = told(wide)
    assert joined.level_names == tuple(sorted(MODELS))
    assert joined.labelled.all()


def test_recognition_takes_no_few_rows_with_verdicts_side_by_side_for_a_row_a_report() -> None:
    table = side_by_side("{level}_{field}")[:12]
    for level in MODELS:
        table[f"{level}_correct"] = table[f"{level}_said"] == table["truth"].astype(str) + " pieces"
    assert told(table).level_names == tuple(sorted(MODELS))


@pytest.mark.parametrize("form", ["{level}_{field}", "{field}_{level}", "{level} {field}"])
def test_recognition_leaves_out_no_level_whose_name_begins_that_of_others(form: str) -> None:
    table = side_by_side(form)
    for name in table:
        for level, longer in zip(MODELS[1:3], ("gpt-4", "gpt-4-mini"), strict=True):
            table = table.rename(columns={name: name.replace(level, longer)} if level in name else {})
    table = table[[name for name in table if "gpt-" in name or name in ("ticket", "truth")]]
    assert told(table).level_names == ("gpt-4", "gpt-4-mini")


def test_recognition_drops_no_confidences_since_one_level_states_none() -> None:
    table = side_by_side("{level}_{field}")
    with pytest.raises(ObservationError, match=r"no column phi_sure;.* A level without confidences has an empty"):
        Observations.from_frame(table.drop(columns="phi_sure"))
    names = {"question": "ticket", "answer": "{level}_said", "confidence": "{level}_sure", "gold": "truth"}
    observations = Observations.from_frame(table.assign(phi_sure=np.nan), **names)
    assert observations.stated.any(axis=0).tolist() == [name != "phi" for name in observations.level_names]


@pytest.mark.parametrize("sure", [[0, 1], [1]])
def test_zeros_and_ones_are_no_percentages(sure: list[int]) -> None:
    table = tickets().assign(sure=np.resize(sure, 5 * N))
    with pytest.raises(ObservationError, match="all 200 confidences are at most 1, so they look like fractions"):
        Observations.from_frame(table, **NAMED)


def test_levels_with_columns_called_by_their_names_alone_can_be_named() -> None:
    table = side_by_side("{level}_{field}").rename(columns=lambda name: name.removesuffix("_said"))
    names = {"question": "ticket", "gold": "truth", "answer": "{level}", "confidence": "{level}_sure"}
    observations = Observations.from_frame(table.drop(columns="wording"), **names)
    assert observations.level_names == tuple(sorted(MODELS))
    with pytest.raises(ObservationError, match=r"--column question=NAME .* --column answer=NAME .*answer=\{level\}"):
        Observations.from_frame(table.drop(columns="wording"))


WRONG = np.array(tickets()["said"] != tickets()["truth"].astype(str) + " pieces")


def test_recognition_takes_no_constant_answer_for_the_models_own() -> None:
    """As question sets have the right answers in `answer`, and the models' beside it."""
    table = tickets().rename(columns=NAMED | {name: field for field, name in NAMED.items()})
    ours = {"question": "problem_id", "level": "level", "confidence": "confidence", "gold": "answer", "answer": "reply"}
    table = table.rename(columns=ours)
    expected = Observations.from_frame(tickets(), **NAMED).fingerprint
    with pytest.warns(ColumnsWarning, match=r"answer reply, gold answer\."):
        observations = Observations.from_frame(table)
    assert (observations.fingerprint, observations.table.names.pairs) == (expected, ["answer=reply", "gold=answer"])
    judged = told(table.assign(correct=~WRONG))
    assert (judged.correct.sum(), judged.labelled.all()) == (np.count_nonzero(~WRONG), True)
    prose = table.assign(reply="I think that there are " + table["reply"])
    with pytest.raises(
        ObservationError, match=r"answer says the same .* and reply does not; .*answer='answer'.*=reply"
    ):
        Observations.from_frame(prose)
    assert Observations.from_frame(prose, answer="answer", answers="numeric").candidates[0] == (str(TRUTH.iloc[0]),)


@pytest.mark.parametrize("further", [{}, {"note": 1}])
def test_recognition_takes_numbers_for_confidences_if_they_are_called_so_or_larger_where_answers_are_right(
    further: dict[str, object],
) -> None:
    table = tickets().drop(columns="sure").assign(**further)
    with pytest.warns(ColumnsWarning, match=r"confidence none, .*\n.*--column confidence=NAME"):
        assert Observations.from_frame(table).table.names.confidence is None
    rng = np.random.default_rng(0)
    informative = table.assign(grade=np.where(WRONG, rng.integers(20, 80, 5 * N), rng.integers(40, 100, 5 * N)))
    assert told(informative).table.names.confidence == "grade"
    flags = informative.assign(correct=~WRONG).drop(columns="truth")
    assert told(flags, answers="numeric").table.names.confidence == "grade"
    assert told(informative.assign(grade=100 - informative["grade"])).table.names.confidence is None
    assert told(informative.rename(columns={"grade": "latency"})).table.names.confidence is None


@pytest.mark.parametrize(("name", "seeds"), [("attempt", (1, 2, 3)), ("seed", (11, 23, 42)), ("no", (0, 7, 9))])
def test_numbers_that_tell_reports_of_a_level_apart_are_runs(name: str, seeds: tuple[int, ...]) -> None:
    table = pd.concat([tickets().drop(columns=["row", "seconds"]).assign(**{name: seed}) for seed in seeds])
    table["said"] = [f"{text} more" if n % 7 == 0 else text for n, text in enumerate(table["said"])]
    observations = told(table)
    assert sorted({*observations.groups}) == sorted(MODELS)
    assert observations.level_names[0].split("/")[1] in map(str, seeds)
    assert observations.table.names.confidence == "sure"
    assert told(table, groups="none").groups is None
    conditions = told(table.rename(columns={name: "prompt"}))
    assert (conditions.groups, conditions.n_levels) == (None, 15)


def test_repeated_rows_without_a_column_of_runs_are_runs_in_their_order(tmp_path: Path) -> None:
    table = tickets().sort_values("row", kind="stable")
    table = pd.concat([table, table.assign(said=table["said"].shift(1), sure=50)]).drop(columns=["row", "seconds"])
    with pytest.warns(
        ColumnsWarning, match=r"level llm \(gpt, llama, \w+, \w+, \w+\), .*run in the order of rows.*\n.*--groups none"
    ):
        observations = Observations.from_frame(table)
    assert (observations.n_levels, {*observations.groups}) == (10, {*MODELS})
    assert observations.level_names[:2] == ("gpt/1", "llama/1")
    table.to_csv(tmp_path / "runs.csv", index=False)
    with pytest.warns(ColumnsWarning):
        assert Observations.read(tmp_path / "runs.csv").fingerprint == observations.fingerprint
    copies = pd.concat([tickets(), tickets()])
    with pytest.raises(ObservationError, match="this level occurs twice"):
        Observations.from_frame(copies, **NAMED)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("correct_said", "truth"),
        ("tokens_said", np.arange(N) + 100),
        ("final_said", "truth"),
        ("note_said", [f"see page {n}" for n in range(N)]),
    ],
)
def test_keys_and_what_holds_no_answers_are_no_levels_unless_they_are_named(key: str, values: object) -> None:
    table = side_by_side("{level}_{field}").drop(columns=[f"{name}_sure" for name in MODELS])
    table[key] = table[values] if isinstance(values, str) else values
    with pytest.warns(ColumnsWarning, match=rf"levels .*\(not {key.split('_')[0]}\)\.\nTo change it: .*levels=NAME"):
        observations = Observations.from_frame(table)
    assert observations.level_names == tuple(sorted(MODELS))
    assert observations.table.names.gold == "truth"
    again = Columns.named(observations.table.names.pairs)
    assert (
        Observations.from_frame(
            table, **{f: vars(again)[f] for f in ("question", "answer", "gold", "levels")}, confidence=None
        ).fingerprint
        == observations.fingerprint
    )
    every = {"question": "ticket", "answer": "{level}_said", "confidence": None, "gold": "truth"}
    named = Observations.from_wide(table, **every, levels=[*MODELS, key.split("_")[0]])
    assert named.n_levels == len(MODELS) + 1
    ours = table.rename(columns=lambda name: f"answer_{name.removesuffix('_said')}" if name.endswith("_said") else name)
    ours = ours.rename(columns={"ticket": "problem_id", "truth": "gold_answer"})
    with pytest.warns(ColumnsWarning, match=r"in it: levels .*\(not "):
        assert Observations.from_frame(ours, confidence=None).n_levels == len(MODELS)


@pytest.mark.parametrize("flags", [("True", "False"), ("yes", "no"), ("1", "0")])
def test_flags_that_are_the_same_for_different_answers_are_right_answers_or_asked_for(flags: tuple[str, str]) -> None:
    rng = np.random.default_rng(1)
    truth, shape = rng.random(N) < 0.5, (N, 5)
    said = np.where(rng.random(shape) < 0.7, truth[:, None], ~truth[:, None])
    rows = [(f"q{q}", m, flags[1 - said[q, k]], flags[1 - truth[q]]) for q in range(N) for k, m in enumerate(MODELS)]
    table = pd.DataFrame(rows, columns=["problem_id", "level", "answer", "correct"])
    observations = told(table, confidence=None)
    np.testing.assert_array_equal(observations.correct, said == truth[:, None])
    texts = table.assign(answer=[f"{text} {n % 3}" for n, text in enumerate(table["answer"])])
    texts["correct"] = texts["correct"] == flags[0]
    if flags[0] != "yes":
        with pytest.raises(
            ObservationError, match=r"correct says the same .*answers differ; .*correct='correct'.*gold="
        ):
            Observations.from_frame(texts, confidence=None)
        assert Observations.from_frame(texts, confidence=None, correct="correct").labelled.all()
        both = texts.assign(answer="x", correct=np.arange(5 * N) % 2 == 0)
        with pytest.raises(ObservationError, match="correct says of most answers both, right and wrong"):
            Observations.from_frame(both, confidence=None)


def test_what_was_told_names_the_option_that_changes_it() -> None:
    table = pd.DataFrame({"problem_id": ["q", "q", "r", "r"], "level": ["x", "y"] * 2, "reply": ["1", "2"] * 2})
    with pytest.warns(
        ColumnsWarning, match=r"answer reply.*\nTo change it: --column (\w+)=NAME \(in Python \1='NAME'\)"
    ):
        Observations.from_frame(table.assign(gold_answer=["1", "1", "2", "2"], confidence=[90, 80, 70, 60]))


def test_flags_that_contradict_the_right_answers_are_asked_for() -> None:
    said, gold = np.tile(["Oslo", "Bergen", "Oslo"], N), np.repeat(["Oslo", "oslo "], 3 * N // 2)
    table = pd.DataFrame({"problem_id": np.repeat(np.arange(N), 3), "level": ["x", "y", "z"] * N, "answer": said})
    table = table.assign(gold_answer=gold, correct=said != "Oslo")
    with pytest.raises(ObservationError, match="correct says of nearly all answers that equal gold_answer"):
        Observations.from_frame(table, confidence=None)
    observations = Observations.from_frame(table, confidence=None, correct="correct")
    assert observations.correct.tolist() == [[False, True, False]] * N
    assert observations.conflicting.tolist() == [1] * N
    table["correct"] = table["correct"] ^ (np.arange(3 * N) > 6)  # a few, which are counted
    assert Observations.from_frame(table, confidence=None).conflicting.sum() == 3


def test_recognition_without_right_answers_says_how_to_name_them() -> None:
    with pytest.raises(ObservationError, match=r"name it: --column gold=NAME, or correct=NAME"), pytest.warns():
        Observations.from_frame(tickets()[["ticket", "llm", "said", "sure"]])


def test_commands_say_it_in_two_lines_and_a_fit_keeps_it(tmp_path: Path) -> None:
    tickets(scale=1).to_csv(tmp_path / "mine.csv", index=False)
    done = run("fit", tmp_path / "mine.csv", "--out", tmp_path / "fit.nc")
    assert done.exit_code == 0, done.output
    first, second, *_ = done.stderr.splitlines()
    assert (
        "question ticket, level llm (gemma, gpt, phi, qwen, llama), answer said, confidence sure, gold truth, scale"
        in one_line(first)
    )
    assert second.startswith("To change it: --column level=NAME")
    unnamed = ("predict", tmp_path / "fit.nc", tmp_path / "mine.csv", "--out", tmp_path / "p.csv")
    assert "by what is in it" not in run(*unnamed).stderr
    expected = pd.read_csv(tmp_path / "p.csv")
    for suffix in ("jsonl", "parquet", "csv"):
        Observations.from_frame(tickets(), **NAMED).write(tmp_path / f"o.{suffix}")
        succeed("predict", tmp_path / "fit.nc", tmp_path / f"o.{suffix}", "--out", tmp_path / "own.csv")
        predicted = pd.read_csv(tmp_path / "own.csv").rename(columns={"problem_id": "ticket"})
        pd.testing.assert_frame_equal(predicted, expected)
