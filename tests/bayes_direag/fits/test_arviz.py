"""ArviZ takes a fit as it stands: the calls that docs/diagnostics.md lists; and no public one goes unmentioned."""

import re
import warnings
from pathlib import Path
from types import ModuleType

import matplotlib.pyplot as plt
import numpy as np
import pytest

from bayes_direag.fits.fit import Fit

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "diagnostics.md").read_text()
WORKS, SENSELESS = PAGE.partition("\n## ArviZ\n")[2].partition("These make no sense")[::2]
CALLS = re.findall(r"`(az\.[^`]+\))`", WORKS)
#: Public names that take a posterior: pictures, tables, and what is left out.
TABLES = re.compile(
    r"(plot|loo|psense|lfo|rhat)(_|$)|(summary|diagnose|compare|reloo|ess|mcse|bfmi|hdi|eti|metrics)$|.*_(r2|factor)$"
)


def names(text: str) -> set[str]:
    return set(re.findall(r"az\.(\w+)", text))


@pytest.fixture(scope="module")
def az() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

    plt.switch_backend("agg")
    return arviz


pytestmark = pytest.mark.slow


def test_arviz_has_no_function_that_goes_unmentioned(az) -> None:
    public = {name for name in dir(az) if TABLES.match(name) and callable(getattr(az, name))}
    assert names(WORKS) | names(SENSELESS) == public
    assert names(WORKS) & names(SENSELESS) == set()


@pytest.mark.parametrize("call", CALLS)
def test_arviz_takes_the_container(az, nuts: Fit, call: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short chains, and what the picture itself has to say
        eval(call, {"az": az, "tree": nuts.with_predictive().tree})  # noqa: S307 - our own page
    plt.close("all")


@pytest.mark.parametrize("call", ["az.loo(tree)", "az.psense(tree)"])
def test_arviz_says_what_is_missing_of_a_map(az, point: Fit, call: str) -> None:
    with pytest.raises(TypeError, match=r"log (likelihood|prior) not found"):
        eval(call, {"az": az, "tree": point.tree})  # noqa: S307 - ours


def test_arviz_summary_is_of_what_was_learned(az, nuts: Fit) -> None:
    table = az.summary(nuts.tree, kind="stats_median", round_to="none")
    learned = nuts.parameters()
    learned = learned[learned["parameter"].isin([*map(str, nuts.tree["posterior"])])]
    labels = learned["parameter"] + ("[" + learned["level"] + "]").fillna("")
    assert sorted(table.index) == sorted(labels)
    np.testing.assert_allclose(table.loc[labels, "median"].astype(float), learned["median"], rtol=1e-9)
