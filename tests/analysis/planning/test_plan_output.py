"""A plan as tables, picture, folder and command."""

import io
import json
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from analysis.commands.plan import plan_command
from analysis.display.folders import jsonable
from analysis.planning.plan import Plan, plan
from analysis.planning.plan_display import about, plan_figure, plan_record, plan_tables, write_plan
from bayes_direag.errors import DirEAGError
from bayes_direag.model.simulate import simulate_observations
from tests.analysis.figure_checks import assert_stands_alone
from tests.analysis.fits import good_fit

NEW = simulate_observations(n=60, seed=9)


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(good_fit(), NEW, more=[0, 200], n_worth=3, target=0.7)


def test_tables_say_what_they_are_about(found: Plan) -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(plan_tables(found))
    said = " ".join(console.export_text().split())
    assert "60 questions" in said
    assert "+200 320" in said
    assert f"{found.curve['width'][1]:.3f}" in said
    assert found.worth["problem_id"][2] in said
    assert f"Together: {found.worth['worth'].sum():.0f}" in said
    assert about(found) == "60 questions"


def test_picture_stands_alone(found: Plan) -> None:
    figure = plan_figure(found)
    assert_stands_alone(figure, "60 questions", "90%", "target accuracy of 0.7")
    drawn = figure.axes[0].lines[0].get_ydata()
    assert list(drawn) == found.curve["width"].tolist()
    assert figure.axes[2].lines[0].get_ydata()[1] == pytest.approx(100 * found.curve["answered"][1])


def test_a_folder_holds_everything(found: Plan, tmp_path: Path) -> None:
    write_plan(found, good_fit(), tmp_path / "plan")
    record = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert record == jsonable(plan_record(found, good_fit()))
    assert record["n_questions"] == 60
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "plan" / "plan.csv"), found.curve)
    assert (tmp_path / "plan" / "plan.png").stat().st_size > 0
    write_plan(found, good_fit(), tmp_path / "plan")
    (tmp_path / "plan" / "mine.txt").write_text("keep")
    with pytest.raises(DirEAGError, match="mine"):
        write_plan(found, good_fit(), tmp_path / "plan")


def test_command(tmp_path: Path) -> None:
    app = Typer()
    app.command()(plan_command)
    fit, questions = tmp_path / "fit.nc", tmp_path / "new.jsonl"
    good_fit().save(fit)
    NEW.write(questions)
    options = ["--more", "0,200", "--worth", "3", "--target-accuracy", "0.7", "--out", str(tmp_path / "plan")]
    result = CliRunner().invoke(app, [str(fit), str(questions), *options, "--json"])
    assert result.exit_code == 0, result.output
    assert [row["more"] for row in json.loads(result.output)["curve"]] == [0, 200]
    assert (tmp_path / "plan" / "worth_labelling.csv").is_file()
    wrong = CliRunner().invoke(app, [str(fit), str(questions), "--more", "many"])
    assert isinstance(wrong.exception, DirEAGError)
