r"""What each way to answer is worth with few and many labels: random splits of files, the same for every way.

    python -m tests.benchmarks.labels FILES --by-file --csv curve.csv --labels 30 100 300 1000 --splits 20 \
        --ways majority_platt vote_logistic conditional_logit direag
    python -m tests.benchmarks.labels FILES --csv thirty.csv --labels 30 --splits 4 \
        --ways direag majority majority_platt conditional_logit boosted_stack
    python -m tests.benchmarks.labels FILES --csv nuts.csv --labels 10 30 100 \
        --ways direag nuts laplace majority_platt conditional_logit boosted_stack
    python -m tests.benchmarks.labels FILES --csv prior.csv --labels 10 30 100 --splits 2 --ways no_label_prior direag
    python -m tests.benchmarks.labels FILE --csv signals.csv --labels 100 300 1000 --splits 10 --most 1500 \
        --ways number number,words,logprob number,words number,logprob words
    python -m tests.benchmarks.labels FILES --csv estimate.csv --labels 30 100 --splits 30 --most 800 --ways direag

A split learns from its first labels and is tested on up to ``--most`` other questions; the rest of the file counts as
unlabelled. A way is ``direag`` (MAP of the default model), ``nuts`` (its posterior), ``laplace`` (the normal at the
mode in its place), ``no_label_prior`` (the model without a prior over labels), signals of confidence (``number,words``:
the model with these alone), a preset, or a method of ``direag evaluate``.

``log`` is minus the mean log probability of what occurred, NaN for a way without a distribution; ``claimed`` the mean
probability of the answers, ``off`` its root mean square distance from their accuracy; ``held`` and ``benefit held`` how
often the 90 % intervals of accuracy and benefit hold, ``width`` that of the first, ``worth`` in labels; ``gain`` the
benefit less that of the first way, with its standard error over files, or over the splits of one. With ``--by-file`` a
star marks the best way, and what is within two standard errors over splits of it.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path

import jax
import numpy as np
import numpyro
import pandas as pd
from numpyro.infer import SVI, TraceMeanField_ELBO, init_to_value
from numpyro.infer.autoguide import AutoLaplaceApproximation
from numpyro.optim import Adam

from analysis.methods.direag import after_calibration
from analysis.methods.method import Answers
from analysis.methods.registry import SIMPLE_METHODS
from bayes_direag import Fit, LikelihoodData, Observations, bayes, estimate, fit_draws, fit_map, fit_nuts
from bayes_direag.model.presets import PRESETS
from bayes_direag.model.settings import SamplingSettings
from tests.benchmarks.common import benefit, kept_rows, parser, shuffled

SAMPLING = SamplingSettings(num_chains=4, num_warmup=250, num_samples=500)


@wraps(bayes)
def no_label_prior(data: LikelihoodData) -> None:
    """Run the default model as if answers were no labels."""
    bayes(replace(data, n_labels=0))


def laplace(labelled: Observations) -> Fit:
    """Fit draws of the normal at the mode."""
    data, mode = LikelihoodData.of(labelled, preset="bayes"), fit_map(labelled).tree["unconstrained_posterior"]
    values = {str(name): draw.to_numpy()[0, 0] for name, draw in mode.to_dataset().items()}
    guide = AutoLaplaceApproximation(
        bayes,
        init_loc_fn=init_to_value(values=values),
        hessian_fn=lambda loss, place: jax.jit(jax.hessian(loss))(place),
    )
    normal = SVI(bayes, guide, Adam(0.01), TraceMeanField_ELBO())
    place = normal.get_params(normal.init(jax.random.key(0), data))
    return fit_draws(guide.sample_posterior(jax.random.key(1), place, sample_shape=(4, SAMPLING.num_samples)), labelled)


FITS: dict[str, Callable[[Observations], Fit]] = {
    "direag": fit_map,
    "nuts": partial(fit_nuts, **SAMPLING.model_dump()),
    "laplace": laplace,
    "no_label_prior": partial(fit_map, preset=no_label_prior),
    **{name: partial(fit_map, preset=name) for name in PRESETS},
}


def answered(way: str, labelled: Observations, tested: Observations) -> tuple[Answers, dict[str, float]]:
    """Return a way's answers, and what it estimates of them."""
    if way in SIMPLE_METHODS:
        method = SIMPLE_METHODS[way]
        return method.answer(method.learn(labelled, 0), tested), {}
    if way not in FITS:
        labelled, tested = (questions.of_signals(tuple(way.split(","))) for questions in (labelled, tested))
    fit = FITS.get(way, fit_map)(labelled)
    answers, estimated = after_calibration(fit, tested), estimate(fit, tested)
    right, said = answers.is_right(tested), np.nan_to_num(answers.confidence)
    return answers, {
        "held": float(estimated.accuracy_low <= right.mean() <= estimated.accuracy_high),
        "benefit held": float(estimated.benefit_low <= benefit(right, said) <= estimated.benefit_high),
        "width": estimated.accuracy_high - estimated.accuracy_low,
        "worth": estimated.worth,
    }


