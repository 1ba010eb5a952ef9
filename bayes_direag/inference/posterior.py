"""The posterior container: an xarray DataTree that holds NUTS draws, or a MAP as one chain of one draw.

===========================  =======================================================================================
group                        content
===========================  =======================================================================================
``posterior``                free parameters on their natural scale; dims chain, draw (, level)
``unconstrained_posterior``  the same on the real line, as they are sampled: ``NAME_raw``
``fixed_parameters``         parameters that the preset fixes, if there are any
``sample_stats``             MAP: ``loss``, ``projected_gradient`` and ``n_steps`` at the optimum; ``n_starts``, the
                             number of searches, and ``n_optima``, how many optima they found. NUTS: ``lp``, ``energy``,
                             ``diverging``, ``n_steps``, ``tree_depth``, ``acceptance_rate``, ``step_size``
``log_likelihood``           NUTS only: ``target``: log probability of the observed state, by problem
``observed_data``            ``target``, by problem: the right candidate, the first of several, or -1 if none is right
``labels``                   ``correct``: whether each candidate is right, by problem and candidate
``constant_data``            ``confidence``, ``candidate``, ``n_candidates``, ``weight_in_likelihood``: the data of the
                             fit; ``said``, the label that each report gives (-1 for none), if there are votes by label;
                             ``cluster`` ("" for none), if there are clusters; ``question_weight``, unless all are 1;
                             if the model uses it, the agreement of each level with the others
                             (:mod:`bayes_direag.data.agreement`): ``agreement_share``, ``agreement_by_chance``, and x,
                             ``agreement_score``. If levels are groups, reports have their own dimension ``report``,
                             with the ``group`` of each
``log_prior``                NUTS only: log prior density of each raw parameter, under its natural name
``prior``                    on demand: parameters drawn from the prior, as in ``posterior``
``prior_predictive``         on demand: a ``target`` for every problem and draw of the prior
``posterior_predictive``     on demand: a ``target`` for every problem and draw of the posterior
===========================  =======================================================================================

Under a preset that pools levels, ``weight_raw`` is a level's offset from ``weight_centre`` in units of
``weight_spread``, and likewise for bias and vote.
"""

import json
from collections.abc import Sequence
from functools import cache, partial
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float, Int, Key, Shaped
from numpyro.infer import Predictive

from bayes_direag.data.agreement import Agreement
from bayes_direag.data.columns import Columns
from bayes_direag.data.json_lines import table_of_questions
from bayes_direag.data.observations import Observations
from bayes_direag.data.records import Question, Status, signal_column
from bayes_direag.inference.map import Optimum
from bayes_direag.inference.nuts import Draws
from bayes_direag.model.equations import Parameters
from bayes_direag.model.evidence import padded_size
from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.model import (
    Raw,
    RawDraws,
    direag,
    log_likelihood,
    named_parameters,
    natural_parameters,
    raw_priors,
    sites,
)
from bayes_direag.model.settings import LEVEL_PARAMETERS, SIGNAL_PARAMETERS, Preset, SamplingSettings, Variant

_AGREEMENT = tuple(f"agreement_{name}" for name in Agreement._fields)
#: The dimensions of every array beyond chain and draw.
_DIMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(LEVEL_PARAMETERS, ("level",)),
    **{f"{name}_raw": ("level",) for name in LEVEL_PARAMETERS},
    **dict.fromkeys(("label_vote", "label_vote_raw"), ("level", "label")),
    **dict.fromkeys(("label_vote_centre", "label_vote_centre_raw"), ("label",)),
    "target": ("problem",),
    "correct": ("problem", "candidate"),
    "n_candidates": ("problem",),
    "weight_in_likelihood": ("problem",),
    "cluster": ("problem",),
    "question_weight": ("problem",),
    "group": ("report",),
    **dict.fromkeys(_AGREEMENT, ("level",)),
}

#: The version of this layout. In version 1 raw and fixed parameters were among the natural ones.
FORMAT = 2


def map_posterior(
    optimum: Optimum,
    member: int,
    observations: Observations,
    weight: Float[np.ndarray, " problem"],
    *,
    labels: Sequence[str],
    preset: Preset,
    variant: Variant,
    seed: int,
    partial: bool,
) -> xr.DataTree:
    """Put one member of a batch of MAP fits into the container, without the questions of weight 0.

    The seed is only recorded, since a MAP draws nothing.
    """
    used = weight > 0
    raw: RawDraws = {name: np.asarray(value)[member][None, None] for name, value in optimum.raw.items()}
    stats = {
        "loss": optimum.loss[member],
        "projected_gradient": optimum.gradient[member],
        "n_steps": optimum.n_steps[member],
        "n_starts": optimum.n_starts[member],
        "n_optima": optimum.n_optima[member],
    }
    return _container(
        raw,
        {name: np.asarray(value)[None, None] for name, value in stats.items()},
        observations.select(used),
        weight[used],
        labels=labels,
        preset=preset,
        variant=variant,
        attributes={"method": "map", "seed": seed, "partial": int(partial)},
    )


