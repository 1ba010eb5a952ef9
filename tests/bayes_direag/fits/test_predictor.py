"""An exported fit says what the fit says, and needs no more than NumPy to say it."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError, FitFileError, LevelError, ObservationError
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map
from bayes_direag.model.equations import Parameters
from bayes_direag.model.selection import Recalibration
from bayes_direag.model.settings import RecalibrationMethod
from bayes_direag.predictor import Predictor

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def exported(point: Fit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    of_levels = {"weight": [[0.5, 1, 1.5, 2, 2.5]], "vote": [[0.1, 0, -0.1, 0, 0.2]]}
    shared = {"null_base": [0.5], "sharpness": [1.2], "prior_strength": [1.0], "null_gain": [1.0]}
    path = tmp_path_factory.mktemp("exported") / "predictor.json"
    parameters = Parameters(**{name: np.array(value) for name, value in (of_levels | shared).items()})
    replace(point.predictor, parameters=parameters).save(path)
    return path


def test_predictor_takes_many_reports_of_a_group_but_one_of_each_level(groups: Fit) -> None:
    predictor = groups.predictor
    runs = [{"group": "bold", "answer": answer, "confidence": 90} for answer in (3, 3, "3.0", "no number")]
    said = predictor.predict(runs)
    assert (said["answer"], said["n_used"]) == ("3", 3)
    report = {"group": "bold", "answer": 3, "confidence": 90}
    for levels in ({}, {"level": None}), ({"level": 1}, {"level": 2}):
        assert predictor.predict([report | level for level in levels])["n_used"] == 2
    for twice in ([report | {"level": 1}] * 2, [report, {"level": "bold", "answer": 3, "confidence": 90}]):
        with pytest.raises(ObservationError, match="a level occurs twice; saw 'bold'"):
            predictor.predict(twice)


def changed(**parts: object):
    return lambda stored: stored | parts


def within(*place: str, **parts: object):
    """Return the same for an object within the file."""

    def change(stored: dict[str, Any], *steps: str) -> dict[str, Any]:
        first, *rest = steps or place
        return stored | {first: change(stored[first], *rest) if rest else stored[first] | parts}

    return change


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda _: "no object", "TypeError"),
        (changed(format="fit"), "saw fit 2; expected bayes-direag predictor 2"),
        (changed(version=1), "saw bayes-direag predictor 1; expected bayes-direag predictor 2"),
        (changed(answers="numbers"), "saw numbers answers; expected one of numeric, choice, choices, text"),
        (changed(levels=["a"]), "parameters weight, vote are not 1 draws of 1 levels"),
        (changed(parameters={"weight": [[1.0]]}), "TypeError: .*'prior_strength', 'null_base'"),
        (changed(recalibration={"method": "platt"}), "KeyError: 'values'"),
        (changed(eps=1e308), "saw eps 1e\\+308; expected a number between 0 and 0.5"),
        (changed(eps=None), "TypeError"),
        (within("recalibration", "values", slope=[None]), "platt has other values than numbers"),
        (within("recalibration", "values", slope=["1e999"]), "the final calibration by platt has other values"),
        (within("recalibration", "values", slope=[10**400]), "OverflowError"),
        (within("recalibration", eps=-1.0), "saw eps -1.0"),
        (within("recalibration", method="softmax"), "saw a final calibration by softmax; expected one of platt"),
        (within("parameters", weight=[[-1.0] * 5]), "parameters weight are not"),
        (within("parameters", weight=[]), "parameters weight, .* are not 0 draws of 5 levels"),
        (within("parameters", slope=[math.nan]), "parameters slope are not"),
        (changed(signals=[["number"]]), "for the name of a level, label or signal"),
        (changed(signals=3), "TypeError"),
        (changed(signals=[]), "parameters .* are not 1 draws of 5 levels"),
        (within("parameters", null_gain=[1e308]), "parameters null_gain are not"),
        (within("parameters", prior_strength=[0]), "parameters prior_strength are not"),
        (changed(made_by=3), "TypeError"),
        (lambda stored: stored | {"levels": [*stored["levels"][:4], stored["levels"][0]]}, "saw the name '.*' twice"),
        (within("recalibration", most_reports=10**400), "has other values than numbers"),
        (lambda stored: [stored] * 3, "TypeError"),
    ],
)
def test_predictor_refuses_a_bad_file(change, cause: str, exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(change(json.loads(exported.read_text()))))
    with pytest.raises(FitFileError, match=f"bad.json: not a predictor that this version can read .*{cause}"):
        Predictor.load(path)


@pytest.mark.parametrize("made_of", [None, b"[" * 100_000, b"", b"\x89HDF\r\n\x1a\n"])
def test_predictor_refuses_what_is_none(made_of: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "fit.nc"
    if made_of is not None:
        path.write_bytes(made_of)
    with pytest.raises(FitFileError, match=r"expected a file written by Fit.export. Export the fit again"):
        Predictor.load(path)


def test_predictor_and_fit_read_nothing_but_truth_values_where_labels_are_such(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    records = []
    for number in range(60):
        truth = bool(rng.random() < 0.5)
        says = {name: truth == (rng.random() < 0.8) for name in "abcde"}  # as many as the levels of other fits
        reports = [{"level": name, "answer": str(said), "confidence": 80} for name, said in says.items()]
        records += [{"problem_id": f"{number}", "gold_answer": str(truth), **report} for report in reports]
    fit = fit_map(Observations.from_records(records))
    fit.export(tmp_path / "predictor.json")
    predictor = Predictor.load(tmp_path / "predictor.json")
    assert predictor.labels == ("false", "true")
    maybe = {"level": "e", "answer": "maybe", "confidence": 99}
    said = [{"level": name, "answer": True, "confidence": 70} for name in "abc"]
    said.append({"level": "d", "answer": "False", "confidence": 60})
    predicted, alone = predictor.predict([*said, maybe]), predictor.predict(said)
    assert predicted == alone
    assert (predicted["answer"], predicted["n_used"]) == ("true", 4)
    assert predictor.predict([maybe])["answer"] is None
    texts = [{"problem_id": "new", **report, "answer": str(report["answer"])} for report in (*said, maybe)]
    row = fit.predict(texts, warn=False).iloc[0]
    assert (row["answer"], row["n_used"]) == ("true", 4)
    assert row["probability"] == pytest.approx(predicted["probability"], rel=1e-9)


@pytest.mark.parametrize(
    ("report", "error", "said"),
    [
        ({"level": "bold"}, LevelError, r"reports\[1\]: this level is unknown to the fit; saw 'bold'; expected one of"),
        ({"level": "cautious", "confidence": 101}, ObservationError, r"reports\[1\].confidence: .* saw 101"),
        ({"level": "cautious", "confidence": True}, ObservationError, "a number from 0 to 100, or null"),
        ({"level": "cautious", "answer": ["5"]}, ObservationError, r"reports\[1\].answer: .* expected text, a number"),
        ({"level": "vanilla"}, ObservationError, "a level occurs twice"),
        ({"level_name": "vanilla", "answer": "6"}, ObservationError, "a level occurs twice; saw 'vanilla'"),
        ({"level": 2, "level_name": "vanilla"}, ObservationError, "a level occurs twice; saw 'vanilla'"),
        ({"group": "vanilla"}, ObservationError, "a level occurs twice; saw 'vanilla'"),
        ({"level": [1]}, ObservationError, r"reports\[1\].level: .* saw \[1\]; expected a name or a number"),
        ({"level": {}}, ObservationError, r"reports\[1\].level: .* saw \{\}"),
        ({"level": "cautious", "level_name": ["a"]}, ObservationError, r"reports\[1\].level_name: .* saw \['a'\]"),
        ({"group": ["vanilla"]}, ObservationError, r"reports\[1\].group: .* saw \['vanilla'\]"),
        ({"level": "bold" * 10**6}, LevelError, "unknown to the fit"),
        ({"level": "cautious", "confidence": 10**5000}, ObservationError, "saw int of thousands of digits"),
        ({"level": "cautious", "answer": 10**5000}, ObservationError, "saw int of thousands of digits"),
        ({"level": "cautious", "confidences": [80]}, ObservationError, r"reports\[1\].confidences: .* saw \[80\]"),
        (
            {"level": "cautious", "confidence": 90, "confidences": {"number": 10}},
            ObservationError,
            r"reports\[1\].confidences.number: .* saw 10.0; expected one stated confidence",
        ),
        (
            {"level": "cautious", "confidences": {"words": "high"}},
            ObservationError,
            r"confidences.words: .* saw 'high'",
        ),
    ],
)
def test_predictor_refuses_a_report_that_cannot_be_used(report, error, said: str, exported: Path) -> None:
    predictor = Predictor.load(exported)
    with pytest.raises(error, match=said):
        predictor.predict([{"level": "vanilla", "answer": "5", "confidence": 80}, report])


def test_predictor_refuses_what_is_no_list_of_reports(exported: Path) -> None:
    """In a process where nothing checks types but the predictor itself."""
    code = (
        "import sys\nfrom bayes_direag import DirEAGError, Predictor\npredictor = Predictor.load(sys.argv[1])\n"
        "for reports in (3, None, 'reports', {'level': 'vanilla'}, [3], [None], ['vanilla']):\n"
        "    try:\n"
        "        predictor.predict(reports)\n"
        "    except DirEAGError as error:\n"
        "        print(error)"
    )
    command = [sys.executable, "-c", code, str(exported)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()  # noqa: S603
    assert [line.partition(":")[0] for line in lines] == ["field reports"] * 4 + ["field reports[0]"] * 3
    assert "saw 3; expected a list of reports" in lines[0]
    assert "saw 3; expected an object with level, answer and confidence" in lines[4]


def test_predictor_takes_missing_values_and_refuses_half_a_character(exported: Path) -> None:
    predictor = replace(Predictor.load(exported), answers="text", voting=frozenset())
    one = {"level": "vanilla", "answer": "b", "confidence": 80}
    nothing = {"confidence": None, "confidences": math.nan}
    for missing in ({"answer": math.nan}, {"confidence": math.nan}, {"answer": None}, nothing):
        assert predictor.predict([one | missing])["n_used"] == 0
    with pytest.raises(ObservationError, match=r"reports\[0\].answer: .* expected text that can be written"):
        predictor.predict([one | {"answer": "\ud83d"}])


def test_predictor_refuses_fractions_and_intervals_that_are_no_probabilities(exported: Path) -> None:
    predictor = Predictor.load(exported)
    for stated in ([0.9], [0.9] * 5, [0.2, 0.7, 0.9, 0.95], [0.9, 1.0]):
        pairs = zip(predictor.levels, stated, strict=False)
        with pytest.raises(ObservationError, match=r"so they look like fractions; saw .*; expected percentages"):
            predictor.predict([{"level": name, "answer": "5", "confidence": confidence} for name, confidence in pairs])
    assert predictor.predict([{"level": "vanilla", "answer": "5", "confidence": 1}])["n_used"] == 1
    with pytest.raises(DirEAGError, match=r"interval level 90.0"):
        predictor.predict([], interval_level=90.0)
    assert repr(replace(predictor, levels=("a", "b"))) == "Predictor(MAP; levels a, b)"
    assert predictor.predict([])["answer"] is None
    assert np.isfinite(predictor.predict([])["null_probability"])
    assert {*Recalibration.METHODS} == {*get_args(RecalibrationMethod)}
