"""A NumPyro function of one's own, named on the command line."""

from pathlib import Path

import pytest

from bayes_direag.commands.options import chosen_preset, load_fit
from bayes_direag.data.observations import Observations
from bayes_direag.errors import DirEAGError
from bayes_direag.fits.fit import Fit
from tests.command_line import one_line, refuse, succeed

PROGRAM = """
import jax.numpy as jnp, numpyro, numpyro.distributions as dist
from bayes_direag.model.evidence import draw_states, sums_by_answer

def odds(data):
    slope = numpyro.sample("slope", dist.Normal(0.3, 0.2))
    draw_states(data, slope * sums_by_answer(data.usable * data.logit, data.candidate), jnp.zeros(len(data.weight)))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("own") / "models.py"
    path.write_text(PROGRAM)
    return f"{path}:odds"


@pytest.fixture(scope="module")
def own(program: str, observations: Path) -> Path:
    """Return the file of a fit of that function."""
    path = Path(program).with_name("own.nc")
    succeed("fit", observations, "--preset", program, "--out", path)
    return path


def test_preset_may_be_a_function_in_a_file(own: Path, program: str, observations: Path, tmp_path: Path) -> None:
    """It is fitted, named again where it predicts, and shown without it, in no words of ours about its sites."""
    table = tmp_path / "p.csv"
    assert "model of its own, odds" in refuse("predict", own, observations, "--out", table)
    succeed("predict", own, observations, "--preset", program, "--out", table)
    expected = Fit.load(own, preset=chosen_preset(program)).predict(str(observations))
    assert len(table.read_text().splitlines()) == len(expected) + 1
    shown = one_line(succeed("show", own))
    assert " slope " in shown
    assert "stated confidence" not in shown
    assert "share: of the weight" not in shown
    assert "final calibration; 0 leaves the support as it is" in shown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nowhere.py:odds", "there is no file nowhere.py; expected FILE.py:FUNCTION"),
        ("odd", "--preset: saw 'odd'; expected bayes, paper|--preset: saw 'odd'; expected paper, release, bayes"),
    ],
)
def test_preset_that_is_no_function_is_refused(given: str, message: str) -> None:
    with pytest.raises(DirEAGError, match=message):
        chosen_preset(given)


def test_preset_of_a_file_that_fails_names_the_error(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("import nothing_of_this_name")
    with pytest.raises(DirEAGError, match="ModuleNotFoundError: No module named 'nothing_of_this_name'"):
        chosen_preset(f"{tmp_path / 'models.py'}:odds")


def test_preset_of_a_fit_is_that_which_was_fitted(point: Fit, program: str, tmp_path: Path) -> None:
    """A preset's fit takes its own preset; another, or a function, is refused."""
    file = tmp_path / "fit.nc"
    point.save(file)
    assert load_fit(file, "bayes").method == "map"
    for asked, name in (("paper", "paper"), (program, "odds")):
        with pytest.raises(DirEAGError, match=f"fit.nc: the fit is of preset bayes; saw {name}; expected the one that"):
            load_fit(file, asked)


def test_compare_gives_the_function_to_the_fit_of_a_model_of_ones_own(
    own: Path, fitted: tuple[Path, str], program: str, observations: Path, tmp_path: Path
) -> None:
    assert "own" in succeed("compare", own, fitted[0], "--preset", program)
    refused = refuse("predict", own, observations, "--preset", "bayes", "--out", tmp_path / "p.csv")
    assert "own.nc: the fit is of a model of its own odds; saw bayes; expected the one that was fitted" in refused


def test_explain_takes_the_function_of_a_model(own: Path, program: str, observations: Path) -> None:
    question = Observations.read(observations).problem_id[0]
    for words in (("explain", own, observations, question), ("serve", own)):
        assert "the fit is of a model of its own, odds, whose function a file does not hold" in refuse(*words)
    assert question in succeed("explain", own, observations, question, "--preset", program)


@pytest.mark.slow
def test_pictures_and_reports_leave_out_what_needs_the_function(
    own: Path, program: str, observations: Path, tmp_path: Path
) -> None:
    folder, page, reason = tmp_path / "evaluation", tmp_path / "report.html", "whose function a file does not hold"
    few = "--methods", "direag", "--folds", 2, "--resamples", 20
    succeed("evaluate", observations, "--preset", program, *few, "--out", folder)
    assert reason in one_line(succeed("show", own, "--plot", tmp_path / "pictures"))
    succeed("report", folder, "--fit", own, "--out", page)
    assert reason in page.read_text()
    assert [path.name for path in (tmp_path / "pictures").glob("*.png")] == ["parameters.png"]
