"""Fits made by hand, in the container that real ones come in: the draws are given, nothing is sampled or optimised.

:func:`made_fit` takes natural parameters, for what predicts from them; :func:`random_fit` draws these at random;
:func:`made_posterior` takes raw draws and adds every group that a diagnosis reads, computed here in numpy.
"""

import warnings
from collections.abc import Mapping
from functools import cache

import arviz_base
import numpy as np
import xarray as xr
from arviz_stats import loo
from scipy.special import expit, logit, logsumexp

from bayes_direag.data.agreement import Agreement
from bayes_direag.data.observations import Observations
from bayes_direag.fits.fit import Fit
from bayes_direag.inference.loo import LeaveOneOut
from bayes_direag.inference.posterior import FORMAT
from bayes_direag.inference.recalibration import from_dataset
from bayes_direag.model import presets
from bayes_direag.model.settings import Preset, SamplingSettings, Variant
from bayes_direag.model.simulate import simulate_observations

#: Draws by name: numbers for a MAP; for NUTS with leading axes chain and draw.
Given = Mapping[str, float | list[float] | np.ndarray]
Draws = dict[str, np.ndarray]

_LEVELS = np.array([-0.6, -0.2, 0.9, 0.4, 0.0])

#: About where the posterior of simulated observations lies on the raw scale of preset bayes.
CENTRE = {
    "weight_centre": 1.9,
    "weight_agreement": 0.4,
    "vote_centre": 0.0,
    "vote_agreement": 0.15,
    "weight_base_decentered": _LEVELS,
    "vote_decentered": np.zeros_like(_LEVELS),
    "bias": -1.9,
    "null_base_base": -0.5,
    "sharpness_base": 0.1,
    "slope_base": 0.47,
}
#: And of preset paper.
APART = {
    "weight_base": np.array([1.0, 1.3, 2.2, 1.9, 1.6]),
    "bias": np.array([0.5, -0.8, -2.0, -3.0, -4.2]),
    "slope_base": 0.47,
    "prior_strength_base": 0.0,
    "null_base_base": -0.5,
    "null_gain_base": -1.9,
}
#: The parameters of the paper's variants.
_PAPER = {
    "count": ("weight", "prior_strength", "null_base"),
    "level": ("weight", "bias", "prior_strength", "null_base", "null_gain"),
    "confidence": ("weight", "bias", "slope", "prior_strength", "null_base", "null_gain"),
}


def natural(n_levels: int, **changes: float | list[float]) -> dict[str, float | list[float]]:
    """Return parameters of variant confidence that differ between levels, with some of them changed."""
    given: dict[str, float | list[float]] = {
        "weight": [0.5 + 0.4 * level for level in range(n_levels)],
        "bias": [0.6 - 0.5 * level for level in range(n_levels)],
        "slope": 0.8,
        "null_gain": 0.3,
        "prior_strength": 0.4,
        "null_base": 0.2,
    }
    return given | changes


def around(given: Given, rng: np.random.Generator, *, n_draws: int = 40, spread: float = 0.1) -> Draws:
    """Return two chains of draws around these parameters; positive ones stay positive."""
    found = {}
    for name, value in given.items():
        centre = np.asarray(value, float)
        noise = spread * rng.standard_normal((2, n_draws, *centre.shape))
        found[name] = centre + noise if name == "bias" else centre * np.exp(noise)
    return found


def gaussian_draws(
    seed: int, *, spread: float = 0.3, n_chains: int = 4, n_draws: int = 250, centre: Given = CENTRE
) -> Draws:
    """Return independent normal draws around a centre."""
    rng = np.random.default_rng(seed)
    return {
        name: value + spread * rng.standard_normal((n_chains, n_draws, *np.shape(value)))
        for name, value in centre.items()
    }


