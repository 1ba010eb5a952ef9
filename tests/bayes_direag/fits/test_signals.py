"""Several signals a report: each has its own slope, one that is missing is skipped, one alone is the paper's model."""

import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from bayes_direag import Fit, LikelihoodData, Observations, fit_map, simulate_observations
from bayes_direag.data.columns import Columns
from bayes_direag.errors import ColumnsWarning, DirEAGError, FewReportsWarning, ObservationError
from bayes_direag.model import presets
from bayes_direag.model.presets import preset
from bayes_direag.model.simulate import default_parameters

NAMES = ("number", "logprob", "words")
BAYES = preset("bayes")
IN_SAMPLE = presets.preset(BAYES, recalibration={"method": "none", "out_of_fold": 0})


def simulated_signals() -> Observations:
    truth = default_parameters() | {"slope": np.array([0.9, 0.1, 1.5])}
    return simulate_observations(n=120, seed=5, parameters=truth, signals=("words", "logprob"))


@pytest.fixture(scope="module")
def observations() -> Observations:
    return simulated_signals()


@pytest.fixture(scope="module")
def records(observations: Observations) -> list[dict[str, object]]:
    return [question.model_dump(mode="json", exclude_none=True) for question in observations.questions]


def test_questions_are_of_one_pattern_only_if_all_signals_are_equal(observations: Observations) -> None:
    rows = np.r_[0:60, 0:60, 20:60]
    counted = LikelihoodData.of(observations.select(rows), preset=IN_SAMPLE).counted()
    assert sorted(counted.weight[counted.weight > 0].tolist()) == [2] * 20 + [3] * 40


def changed(records: list[dict[str, object]], change: Callable[[dict[str, object]], dict[str, object]]) -> Observations:
    """Return the observations with each report changed."""
    return Observations.from_records(
        [dict(record, observations=[change(report) for report in record["observations"]]) for record in records]
    )


def test_signal_alone_is_the_stated_confidence_however_it_is_written(observations, records) -> None:
    """Where no number is stated, another signal takes its place. The paper uses the first alone."""
    alone = observations.of_signals(NAMES[:1])
    first = changed(records, lambda own: own | {"confidences": None})
    inside = changed(records, lambda own: own | {"confidence": None, "confidences": {"number": own["confidence"]}})
    assert first.fingerprint == inside.fingerprint == alone.fingerprint
    without = changed(records[:80], lambda own: own | {"confidence": None})
    assert without.signal_names == ("logprob", "words")
    assert LikelihoodData.of(without, preset=IN_SAMPLE).logit.shape[0] == 2
    papers = [fit_map(one, preset="paper") for one in (observations, alone)]
    pd.testing.assert_frame_equal(*(fit.parameters() for fit in papers))
    pd.testing.assert_frame_equal(papers[0].predict(observations), papers[1].predict(alone))


def test_signal_makes_a_report_usable(signals: Fit, records: list[dict[str, object]]) -> None:
    reports = [dict(report) for report in records[0]["observations"]]
    reports[0] |= {"confidence": None, "confidences": {"words": 30}}
    reports[1] |= {"confidence": None, "confidences": {"words": None}}
    observations = Observations.from_records([dict(records[0], observations=reports), *records[1:]])
    row = signals.predict(observations).iloc[0]
    assert row.n_used == len(reports) - 1
    said = signals.answer(reports)
    assert said["n_used"] == row.n_used
    assert said["support"] == pytest.approx(row.support, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"words": 101}, ".words", "saw 101; expected a number from 0 to 100"),
        ({"words": "sure"}, ".words", "Write confidences in percent"),
        ({"my words": 50}, "", "names (a letter, then letters, digits"),
    ],
)
def test_signal_that_is_wrong_is_named_with_its_place(given: dict[str, object], field: str, said: str) -> None:
    report = {"level": 0, "answer": "1", "confidence": 80, "confidences": given}
    with pytest.raises(ObservationError) as raised:
        Observations.from_records([{"problem_id": "a", "gold_answer": "1", "observations": [report]}])
    assert raised.value.field.startswith(f"observations[0].confidences{field}")
    assert said in str(raised.value)


def test_signals_of_a_table_may_be_fractions_and_errors_name_the_column(signals, observations, tmp_path) -> None:
    assert observations.signal_names == NAMES
    assert [name for name, _ in signals.draws() if name.startswith("slope")] == [f"slope[{name}]" for name in NAMES]
    frame, path = observations.to_frame(), tmp_path / "all.csv"
    columns = ["confidence", "confidence_logprob", "confidence_words"]
    assert frame.columns[4:7].tolist() == columns
    frame[columns] /= 100
    fractions = Observations.from_frame(frame, scale="fraction")
    pd.testing.assert_frame_equal(signals.predict(fractions), signals.predict(observations))
    with pytest.warns(ColumnsWarning, match="scale fraction"):
        assert Observations.from_frame(frame).fingerprint == fractions.fingerprint
    path.write_text("problem_id,level,answer,confidence,confidence_words,gold_answer\na,0,1,80,120,1\n")
    with pytest.raises(ObservationError, match=r"line 2, field confidence_words: .* saw 120"):
        Observations.read(path)


