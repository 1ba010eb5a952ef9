"""The tables show the means, star the best group, and fit a terminal."""

import numpy as np
from rich.console import Console

from analysis.learning_curve.curve_table import curve_tables, sampling_note, shown_metrics
from analysis.learning_curve.summary import summarise
from analysis.methods.registry import CURVE_METHODS
from tests.analysis.learning_curve.made_results import made_results


def printed(values: dict[str, dict[int, np.ndarray]]) -> list[str]:
    console = Console(width=80, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(curve_tables(summarise(made_results(values), tested_share=0.5), 0.95))
    return capture.get().splitlines()


def test_the_best_group_is_starred() -> None:
    noise = 0.001 * np.array([1, -1, 1, -1])
    lines = printed({"majority": {30: 0.5 + noise}, "map_paper": {30: 0.4 - noise}})
    shown = ("benefit ↑", "accuracy ↑", "log score ↓", "NLL of its own answers ↓")
    titles = [lines.index(title) for title in (*shown, "smECE of its own answers ↓")]
    assert titles == sorted(titles)
    first, log_score = lines[titles[0] : titles[1]], lines[titles[2] : titles[3]]
    assert next(line for line in first if line.startswith("majority")).split()[1:] == ["0.500", "±", ".001*"]
    assert next(line for line in first if line.startswith("map_paper")).split()[1:] == ["0.400", "±", ".001"]
    assert next(line for line in log_score if line.startswith("map_paper")).split()[1:] == ["0.400", "±", ".001*"]
    # Everywhere the method of greatest benefit comes first.
    assert [line.split()[0] for line in log_score if line.startswith("ma")] == ["majority", "map_paper"]
    caption = " ".join(" ".join(lines).split())
    assert "the 95% interval of the paired difference does not show to be worse" in caption
    assert "clipped to 0.01..0.99" in caption


def test_the_longest_names_fit_beside_four_numbers_of_labels() -> None:
    longest = sorted(CURVE_METHODS, key=len)[-5:]
    values = {method: {n: np.array([0.61, 0.62]) for n in (30, 100, 300, 1000)} for method in longest}
    lines = printed(values)
    assert max(map(len, lines)) <= 80
    for method in longest:
        assert sum(line.split()[:1] == [method] for line in lines) == 5


def test_what_states_no_distribution_has_no_row_for_its_log_score() -> None:
    results = made_results({"majority": {30: np.full(3, 0.4)}, "map_paper": {30: np.full(3, 0.5)}})
    results.loc[results["method"] == "majority", "log_score"] = np.nan
    shown = shown_metrics(summarise(results, tested_share=0.5))
    assert shown["log_score"]["method"].tolist() == ["map_paper"]
    assert shown["benefit"]["method"].tolist() == ["map_paper", "majority"]
    assert "log_score" not in shown_metrics(summarise(results[results["method"] == "majority"], tested_share=0.5))


def test_undefined_is_a_dash() -> None:
    lines = printed({"majority": {30: np.array([np.nan, np.nan]), 100: np.array([0.1, 0.2])}})
    assert next(line for line in lines if line.startswith("majority")).split()[:2] == ["majority", "\N{EN DASH}"]


def test_fits_that_did_not_mix_are_counted_once_each() -> None:
    methods = ("majority", "nuts_bayes", "nuts_bayes_calibrated")
    values = {method: {30: np.full(4, 0.5)} for method in methods}
    results = made_results(values)
    figures = {
        "largest_rhat": [1.001, np.nan, 1.002, 1.002],
        "smallest_ess": [900, 900, 300, 900],
        "smallest_bfmi": [0.9, 0.9, 0.9, 0.9],
        "divergences": [0, 0, 0, 3],
    }
    for column, numbers in figures.items():
        results.loc[results["method"] != "majority", column] = numbers * 2
    assert sampling_note(results).startswith("3 of 4 NUTS fits did not converge (")
