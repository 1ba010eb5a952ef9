"""The estimator does what scikit-learn asks of one: its own checks, searches, pipelines and cross-validation."""

import pickle

import numpy as np
import pytest
from pandas import NA
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from bayes_direag.data.observations import Observations
from bayes_direag.errors import ArgumentError, DirEAGError
from bayes_direag.fits import estimator
from bayes_direag.fits.estimator import DirEAG
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.fitting import fit_map, train_test
from bayes_direag.model import presets
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import FitSettings, SamplingSettings

PAPER = presets.preset("paper", "count", recalibration={"split": 0})
COUNT = DirEAG(preset=PAPER)


def test_it_is_a_fit(simulated: Observations) -> None:
    train, test = simulated[:60], simulated[60:]
    model = clone(COUNT).set_params(recalibration="release").fit(train)
    settings = model.fit_.preset
    assert settings.recalibration.method == "release"
    table = fit_map(train, preset=settings).predict(test)
    assert model.predict(test).tolist() == [None if a != a else a for a in table["answer"]]
    wrong, right = model.predict_proba(test).T
    np.testing.assert_allclose(right, table["probability"].fillna(0))
    np.testing.assert_allclose(wrong, 1 - right)
    is_right = test.is_right(table["answer"])
    assert model.score(test) == pytest.approx(is_right.mean() - ((is_right - right) ** 2).mean())
    assert pickle.loads(pickle.dumps(model)).score(test) == model.score(test)  # noqa: S301 - our own bytes
    with pytest.raises(NotFittedError, match="This DirEAG instance is not fitted yet"):
        COUNT.predict(test)


