"""What functions accept as observations, and what they say of anything else."""

from pathlib import Path

import pandas as pd
import pytest

from bayes_direag.data.columns import Columns
from bayes_direag.data.observations import Observations
from bayes_direag.errors import ArgumentError, ObservationError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.fits.predictor import Predictor
from bayes_direag.fits.sources import observations_of
from tests.command_line import refuse, succeed


def test_what_is_no_observations_at_all() -> None:
    with pytest.raises(ArgumentError, match="predict: saw int; expected Observations, a path, a DataFrame in long"):
        observations_of(3, "numeric", None)


#: What the command calls the names of questions in its table.
OWN = {"problem_id": "id"}


@pytest.fixture(scope="module")
def theirs(simulated: Observations) -> pd.DataFrame:
    """Return a table under other names, with fractions."""
    names = {"problem_id": "id", "level_name": "prompt", "confidence": "sure", "gold_answer": "truth"}
    frame = simulated.to_frame().drop(columns="level").rename(columns=names)
    return frame.assign(sure=frame["sure"] / 100)


@pytest.fixture(scope="module")
def fit(theirs: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Fit:
    names = {"question": "id", "level": "prompt", "confidence": "sure", "gold": "truth"}
    observations = Observations.from_frame(theirs, **names, scale="fraction")
    path = tmp_path_factory.mktemp("fit") / "fit.nc"
    fit_map(observations.select(slice(0, 80))).save(path)
    return Fit.load(path)


class TestHowItIsReadIsSaidOnce:
    def test_a_fit_reads_so(self, tmp_path: Path, simulated: Observations, theirs: pd.DataFrame, fit: Fit) -> None:
        names = {"question": "id", "level": "prompt", "confidence": "sure", "gold": "truth"}
        assert fit.columns == Columns(**names, scale="fraction")
        expected = fit.predict(simulated)
        theirs.to_csv(tmp_path / "o.csv", index=False)
        for source in (theirs, tmp_path / "o.csv", theirs.astype(object).to_dict("records")):
            pd.testing.assert_frame_equal(fit.predict(source), expected)
        fit.save(tmp_path / "fit.nc")
        succeed("predict", tmp_path / "fit.nc", tmp_path / "o.csv", "--out", tmp_path / "p.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected.rename(columns=OWN))

    @pytest.mark.parametrize("labels", [["truth", "correct"], ["truth"], []], ids=["unlabelled", "flagged", "labelled"])
    def test_labels_of_new_questions_may_be_missing(
        self, tmp_path: Path, simulated: Observations, theirs: pd.DataFrame, fit: Fit, labels: list[str]
    ) -> None:
        expected, new = fit.predict(simulated), theirs.drop(columns=labels)
        pd.testing.assert_frame_equal(fit.predict(new), expected)
        new.to_csv(tmp_path / "new.csv", index=False)
        new.to_parquet(tmp_path / "new.parquet", index=False)
        new.to_json(tmp_path / "new.jsonl", orient="records", lines=True)
        fit.save(tmp_path / "fit.nc")
        for source in (tmp_path / f"new.{suffix}" for suffix in ("csv", "parquet", "jsonl")):
            for again in ((), ("--column", "gold=truth")):
                succeed("predict", tmp_path / "fit.nc", source, "--out", tmp_path / "p.parquet", *again)
                pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected.rename(columns=OWN))

    def test_what_is_said_again_counts(self, tmp_path: Path, simulated: Observations, fit: Fit) -> None:
        ours, out = tmp_path / "o.csv", tmp_path / "p.parquet"
        simulated.to_frame().rename(columns={"problem_id": "id", "level_name": "prompt"}).to_csv(ours, index=False)
        fit.save(tmp_path / "fit.nc")
        assert "no column sure" in refuse("predict", tmp_path / "fit.nc", ours, "--out", out)
        named = ("--column", "confidence=confidence")
        assert "not on the scale fraction" in refuse("predict", tmp_path / "fit.nc", ours, "--out", out, *named)
        succeed("predict", tmp_path / "fit.nc", ours, "--out", out, *named, "--scale", "percent")
        pd.testing.assert_frame_equal(pd.read_parquet(out), fit.predict(simulated).rename(columns=OWN))

    def test_a_predictor_takes_fractions(self, tmp_path: Path, simulated: Observations) -> None:
        frame = simulated.to_frame()
        fractions = Observations.from_frame(frame.assign(confidence=frame["confidence"] / 100), scale="fraction")
        fit = fit_map(fractions.select(slice(0, 80)))
        fit.export(tmp_path / "predictor.json")
        predictor = Predictor.load(tmp_path / "predictor.json")
        for question, expected in zip(simulated.questions[:9], fit.predict(simulated)["probability"], strict=False):
            reports = [report.model_dump() for report in question.observations]
            stated = [report | {"confidence": report["confidence"] / 100} for report in reports]
            assert predictor.predict(stated)["probability"] == pytest.approx(expected, rel=1e-12)
        with pytest.raises(ObservationError, match=r"from 0 to 1, or null\. Write it on the scale fraction"):
            predictor.predict(reports)

    def test_groups_of_runs_and_a_row_a_question(self, tmp_path: Path, simulated: Observations) -> None:
        frame = simulated.to_frame()
        order = dict(zip(simulated.level_names, ("a_run0", "b", "a_run1", "a_run2", "c"), strict=True))
        table = frame.assign(level=frame["level_name"].map(order), confidence=frame["confidence"] / 100)
        wide = table.set_index(["problem_id", "level"])[["answer", "confidence"]].unstack()  # noqa: PD010
        wide.columns = [f"{field}_{level}" for field, level in wide.columns]
        wide["gold_answer"] = frame.groupby("problem_id")["gold_answer"].first()
        (tmp_path / "wide").mkdir()
        wide.reset_index().to_csv(tmp_path / "wide" / "o.csv", index=False, sep=";")
        asked = ("--scale", "fraction", "--groups", "{group}_run{n}", "--preset", "paper")
        succeed("fit", tmp_path / "wide" / "o.csv", "--out", tmp_path / "fit.nc", *asked)
        fit = Fit.load(tmp_path / "fit.nc")
        assert fit.level_names == ("a", "b", "c")
        assert fit.columns == Columns(scale="fraction", groups="{group}_run{n}")
        expected = fit.predict(wide.reset_index())
        pd.testing.assert_frame_equal(expected, fit.predict(wide.drop(columns="gold_answer").reset_index()))
        succeed("predict", tmp_path / "fit.nc", tmp_path / "wide" / "o.csv", "--out", tmp_path / "p.parquet")
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), expected)
        only_b = wide.reset_index()[["problem_id", "answer_b", "confidence_b"]]
        assert (fit.predict(only_b, warn=False)["n_used"] <= 1).all()
        fit.export(tmp_path / "predictor.json")
        predictor = Predictor.load(tmp_path / "predictor.json")
        rows = table[table["problem_id"] == expected["problem_id"].iloc[0]].astype(object)
        reports = rows[["level", "answer", "confidence"]].where(rows.notna(), None).to_dict("records")
        assert predictor.predict(reports)["probability"] == pytest.approx(expected["probability"].iloc[0], rel=1e-12)
        as_percent = [report | {"confidence": f"{100 * report['confidence']:.0f}%"} for report in reports]
        assert predictor.predict(as_percent) == predictor.predict(reports)
        with pytest.raises(ObservationError, match="a level occurs twice"):
            predictor.predict([reports[0], reports[0]])