def nuts_posterior(
    draws: Draws,
    observations: Observations,
    data: LikelihoodData,
    log_likelihood: Float[np.ndarray, "chain draw row"],
    *,
    labels: Sequence[str],
    preset: Preset,
    sampling: SamplingSettings,
    seed: int,
    partial: bool,
) -> xr.DataTree:
    """Put NUTS draws into the container.

    The data, with their log-likelihoods, are of the observations, all of positive weight; perhaps also of copies, which
    follow them.
    """
    n = len(observations)
    with jax.enable_x64(True):
        priors = raw_priors(preset, data.variant, total_weight=data.weight.sum(), **data.sizes)
        log_prior = {name: np.asarray(density.log_prob(draws.raw[name])) for name, density in priors.items()}
    # in double precision, unlike the sampler's own
    log_joint = log_likelihood @ data.weight
    log_joint += sum(value.sum(axis=(*range(2, value.ndim),)) for value in log_prior.values())
    tree = _container(
        draws.raw,
        draws.stats | {"lp": log_joint},
        observations,
        np.asarray(data.weight[:n]),
        labels=labels,
        preset=preset,
        variant=data.variant,
        attributes={"method": "nuts", "seed": seed, "sampling": sampling.model_dump_json(), "partial": int(partial)},
    )
    densities = {"log_likelihood": {"target": log_likelihood[..., :n]}, "log_prior": log_prior}
    for name, group in _datasets(densities, observations, labels).items():
        tree[name] = group
    return tree


def predictive(tree: xr.DataTree, data: LikelihoodData) -> xr.DataTree:
    """Return the groups of a NUTS fit that are made on demand, with draws from its seed; ``data`` are its data."""
    prior_key, key = jax.random.split(jax.random.fold_in(jax.random.key(int(tree.attrs["seed"])), 1))
    prior = {name: value[None] for name, value in prior_draws(data, n_draws=_PRIOR_DRAWS, key=prior_key).items()}
    drawn = {str(name): value.to_numpy() for name, value in tree["unconstrained_posterior"].items()}
    with jax.enable_x64(True):
        replicated = np.asarray(_replicated(key, drawn, data.unlabelled))
    return _datasets(
        {
            "prior": {str(name): prior[str(name)] for name in tree["posterior"].data_vars},
            "prior_predictive": {"target": prior["target"].astype(_STATE)},
            "posterior_predictive": {"target": replicated.astype(_STATE)},
        },
        fitted_observations(tree),
        label_names(tree) or (),
    )


def prior_draws(
    data: LikelihoodData, *, n_draws: int, key: Key[Array, ""]
) -> dict[str, Shaped[np.ndarray, "draw ..."]]:
    """Draw raw and natural parameters from the prior, and a ``target`` for every question."""
    with jax.enable_x64(True):
        return {name: np.asarray(value) for name, value in _prior(key, data.unlabelled, n_draws=n_draws).items()}


@partial(jax.jit, static_argnames="n_draws")
def _prior(key: Key[Array, ""], data: LikelihoodData, *, n_draws: int) -> dict[str, Array]:
    drawn: dict[str, Array] = Predictive(direag, num_samples=n_draws)(key, data)
    return drawn


@jax.jit
def _replicated(key: Key[Array, ""], raw: dict[str, Array], data: LikelihoodData) -> Int[Array, "chain draw problem"]:
    drawn: Array = Predictive(direag, raw, batch_ndims=2, return_sites=["target"])(key, data)["target"]
    return drawn


def log_likelihoods(raw: RawDraws, data: LikelihoodData) -> Float[np.ndarray, "chain draw problem"]:
    """Return the log probability of each question's state in every draw, in double precision."""
    n = len(data.weight)
    with jax.enable_x64(True):
        return np.asarray(_log_likelihoods(raw, data.padded(padded_size(n, per_octave=8))))[..., :n]


@jax.jit
def _log_likelihoods(raw: RawDraws, data: LikelihoodData) -> Float[Array, "chain draw problem"]:
    by_question: Array = jax.lax.map(lambda chain: jax.lax.map(partial(log_likelihood, data=data), chain), raw)
    return by_question