def test_it_samples(labelled: Observations, nuts: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(estimator, "fit_by", lambda *given: seen.extend(given) or nuts)
    sampling = SamplingSettings(n_chains=2, n_warmup=50, n_draws=25)
    model = DirEAG("nuts", sampling=sampling, seed=4).fit(labelled)
    assert (model.fit_, seen) == (nuts, [FitSettings(PRESETS["bayes"], "nuts", sampling, seed=4), labelled])


def test_there_are_two_methods(simulated: Observations, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("jaxtyping_packages"):
        pytest.skip("the types of arguments are checked at run time here, in users' programs they are not")
    for fit in (DirEAG(method="MAP").fit, lambda known: train_test(known[:40], known[40:], method="MAP")):
        with pytest.raises(DirEAGError, match="there is no method 'MAP'; expected map or nuts"):
            fit(simulated)


def test_x_and_y_in_every_form(simulated: Observations) -> None:
    """Observations and records, with the gold answers in X or in y, are the same data."""
    known = simulated[:40]
    gold = [question.gold_answer for question in known.questions]
    bare = Observations.from_questions(
        [one.model_copy(update={"gold_answer": None}) for one in known.questions], "numeric"
    )
    records = [one.model_dump(mode="json") for one in known.questions]
    hidden = [one | {"gold_answer": None} for one in records]
    expected = clone(COUNT).fit(known)
    for x, y in [(records, None), (hidden, gold), (hidden, np.array(gold, dtype=object)), (bare, gold)]:
        model = clone(COUNT).fit(x, y)
        assert model.score(x, y) == pytest.approx(expected.score(known))
        assert model.fit_.tree.attrs["answers"] == "numeric"
    with pytest.raises(DirEAGError, match=r"score: saw 40 questions, none with a gold answer and a weight; expected"):
        expected.score(hidden)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        COUNT.fit(known, gold[:-1])
    with pytest.raises(ArgumentError, match="DirEAG: saw int; expected Observations, a path, a DataFrame in long form"):
        COUNT.fit(3)


def test_y_takes_the_place_of_the_labels_in_x_and_of_nothing_else(simulated: Observations) -> None:
    """Weights, scales, removed reports and questions drawn twice, as a bootstrap draws them, stay."""
    known = simulated[:40].weighted(np.arange(40) % 3)
    gold = [question.gold_answer for question in known.questions]
    few = known.to_frame().assign(confidence=0.5)
    given = {
        "weighted": (known, gold),
        "twice": (known[[*range(40), *range(5)]], gold + gold[:5]),
        "thinned": (known.without((np.arange(40) > 20)[:, None] & np.ones(known.shape, bool)), gold),
        "percent": (Observations.from_frame(few, answers="numeric", scale="percent"), gold),
        "other labels": (known, ["-1", *gold[1:20], None, np.nan, NA, *[""] * 17]),
    }
    for name, (x, y) in given.items():
        expected = x if name != "other labels" else known[:20]
        same = clone(COUNT).fit(x, y).fit_.tree["constant_data"], clone(COUNT).fit(expected).fit_.tree["constant_data"]
        np.testing.assert_array_equal(*(data["weight_in_likelihood"] for data in same), err_msg=name)
        np.testing.assert_array_equal(*(data["candidate"] for data in same), err_msg=name)
    bad = DirEAG(preset=PAPER)
    with pytest.raises(DirEAGError, match="line 3, field gold_answer: this cannot be read as numeric; saw 'many'"):
        bad.fit(known, [*gold[:2], "many", *gold[3:]])


def test_scores_count_weights_only_if_asked(simulated: Observations) -> None:
    model, half = clone(COUNT).fit(simulated[:60]), np.arange(20) < 10
    test = simulated[60:80].weighted(half)
    assert model.score(test) == model.score(simulated[60:80])
    assert model.score(test, sample_weight=half) == pytest.approx(model.score(simulated[60:70]))
    with pytest.raises(DirEAGError, match="score: saw 20 questions, none with a gold answer and a weight"):
        model.score(test, sample_weight=np.zeros(20))


def test_a_row_must_be_a_question(simulated: Observations) -> None:
    """In long form scikit-learn would split questions, or wait for a prediction of each row."""
    frame = simulated[:40].to_frame()
    said = r"saw \d+ rows with the reports on \d+ questions; expected a row a .*GroupKFold"
    with pytest.raises(DirEAGError, match=said):
        cross_val_predict(COUNT, frame, groups=frame["problem_id"], cv=GroupKFold(3))
    wide = frame.pivot_table(index="problem_id", columns="level_name", values=["answer", "confidence"], aggfunc="first")
    wide.columns = [f"{field}_{level}" for field, level in wide.columns]
    gold = frame.groupby("problem_id")["gold_answer"].first()
    answers = cross_val_predict(DirEAG(preset=PAPER, answers="numeric"), wide.reset_index(), gold, cv=KFold(2))
    assert len(answers) == 40


def test_it_is_searched_piped_and_cross_validated(simulated: Observations) -> None:
    train, test = simulated[:60], simulated[60:]
    records = [one.model_dump(mode="json") for one in train.questions]
    pipeline = make_pipeline(FunctionTransformer(), COUNT)
    search = GridSearchCV(pipeline, {"direag__recalibration": ["none", "platt"]}, cv=KFold(2)).fit(train)
    best = clone(search.best_estimator_)
    by_hand = [best.fit(train[own]).score(train[other]) for own, other in KFold(2).split(train)]
    assert search.best_score_ == pytest.approx(np.mean(by_hand))
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0
    of_records = cross_val_score(COUNT, records, [one["gold_answer"] for one in records], cv=KFold(2))
    np.testing.assert_allclose(cross_val_score(COUNT, train, cv=KFold(2)), of_records)
    assert cross_val_predict(COUNT, train, cv=2, method="predict_proba").shape == (60, 2)
    own = {"surest": lambda *given: given[0].predict_proba(given[1]).max()}
    assert cross_validate(pipeline, train, scoring=own, cv=KFold(2))["test_surest"].max() <= 1
    model, gold = search.best_estimator_, [question.gold_answer for question in test.questions]
    assert get_scorer("accuracy")(model, test, gold) == test.is_right(model.predict(test)).mean()
    for name in ("roc_auc", "roc_auc_ovr", "average_precision", "neg_log_loss", "neg_brier_score"):
        with pytest.raises(ValueError, match=r"classif|multi_class|[Nn]umber of classes|1d array|n_classes"):
            get_scorer(name)(model, test, gold)
    with pytest.raises(TypeError, match="y_true"):
        cross_val_score(COUNT, train, scoring="accuracy", cv=KFold(2), error_score="raise")


class OnNumbers(DirEAG):
    """The estimator behind what scikit-learn's checks give: a matrix of numbers, and some y.

    Each row becomes a question, each column a level that answers by the number's sign and is the surer, the larger it
    is. The estimator itself takes no matrix, so checks of what it does with one are checks of this class.
    """

    def fit(self, X, y=None, sample_weight=None):  # noqa: ARG002, N803
        X = validate_data(self, X)  # noqa: N806
        gold = np.floor(997 * np.abs(X).sum(axis=1)).astype(int) % 3  # equal rows have the same right answer
        return super().fit(_questions(X), gold, sample_weight)

    def predict(self, X):  # noqa: N803
        return super().predict(self._taken(X)).astype(float)

    def predict_proba(self, X):  # noqa: N803
        return super().predict_proba(self._taken(X))

    def score(self, X, y=None):  # noqa: ARG002, N803
        X = self._taken(X)  # noqa: N806
        return super().score(X, np.ones(len(X)))

    def _taken(self, X):  # noqa: N803
        check_is_fitted(self)
        return _questions(validate_data(self, X, reset=False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.no_validation = False
        return tags


def _questions(numbers: np.ndarray) -> list[dict[str, object]]:
    percent = np.round(100 / (1 + np.exp(-np.abs(numbers.astype(float)))))
    return [
        {
            "problem_id": str(row),
            "observations": [
                {"level": level, "answer": int(number > 0), "confidence": stated}
                for level, (number, stated) in enumerate(zip(own, sure, strict=True))
            ],
        }
        for row, (own, sure) in enumerate(zip(numbers, percent.tolist(), strict=True))
    ]


@pytest.mark.slow
@parametrize_with_checks([OnNumbers(preset=PAPER, answers="numeric")])
def test_scikit_learns_own_checks(estimator, check, request) -> None:
    takes_any_type = check.func.__name__ == "check_do_not_raise_errors_in_init_or_set_params"
    if takes_any_type and request.config.getoption("jaxtyping_packages"):
        pytest.skip("the types of arguments are checked at run time here, in users' programs they are not")
    check(estimator)