def made_fit(
    observations: Observations,
    given: Given,
    *,
    preset: str | Preset = "bayes",
    variant: Variant = "confidence",
    intercept: float | np.ndarray = 0.0,
    slope: float | np.ndarray = 1.0,
    recalibration: str = "platt",
    log_likelihood: np.ndarray | None = None,
    sha256: str | None = None,
) -> Fit:
    """Return a fit of these parameters; a NUTS fit if the weights have chains and draws.

    Its leave-one-out group is ArviZ's account of the log-likelihood (chain, draw, problem), if that is given.
    """
    is_nuts = np.ndim(given["weight"]) == 3
    posterior = {name: np.asarray(value, float)[... if is_nuts else (None, None)] for name, value in given.items()}
    shape, groups = posterior["weight"].shape[:2], {"posterior": posterior}
    if log_likelihood is not None:
        groups["log_likelihood"] = {"target": log_likelihood}
    settings = presets.preset(preset)
    if settings.plain_reports:
        settings = presets.preset(settings, variant)
    tree = _container(groups, observations, settings, method="nuts" if is_nuts else "map")
    terms = {"intercept": intercept, "slope": slope}
    tree["recalibration"] = _recalibration(
        {name: np.broadcast_to(np.asarray(value, float), shape).copy() for name, value in terms.items()},
        recalibration,
        settings.recalibration.eps,
    )
    if log_likelihood is not None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning)
            found = loo(tree, pointwise=True, var_name="target")
        tree["loo"] = xr.DataTree(xr.Dataset({"elpd": found.elpd_i, "pareto_k": found.pareto_k}))
    if sha256 is not None:
        tree.attrs["observations_sha256"] = sha256
    return Fit(tree)


def random_fit(
    observations: Observations,
    *,
    variant: Variant = "confidence",
    n_draws: int = 1,
    recalibration: str = "platt",
    seed: int = 0,
) -> Fit:
    """Return a fit with random parameters that claims to have learned from the labelled, answered questions."""
    rng = np.random.default_rng(seed)
    seen = observations.select(np.flatnonzero(observations.labelled & observations.answered))
    draws = {name: np.exp(rng.normal(-1, 0.4, (1, n_draws))) for name in _PAPER[variant]}
    draws["weight"] = np.exp(rng.normal(0, 0.5, (1, n_draws, seen.n_levels)))
    if "bias" in draws:
        draws["bias"] = rng.normal(-1, 1, (1, n_draws, seen.n_levels))
    settings = presets.preset("paper", variant, recalibration={"method": recalibration})
    tree = _container({"posterior": draws}, seen, settings, method="map" if n_draws == 1 else "nuts")
    terms = {"intercept": rng.normal(0, 0.3, (1, n_draws)), "slope": rng.normal(1.2, 0.2, (1, n_draws))}
    tree["recalibration"] = _recalibration(terms, recalibration)
    return Fit(tree)