def fitted_observations(tree: xr.DataTree) -> Observations:
    """Return the questions of a container; their answers are numbers, as the container does not hold the text."""
    data, right = tree["constant_data"].to_dataset(), tree["labels"]["correct"].to_numpy()
    candidate = data["candidate"].to_numpy()
    usable = candidate >= 0
    names, (first, *further) = tuple(str(name) for name in data["problem"].to_numpy()), signal_names(tree)
    candidates = tuple(tuple(str(k) for k in range(n)) for n in data["n_candidates"].to_numpy())
    if "said" in data:
        labels = label_names(tree) or ()
        candidates = tuple(tuple(labels[k] for k in sorted({*row} - {-1})) for row in data["said"].to_numpy().tolist())
    return Observations(
        problem_id=names,
        level_names=tuple(str(name) for name in data["report" if "group" in data else "level"].to_numpy()),
        groups=tuple(str(name) for name in data["group"].to_numpy()) if "group" in data else None,
        kind=tree.attrs["answers"],
        signals={first: data["confidence"].to_numpy()}
        | {name: data[signal_column(name)].to_numpy() for name in further},
        candidate=candidate,
        candidates=candidates,
        correct=usable & np.take_along_axis(right, np.maximum(candidate, 0), axis=1),
        labelled=np.ones(len(names), bool),
        status=np.where(usable, Status.USABLE, Status.ABSENT).astype(np.int8),
        conflicting=np.zeros(len(names), np.int32),
        weight=data["question_weight"].to_numpy() if "question_weight" in data else np.ones(len(names)),
        table=table_of_questions([Question(problem_id=name, observations=()) for name in names]),
        row=np.arange(len(names)),
        cluster=tuple(str(name) or None for name in data["cluster"].to_numpy()) if "cluster" in data else None,
        agreement=Agreement(*(data[name].to_numpy() for name in _AGREEMENT)) if _AGREEMENT[0] in data else None,
    )


def columns_of(tree: xr.DataTree) -> Columns | None:
    """Return how the observations of a container were read: columns, groups and scale."""
    pairs = json.loads(tree.attrs.get("columns", "null"))
    columns = Columns.named(
        pairs or (),
        groups=tree.attrs.get("groups") or None,
        scale=tree.attrs.get("scale") or None,
        needs_labels=False,
    )
    return None if pairs is None else columns


def level_names(tree: xr.DataTree) -> tuple[str, ...]:
    """Return the levels of a container, in order."""
    data = tree["constant_data"].to_dataset()
    return tuple(dict.fromkeys(str(name) for name in data["group" if "group" in data else "level"].to_numpy()))


def signal_names(tree: xr.DataTree) -> tuple[str, ...]:
    """Return the names of a report's signals in a container; ``number`` where reports have a confidence alone."""
    return tuple(json.loads(tree.attrs.get("signals", '["number"]')))


def label_names(tree: xr.DataTree) -> tuple[str, ...] | None:
    """Return the labels of a container's model, in string order; None if it has no votes by label."""
    posterior = tree["posterior"].to_dataset()
    return tuple(map(str, posterior["label"].to_numpy())) if "label" in posterior.coords else None


def sampled_parameters(tree: xr.DataTree, slots: Sequence[int] | None = None) -> Parameters:
    """Return the natural parameters of all draws with a leading ``sample`` axis, one chain after the other.

    ``slots`` repeat them by column: see :meth:`~bayes_direag.model.equations.Parameters.of_slots`.
    """
    natural = natural_draws(tree)
    draws = {name: natural[name].to_numpy() for name in Parameters._fields if name in natural}
    return Parameters(**{name: each.reshape(-1, *each.shape[2:]) for name, each in draws.items()}).of_slots(slots)


def natural_draws(tree: xr.DataTree) -> xr.Dataset:
    """Return the natural parameters by chain and draw, fixed ones included."""
    free = tree["posterior"].to_dataset()
    if "fixed_parameters" not in tree.children:
        return free
    fixed = tree["fixed_parameters"].to_dataset()
    return free.merge(fixed.expand_dims({dim: free[dim] for dim in ("chain", "draw")}), join="exact")


def require_format(tree: xr.DataTree) -> None:
    """Raise ValueError unless a container has the layout above."""
    if tree.attrs.get("format") != FORMAT:
        raise ValueError(f"its layout is not format {FORMAT}, perhaps that of an earlier version")


