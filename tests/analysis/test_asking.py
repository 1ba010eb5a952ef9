"""The picture of a policy shows what ways of asking cost and are worth."""

import pandas as pd
import pytest

from analysis.asking import policy_figure
from tests.analysis.figure_checks import assert_stands_alone, said


def forecast(dear: float = 1.0) -> pd.DataFrame:
    shares = {"policy": 0.3, "all": 1.0, "fixed": 0.25}
    rows = [
        {
            "asked": name,
            "levels": ["a", "$b"] if name == "fixed" else [],
            "reports": 10 * share,
            "share": share,
            "price_share": share**dear,
            "benefit": 0.5 + 0.1 * share,
            "benefit_low": 0.4,
            "benefit_high": 0.7,
        }
        for name, share in [*shares.items(), ("curve", 0.9), ("curve", 0.1)]
    ]
    return pd.DataFrame(rows)


def test_it_stands_alone():
    figure = policy_figure(forecast(), "Tried on 7 questions.")
    assert_stands_alone(figure, "Tried on 7 questions.", "probability 0.9")
    for words in ("benefit 0.53 for 30% of the reports", "3.0 reports a question", "the best 2 levels everywhere"):
        assert words in said(figure)
    curve, own, *_ = figure.axes[0].lines
    assert list(curve.get_xdata()) == [0.1, 0.3, 0.9]
    assert curve.get_ydata() == pytest.approx([0.51, 0.53, 0.59])
    assert (own.get_xdata()[0], own.get_ydata()[0]) == pytest.approx((0.3, 0.53))


def test_unequal_prices_are_named():
    figure = policy_figure(forecast(dear=2.0), "Tried on 7 questions.")
    assert "share of the price of all reports" in said(figure)
    assert "for 9% of the price" in said(figure)