def test_columns_of_signals_are_named_and_kept_by_the_fit(signals, observations, tmp_path) -> None:
    """They need not be in a table that the fit reads, which says what it lacks."""
    names = {"confidence_words": "wording", "confidence_logprob": "token_p"}
    theirs, path = observations.to_frame().rename(columns=names), tmp_path / "theirs.csv"
    theirs.to_csv(path, index=False)
    columns = Columns.named(["signal.words=wording", "signal.logprob=token_p"])
    assert Columns.named(columns.pairs) == columns == Columns(signals={"words": "wording", "logprob": "token_p"})
    read = Observations.read(path, columns=columns)
    assert read.fingerprint == observations.fingerprint
    assert Observations.from_frame(theirs, signals=columns.signals).fingerprint == observations.fingerprint
    fit = Fit(signals.tree.copy())
    fit.tree.attrs["columns"] = json.dumps(columns.pairs)
    pd.testing.assert_frame_equal(fit.predict(path), signals.predict(observations))
    expected = signals.predict(observations.of_signals(["number", "logprob"]), warn=False)
    whole = signals.predict_candidates(observations).set_index(["problem_id", "answer"])["probability"]
    pairs = [*zip(expected["problem_id"], expected["answer"], strict=True)]
    points = 100 * (expected["probability"] - whole[pairs].array).mean()
    said = f"No report states words, from .* too {'high' if points > 0 else 'low'} by {abs(points):.1f} points"
    with pytest.warns(FewReportsWarning, match=said):
        lacking = fit.predict(theirs.drop(columns="wording"))
    pd.testing.assert_frame_equal(lacking, expected)
    reports = [
        {"level": level, "answer": "7", "confidences": {"number": 80, "logprob": 70}} for level in fit.level_names
    ]
    assert "No report states words, from which" in fit.answer(reports)["remarks"][0]
    of_words = fit_map(observations.of_signals(["words"]))
    with pytest.warns(FewReportsWarning, match="No report states words, from which"):
        of_words.predict(observations.of_signals(["number"]))
    (remark,) = of_words.answer([report | {"confidences": {"number": 80}} for report in reports])["remarks"]
    assert "No report states words, from which" in remark
    (quiet,) = signals.remarks(signals.aligned(observations.of_signals(["number", "words"])))
    assert quiet == "No report states logprob, without which the probabilities hold."
    with pytest.raises(ObservationError, match=r"no column wrding; .*--column answer=NAME"):
        Observations.read(path, columns=Columns(signals={"words": "wrding"}))
    with pytest.raises(DirEAGError, match="saw the signal 'a b'; expected letters"):
        Columns(signals={"a b": "wording"})


def test_signals_side_by_side_have_columns_of_a_form() -> None:
    table = pd.DataFrame({"id": [f"q{n}" for n in range(8)], "truth": [f"{n}" for n in range(8)]})
    for level, right in (("small", 5), ("middle", 6), ("large", 7)):
        table[f"{level}_reply"] = [f"{n}" if n < right else "9" for n in range(8)]
        table[f"{level}_p"], table[f"{level}_prob"] = range(60, 68), range(10 * right, 10 * right + 8)
    with pytest.raises(ObservationError, match=r"two columns .* confidence: .*--column signal\.NAME=\{level\}_prob"):
        Observations.from_frame(table)
    with pytest.warns(ColumnsWarning, match=r"confidence \{level\}_p"):
        observations = Observations.from_frame(table, signals={"tokens": "{level}_prob"})
    assert observations.signal_names == ("number", "tokens")
    np.testing.assert_allclose(observations.signals["tokens"][0], [0.5, 0.6, 0.7])


@pytest.mark.slow
def test_known_slopes_are_recovered() -> None:
    slope = np.array([1.4, 0.1, 0.7])
    truth = default_parameters() | {  # a world of the model: one bias, and doubt counts as much as belief
        "slope": slope,
        "bias": np.full(5, -1.0),
        "null_gain": np.array(1.0),
    }
    worlds = [simulate_observations(n=4000, seed=k, parameters=truth, signals=("a", "b")) for k in range(4)]
    table = [fit_map(one, preset=IN_SAMPLE).parameters().set_index("parameter")["mode"] for one in worlds]
    slopes = np.array([[row[f"slope[{name}]"] for name in ("number", "a", "b")] for row in table])
    error = slopes.std(axis=0, ddof=1) / 2
    assert (np.abs(slopes.mean(axis=0) - slope) < 4 * error + 0.1).all()
    assert (slopes[:, 0] > slopes[:, 2]).all()
    assert (slopes[:, 2] > slopes[:, 1]).all()