def measured(path: Path, ways: list[str], labels: list[int], n_splits: int, most: int) -> Iterator[dict[str, object]]:
    """Yield the figures of each split, number of labels and way; numbers that leave under 100 to test are left out."""
    observations = Observations.read(path).with_agreement()
    for split in range(n_splits):
        order = shuffled(observations, split)
        counts = [n for n in labels if n + 100 <= len(order)]
        tested = observations.select(np.sort(order[counts[-1] :][:most]))
        for n in counts:
            labelled = observations.select(np.sort(order[:n]))
            for way in ways:
                answers, estimated = answered(way, labelled, tested)
                right, said = answers.is_right(tested), np.nan_to_num(answers.confidence)
                occurred = np.clip(answers.state_probability(tested), 1e-6, 1)
                figures = {"accuracy": right.mean(), "claimed": said.mean(), "benefit": benefit(right, said)}
                figures |= {"log": -np.log(occurred).mean(), "off": (said.mean() - right.mean()) ** 2}
                yield {"split": split, "labels": n, "way": way, **figures, **estimated}


def starred(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the benefit by file, number of labels and way, and a star at those not clearly behind the best."""
    parts = {}
    for key, own in rows.groupby(["file", "labels"], sort=False):
        by_split = own.pivot_table(index="split", columns="way", values="benefit", sort=False)
        behind = by_split.rsub(by_split[by_split.mean().idxmax()], axis=0)
        star = np.where(behind.mean() <= 2 * behind.sem(), "*", "")
        parts[key] = by_split.mean().map("{:.4f}".format) + star
    return pd.DataFrame(parts).T


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over files of every figure."""
    unit = ["labels", "way", "file" if len(rows["file"].unique()) > 1 else "split"]
    figures = [name for name in rows if name not in ("split", "labels", "way", "file")]
    means = rows.groupby(unit, sort=False)[figures].mean()
    means["off"] **= 0.5
    first = means["benefit"].xs(rows["way"].iloc[0], level="way")
    means["gain"] = means["benefit"] - means["benefit"].index.droplevel("way").map(first)
    groups = means.groupby(["labels", "way"], sort=False)
    return groups.mean().assign(error=groups["gain"].sem(), lowest=groups["held"].min(), n=groups.size())


def main() -> None:
    arguments = parser(__doc__, splits=4)
    arguments.add_argument("--csv", type=Path, required=True)
    arguments.add_argument("--ways", nargs="+", default=["direag", "majority", "majority_platt", "conditional_logit"])
    arguments.add_argument("--labels", type=int, nargs="+", default=[10, 30, 100, 300])
    arguments.add_argument("--most", type=int, default=500, help="most questions that are tested")
    arguments.add_argument("--by-file", action="store_true", help="the figures of each file as well")
    given = arguments.parse_args()
    numpyro.set_host_device_count(SAMPLING.num_chains)
    warnings.simplefilter("ignore")
    jax.config.update("jax_enable_x64", True)  # for the normal at the mode; fits are in double precision anyway
    rows = kept_rows(
        given.csv, given.files, lambda path: measured(path, given.ways, given.labels, given.splits, given.most)
    )
    if given.by_file:
        print(rows.pivot_table(index=["file", "labels"], columns="way", values=["accuracy", "claimed"]).to_string())
        print(starred(rows).to_string())
    print(summary(rows).to_string(float_format="{:.4f}".format))


if __name__ == "__main__":
    main()