def _container(
    raw: RawDraws,
    stats: dict[str, Shaped[np.ndarray, "chain draw"]],
    observations: Observations,
    weight: Float[np.ndarray, " problem"],
    *,
    labels: Sequence[str],
    preset: Preset,
    variant: Variant,
    attributes: dict[str, str | int],
) -> xr.DataTree:
    agreement = observations.agreement if preset.uses_agreement else None
    natural = _natural(raw, preset, variant, None if agreement is None else agreement.score)
    right = observations.correct_candidate
    fixed = {name: np.asarray(value[0, 0]) for name, value in natural.items() if name not in raw}
    columns = _columns(observations, weight, labels)
    if agreement is not None:
        columns |= dict(zip(_AGREEMENT, agreement, strict=True))
    tree = _datasets(
        {
            "posterior": {name: value for name, value in natural.items() if name in raw},
            "unconstrained_posterior": sites(raw),
            **({"fixed_parameters": fixed} if fixed else {}),
            "sample_stats": stats,
            "labels": {"correct": right},
            "observed_data": {"target": np.where(right.any(axis=1), right.argmax(axis=1), -1)},
            "constant_data": columns,
        },
        observations,
        labels,
    )
    names = observations.table.names
    tree.attrs = {
        "format": FORMAT,
        "columns": json.dumps(names and names.pairs),
        "scale": (names and names.scale) or "",
        "groups": (names and names.groups) or "",
        "variant": variant,
        "preset": preset.model_dump_json(),
        "answers": observations.kind,
        "signals": json.dumps(observations.signal_names),
        "dataset": ", ".join(observations.datasets) or _NOT_STATED,
        "model": ", ".join(observations.models) or _NOT_STATED,
        "observations_sha256": observations.fingerprint,
        "versions": _versions(),
        **attributes,
    }
    return tree


def _columns(
    observations: Observations, weight: Float[np.ndarray, " problem"], labels: Sequence[str]
) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Return what is known of questions, but for what is right, as the arrays of a group."""
    columns = {
        "confidence": observations.confidence,
        **{signal_column(name): observations.signals[name] for name in observations.signal_names[1:]},
        "candidate": observations.candidate,
        "n_candidates": observations.n_candidates,
        "weight_in_likelihood": weight,
    }
    if observations.cluster is not None:
        columns["cluster"] = np.array([name or "" for name in observations.cluster], dtype=object)
    if (observations.weight != 1).any():
        columns["question_weight"] = observations.weight
    if labels:
        columns["said"] = observations.label(labels)
    if observations.groups is not None:
        columns["group"] = np.array(observations.groups, dtype=object)
    return columns


def _datasets(
    groups: dict[str, dict[str, np.ndarray]], observations: Observations, labels: Sequence[str]
) -> xr.DataTree:
    """Put arrays by group and name into datasets with named dimensions."""
    names = {
        "level": np.array(observations.learned_levels, dtype=object),
        "signal": np.array(observations.signal_names, dtype=object),
        "report": np.array(observations.level_names, dtype=object),
        "label": np.array(labels, dtype=object),
        "candidate": np.arange(observations.n_levels),
        "problem": np.array(observations.problem_id, dtype=object),
    }

    def dataset(group: str, arrays: dict[str, np.ndarray]) -> xr.Dataset:
        leading = () if group in _DATA else ("chain", "draw")
        column = "level" if observations.groups is None else "report"
        of_reports = ("confidence", *map(signal_column, observations.signal_names[1:]), "candidate", "said")
        dims = _DIMS | dict.fromkeys(of_reports, ("problem", column))
        if len(observations.signals) > 1:
            dims |= {f"{name}{end}": ("signal",) for name in SIGNAL_PARAMETERS for end in ("", "_raw")}
        variables = {name: ((*leading, *dims.get(name, ())), array) for name, array in arrays.items()}
        sizes = {dim: size for dims, array in variables.values() for dim, size in zip(dims, array.shape, strict=True)}
        return xr.Dataset(variables, {dim: names.get(dim, np.arange(size)) for dim, size in sizes.items()})

    return xr.DataTree(children={name: xr.DataTree(dataset(name, arrays)) for name, arrays in groups.items()})


def _natural(
    raw: RawDraws, preset: Preset, variant: Variant, agreement: Float[np.ndarray, " level"] | None
) -> dict[str, Shaped[np.ndarray, "chain draw ..."]]:
    """Return the natural parameters by name."""

    def named(raw: Raw) -> Raw:
        return named_parameters(natural_parameters(raw, preset, variant, agreement), raw, preset)

    with jax.enable_x64(True):
        natural = jax.vmap(jax.vmap(named))(jax.tree.map(jnp.asarray, raw))
    return {name: np.asarray(value) for name, value in natural.items()}


@cache
def _versions() -> str:
    return json.dumps({name: version(name) for name in _RECORDED_PACKAGES})


#: Number of draws in the prior groups, and the type in which states are kept.
_PRIOR_DRAWS = 1000
_STATE = np.int16

#: Groups without chain and draw.
_DATA = ("fixed_parameters", "labels", "observed_data", "constant_data")

_NOT_STATED = "not stated"
_RECORDED_PACKAGES = ("bayes-direag", "numpyro", "jax", "numpy", "arviz-base")
