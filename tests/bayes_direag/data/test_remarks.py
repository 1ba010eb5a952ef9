"""Which levels stand out: copies, shared mistakes, one confidence nearly always."""

import numpy as np
import pandas as pd
import pytest

from bayes_direag.commands.quality import show_remarks
from bayes_direag.data.observations import Observations
from bayes_direag.data.remarks import level_remarks, name_remarks
from bayes_direag.fits.fit import Fit
from tests.command_line import one_line, succeed

N = 60


@pytest.fixture(scope="module")
def observations() -> Observations:
    """Return five levels: one of its own, a copy of it, two that err alike, and one that always says 95%."""
    rng = np.random.default_rng(5)
    gold = rng.integers(4, size=N)
    own, alike = ((gold + (rng.random(N) < wrong) * rng.integers(1, 4, N)) % 4 for wrong in (0.4, 0.5))
    steady = (gold + (rng.random(N) < 0.3) * rng.integers(1, 4, N)) % 4
    other = np.where(rng.random(N) < 0.1, gold, alike)
    stated = rng.integers(30, 99, (4, N))
    answers = {"own": own, "copy": own, "alike": alike, "other": other, "steady": steady}
    confidences = {"own": stated[0], "copy": stated[0], "alike": stated[1], "other": stated[2]}
    return Observations.from_records(
        [
            {
                "problem_id": f"q{question}",
                "level": name,
                "answer": "ABCD"[answer[question]],
                "confidence": int(confidences.get(name, np.full(N, 95))[question]),
                "gold_answer": "ABCD"[gold[question]],
            }
            for question in range(N)
            for name, answer in answers.items()
        ],
        "choice",
    )


class TestLevelRemarks:
    def test_copies_shared_mistakes_and_constant_confidences_are_named(self, observations):
        copied, mistaken, constant = level_remarks(observations)
        assert copied.startswith(
            "own and copy are nearly copies: two of them have the same answer and confidence in 100%"
        )
        wrong = ~observations.correct[:, 2] | ~observations.correct[:, 3]
        both = observations.candidate[wrong, 2] == observations.candidate[wrong, 3]
        assert mistaken.startswith("alike and other make the same mistakes")
        assert f"the same wrong answer in {both.mean():.0%} of the questions" in mistaken
        assert all("make them a group: group='COLUMN'" in remark for remark in (copied, mistaken))
        assert constant.endswith("tells little: steady (95% in 100%).")

    def test_only_levels_asked_for_mistakes_known_and_questions_enough(self, observations):
        assert level_remarks(observations, ["own", "alike", "steady"]) == level_remarks(observations)[2:]
        assert level_remarks(observations.select(slice(0, 19))) == ()
        records = [question.model_copy(update={"gold_answer": None}) for question in observations.questions]
        remarks = level_remarks(Observations.from_questions(records, "choice"))
        assert [remark.split()[0] for remark in remarks] == ["own", "Most"]

    def test_a_cluster_is_one_line_and_a_group_none(self, observations):
        frame = observations.to_frame().drop(columns="level")
        runs = [frame.assign(level=frame["level_name"] + f"_run{n}") for n in range(4)]
        noisy = pd.concat(runs, ignore_index=True)
        noisy["confidence"] = np.random.default_rng(1).integers(30, 90, len(noisy))
        noisy = noisy[noisy["level_name"].isin(["own", "alike"])].drop(columns="level_name")
        remarks = level_remarks(Observations.from_frame(noisy, answers="choice"))
        assert len(remarks) == 2
        for name, remark in zip(("own", "alike"), remarks, strict=True):
            assert remark.startswith(f"{name}_run0, {name}_run1, {name}_run2 and {name}_run3 make the same mistakes")
            assert "make them a group: groups='{group}_run{n}' (--groups)." in remark
        numbered = noisy.assign(level=noisy["level"].str.replace("own_run", "own", regex=False))
        first, _ = level_remarks(Observations.from_frame(numbered, answers="choice"))
        assert "groups='{group}{n}'" in first
        grouped = Observations.from_frame(noisy, answers="choice", groups="{group}_run{n}")
        assert grouped.learned_levels == ("own", "alike")
        assert level_remarks(grouped) == ()

    def test_confidences_of_0_and_1_may_be_fractions(self, observations):
        def stating(*percents: float) -> Observations:
            frame = observations.to_frame()
            frame.loc[frame["level_name"] == "own", "confidence"] = np.resize(percents, N)
            return Observations.from_frame(frame, answers="choice")

        (remark,) = [remark for remark in level_remarks(stating(0, 1)) if "scale" in remark]
        assert remark.startswith("All confidences of these levels are 0% or 1%: own. If they are fractions")
        for percents in ((0, 100), (0, 0), (1, 2)):
            assert not any("scale" in remark for remark in level_remarks(stating(*percents)))

    @pytest.mark.slow
    def test_fit_and_explain_name_them(self, observations, tmp_path):
        observations.write(tmp_path / "o.jsonl")
        fitted = succeed("fit", tmp_path / "o.jsonl", "--out", tmp_path / "fit.nc")
        explained = succeed("explain", tmp_path / "fit.nc", tmp_path / "o.jsonl", "q7")
        for said in (fitted, explained):
            assert all(
                text in said for text in ("own and copy are nearly copies", "alike and other make the", "steady (95%")
            )
        assert level_remarks(Fit.load(tmp_path / "fit.nc").fitted) == level_remarks(observations)


class TestNameRemarks:
    def named(self, *names: str) -> Observations:
        return Observations.from_records(
            [{"problem_id": name, "level": "a", "answer": "1", "confidence": 50, "gold_answer": "1"} for name in names]
        )

    def test_names_of_one_question_in_two_forms(self, capsys):
        assert name_remarks(self.named("q1", "q2", "Q1")) == ()
        observations = self.named("caf\xe9", "q1", "cafe\u0301", "q 1", "q1\u200b")
        (remark,) = name_remarks(observations)
        assert remark.startswith("5 questions have names that differ only in spaces or in the form of characters: ")
        assert r"'caf\xe9' and 'cafe\u0301' and others. If they are one question" in remark
        show_remarks(observations)
        assert one_line(remark) in one_line(capsys.readouterr().out)