def made_posterior(
    observations: Observations,
    raw: Mapping[str, np.ndarray],
    *,
    preset: str | Preset = "bayes",
    calibrated: tuple[float, float] = (0.0, 1.0),
    statistics: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> Fit:
    """Return a NUTS fit of these raw draws (chain, draw, ...); a good sampler's statistics unless others are given."""
    settings, rng = presets.preset(preset), np.random.default_rng(seed)
    n_chains, n_draws = raw["bias"].shape[:2]
    support = supports(observations, raw, settings)
    right = observations.correct_candidate
    state = np.concatenate([right, ~right.any(axis=1, keepdims=True)], axis=1)
    log_likelihood = np.log((support * state).sum(axis=-1))
    importance = -log_likelihood - logsumexp(-log_likelihood, axis=(0, 1))
    left_out = LeaveOneOut(
        elpd=np.log(n_chains * n_draws) - logsumexp(-log_likelihood, axis=(0, 1)),
        pareto_k=np.full(len(observations), 0.1),
        support=np.einsum("cdp,cdpk->pk", np.exp(importance), support),
        support_of_all=support.mean(axis=(0, 1)),
    )
    drawn = (rng.random((*support.shape[:3], 1)) > support.cumsum(axis=-1)).sum(axis=-1)
    noise = 0.05 * rng.standard_normal((2, n_chains, n_draws))
    groups = {
        "posterior": _natural(raw, settings),
        "unconstrained_posterior": dict(raw),
        "sample_stats": _statistics(n_chains, n_draws, rng) | dict(statistics or {}),
        "log_likelihood": {"target": log_likelihood},
        "log_prior": {name: -0.5 * values**2 for name, values in raw.items()},
        "posterior_predictive": {"target": np.where(drawn >= observations.n_levels, -1, drawn)},
    }
    tree = _container(groups, observations, settings, method="nuts")
    final = {name: calibrated[term] + noise[term] for term, name in enumerate(("intercept", "slope"))}
    tree["recalibration"] = _recalibration(final, settings.recalibration.method)
    tree["loo"] = xr.DataTree(left_out.to_dataset(observations, from_dataset(tree["recalibration"].to_dataset())))
    sampling = SamplingSettings(n_chains=max(n_chains, 2), n_draws=n_draws)
    tree.attrs |= {"seed": seed, "sampling": sampling.model_dump_json()}
    return Fit(tree)


@cache
def good_fit(n: int = 120, seed: int = 3, calibrated: tuple[float, float] = (0.0, 1.0)) -> Fit:
    """Return a fit of which nothing bad is to be said: its draws lie where the labels were simulated from."""
    raw = gaussian_draws(seed, spread=0.05)
    observations = relabelled(simulate_observations(n, seed=seed), raw, seed=seed)
    return made_posterior(observations, raw, calibrated=calibrated)


def replaced(fit: Fit, group: str, **variables: np.ndarray) -> Fit:
    """Return the fit with other values of some variables of a group."""
    tree = fit.tree.copy()
    own = tree[group].to_dataset()
    changed = {name: (own[name].dims, np.asarray(values)) for name, values in variables.items()}
    tree[group] = xr.DataTree(own.assign(changed))
    return Fit(tree)


def with_level_names(fit: Fit, names: list[str]) -> Fit:
    """Return the fit with other names for its levels."""
    tree = fit.tree.copy()
    for group in [name for name, own in tree.children.items() if "level" in own.coords]:
        tree[group] = xr.DataTree(tree[group].to_dataset().assign_coords(level=names))
    return Fit(tree)


def relabelled(observations: Observations, raw: Mapping[str, np.ndarray], *, seed: int) -> Observations:
    """Draw right answers anew, under preset bayes, from the first draw of these parameters."""
    first = {name: values[:1, :1] for name, values in raw.items()}
    support = supports(observations, first, presets.preset("bayes"))[0, 0]
    state = (np.random.default_rng(seed).random((len(support), 1)) > support.cumsum(axis=-1)).sum(axis=-1)
    questions = [
        question.model_copy(update={"gold_answer": own[k] if k < len(own) else "123456789"})
        for question, own, k in zip(observations.questions, observations.candidates, state.tolist(), strict=True)
    ]
    return Observations.from_questions(questions, answers="numeric")


def supports(observations: Observations, raw: Mapping[str, np.ndarray], preset: Preset) -> np.ndarray:
    """Return the support of every state (chain, draw, problem, state), the null last, from the printed equations."""
    own = _natural(raw, preset)
    usable = observations.candidate >= 0
    stated = logit(np.clip(np.where(usable, observations.confidence, 0.5), preset.eps, 1 - preset.eps))
    biases = own["bias"][..., None, :] if own["bias"].ndim > 2 else own["bias"][..., None, None]
    belief = expit(biases + own["slope"][..., None, None] * stated)
    given = usable * own["weight"][..., None, :] * belief
    taken = usable * own["weight"][..., None, :] * (1 - belief)
    n_candidates = observations.n_candidates
    one = np.ones(own["slope"].shape)
    share = own.get("prior_strength", one)[..., None] / (n_candidates + 1)
    said = observations.candidate[:, :, None] == np.arange(observations.n_levels)
    exists = np.arange(observations.n_levels) < n_candidates[:, None]
    candidates = exists * (share[..., None] + np.einsum("cdpl,plk->cdpk", given, said))
    null = share + own["null_base"][..., None] + own.get("null_gain", one)[..., None] * taken.sum(axis=-1)
    alpha = np.concatenate([candidates, null[..., None]], axis=-1)
    if "sharpness" in own:
        alpha **= own["sharpness"][..., None, None]
    if "vote" in own:
        votes = usable * own["vote"][..., None, :]
        alpha[..., :-1] *= np.exp(np.einsum("cdpl,plk->cdpk", votes, said))
    return alpha / alpha.sum(axis=-1, keepdims=True)


def _natural(raw: Mapping[str, np.ndarray], preset: Preset) -> Draws:
    if preset.name != "bayes":
        links = {name: np.logaddexp(values, 0) for name, values in raw.items() if name != "bias"}
        return {name.removesuffix("_base"): values for name, values in links.items()} | {"bias": raw["bias"]}
    centre, vote = raw["weight_centre"][..., None], raw["vote_centre"][..., None]
    found = {"weight": np.exp(centre + 0.4 * raw["weight_base_decentered"]), "slope": np.exp(raw["slope_base"])}
    found |= {"vote": vote + 0.3 * raw["vote_decentered"], "sharpness": np.exp(raw["sharpness_base"])}
    found |= {"null_base": np.logaddexp(raw["null_base_base"], 0), "bias": raw["bias"]}
    return found | {name: raw[name] for name in ("weight_centre", "weight_agreement", "vote_centre", "vote_agreement")}


def _statistics(n_chains: int, n_draws: int, rng: np.random.Generator) -> Draws:
    shape = (n_chains, n_draws)
    return {
        "lp": -rng.standard_normal(shape),
        "energy": rng.standard_normal(shape),
        "diverging": np.zeros(shape, bool),
        "n_steps": np.full(shape, 7),
        "tree_depth": np.full(shape, 3),
        "acceptance_rate": np.full(shape, 0.9),
        "step_size": np.full(shape, 0.3),
    }


def _recalibration(terms: Draws, method: str, eps: float = 1e-6) -> xr.DataTree:
    variables = {name: (("chain", "draw"), values) for name, values in terms.items()}
    return xr.DataTree(xr.Dataset(variables, attrs={"method": method, "eps": eps}))


def _container(groups: dict[str, Draws], observations: Observations, preset: Preset, *, method: str) -> xr.DataTree:
    """Put the draws by group beside what was observed."""
    data = {
        "constant_data": {
            "confidence": observations.confidence,
            "candidate": observations.candidate,
            "n_candidates": observations.n_candidates,
            "weight_in_likelihood": np.ones(len(observations)),
        }
    }
    if observations.agreement is not None:
        data["constant_data"] |= {f"agreement_{name}": own for name, own in observations.agreement._asdict().items()}
    names = {
        "level": np.array(observations.level_names, dtype=object),
        "problem": np.array(observations.problem_id, dtype=object),
        "candidate": np.arange(observations.n_levels),
    }
    drawn = groups["posterior"]
    drawn["share"] = drawn["weight"] / drawn["weight"].sum(axis=-1, keepdims=True)
    raw = groups.pop("unconstrained_posterior", {"weight_base": drawn["weight"]})
    of_levels = {name for name, values in {**drawn, **raw}.items() if np.ndim(values) == 3}
    dims = _DIMS | {name: ["level"] for name in of_levels}
    tree = arviz_base.from_dict(groups | data | {"unconstrained_posterior": raw}, dims=dims, coords=names)
    tree["labels"] = xr.DataTree(xr.Dataset({"correct": (("problem", "candidate"), observations.correct_candidate)}))
    tree.attrs = {
        "format": FORMAT,
        "method": method,
        "preset": preset.model_dump_json(),
        "answers": observations.kind,
        "dataset": "handmade",
        "model": "not stated",
        "observations_sha256": observations.fingerprint,
        "versions": "{}",
        "seed": 0,
    }
    return tree


_DIMS = {
    **{f"agreement_{name}": ["level"] for name in Agreement._fields},
    "target": ["problem"],
    "correct": ["problem", "candidate"],
    "confidence": ["problem", "level"],
    "candidate": ["problem", "level"],
    "n_candidates": ["problem"],
    "weight_in_likelihood": ["problem"],
}
