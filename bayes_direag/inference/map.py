"""The mode of the posterior (MAP) by SVI with an AutoDelta guide, for one set of questions or many at once.

A batch of fits (the folds of a cross-fit, say) shares its questions and differs only in their weights, a
held-out question weighing nothing; so one compiled computation does for all. All fits run in double precision,
whatever JAX's global setting.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key
from numpyro.handlers import scale, seed, substitute, trace
from numpyro.infer import SVI, init_to_value
from numpyro.infer.autoguide import AutoDelta
from numpyro.infer.elbo import ELBO
from numpyro.infer.util import log_density

from bayes_direag.data.observations import Observations
from bayes_direag.errors import ConvergenceError, DirEAGError
from bayes_direag.inference.batches import each_in_turn, on_batch
from bayes_direag.inference.newton import Minimum, ProjectedNewton
from bayes_direag.model.evidence import Reports, padded_size
from bayes_direag.model.log_joint import Outcomes, arranged, concentrations
from bayes_direag.model.model import Labels, Raw, natural_parameters, raw_priors
from bayes_direag.model.patterns import likelihood_patterns
from bayes_direag.model.settings import LEVEL_PARAMETERS, Preset, Variant

#: A fit has converged when no coordinate of the mean loss's projected gradient exceeds this.
GRADIENT_TOLERANCE = 1e-6
_AIM = 1e-9
#: Fewer questions are padded to so many: to compile once more takes longer than a fit.
LEAST_SIZE = 2048
_PREFIX = "mode"
_LOC = f"_{_PREFIX}_loc"


class Optimum(NamedTuple):
    """Where a batch of MAP fits ended.

    Attributes
    ----------
    raw
        Free raw parameters by name, each with a leading batch axis.
    loss : (batch,) array
        The penalised loss there (:func:`~bayes_direag.model.model.penalised_loss`).
    gradient : (batch,) array
        Largest coordinate of its projected gradient.
    n_steps : (batch,) array
        Newton steps taken.
    log_likelihood : (batch, problem) array
        Log probability of what came true in each question, whether it counted or not.
    """

    raw: Raw
    loss: Float[Array | np.ndarray, "*batch"]
    gradient: Float[Array | np.ndarray, "*batch"]
    n_steps: Int[Array | np.ndarray, "*batch"]
    log_likelihood: Float[Array | np.ndarray, "*batch problem"]


def likelihood_weights(
    chosen: Bool[np.ndarray, "batch problem"], observations: Observations, preset: Preset, *, by_pattern: bool = False
) -> Float[np.ndarray, "batch problem"]:
    """Return what each question weighs in each fit of a batch.

    A chosen question counts 1, or the preset's null-target weight if no level gave its right answer. Unlabelled and
    unanswered questions count 0, chosen or not.

    Parameters
    ----------
    by_pattern
        Whether a row may stand for several questions; it then counts as often.

    Raises
    ------
    DirEAGError
        If a fit is left without a question, or has none to balance against; or if rows stand for several questions
        and may not.
    """
    if observations.multiplicity is not None and not by_pattern:
        raise DirEAGError(
            f"saw {int(observations.multiplicity.sum()):,} questions counted by pattern; expected them one by one, as "
            "NUTS and an out-of-fold recalibration look at each. Read them so (--keep-questions), or fit with --method "
            "map and --out-of-fold 0."
        )
    usable = chosen & observations.labelled & observations.answered
    if not usable.any(axis=1).all():
        remedy = (
            "Give gold answers (gold_answer, or correct on each observation)."
            if observations.answered.any()
            else "A question is answered by an observation with both an answer and a confidence: see whether they are "
            "there, and under these names."
        )
        raise DirEAGError(
            f"no labelled, answered question to fit: saw {len(observations)} questions, "
            f"{int(observations.labelled.sum())} labelled, {int(observations.answered.sum())} answered; "
            f"expected at least one that is both. {remedy}"
        )
    present = observations.gold_generated
    times = np.ones(len(observations)) if observations.multiplicity is None else observations.multiplicity.astype(float)
    if preset.null_target_weight != "balanced":
        return np.where(usable, times * np.where(present, 1.0, preset.null_target_weight), 0.0)
    n_present, n_absent = (usable & present) @ times, (usable & ~present) @ times
    if not n_present.all():
        raise DirEAGError(
            f"null_target_weight 'balanced' is questions with the right answer generated / questions without: saw 0 / "
            f"{n_absent[n_present == 0][0]:.0f}. Set null_target_weight to a number."
        )
    balance = n_present / np.maximum(n_absent, 1)
    return np.where(usable, times * np.where(present, 1.0, balance[:, None]), 0.0)


def map_estimates(
    observations: Observations,
    weight: Float[np.ndarray, "batch problem"],
    *,
    preset: Preset,
    variant: Variant,
) -> Optimum:
    """Find the MAP of every fit in a batch.

    Parameters
    ----------
    weight : (batch, problem) array
        What each question weighs in each fit, as :func:`likelihood_weights` gives it.

    Raises
    ------
    ConvergenceError
        If a projected gradient is above :data:`GRADIENT_TOLERANCE`, or not a number.
    """
    reports, labels = Reports.of(observations), Labels.of(observations, weight[0])
    patterns = likelihood_patterns(reports, labels, variant)
    size = padded_size(len(patterns.member), least=LEAST_SIZE)
    total = np.pad(patterns.total(weight), ((0, 0), (0, size - len(patterns.member))))
    reports, labels = reports.select(patterns.member).padded(size), labels.select(patterns.member).padded(size)
    fits = partial(_map_estimates, reports, labels, preset=preset.model_settings, variant=variant)
    with jax.enable_x64(True):
        optimum: Optimum = on_batch(fits, (total,))
    require_converged(f"the {variant} fit", optimum.gradient, optimum.loss, optimum.n_steps)
    return optimum._replace(log_likelihood=optimum.log_likelihood[:, patterns.pattern])


def svi_mode(
    model: Callable[..., None],
    start: dict[str, Array],
    *args: object,
    low: dict[str, Array] | None = None,
    high: dict[str, Array] | None = None,
) -> tuple[dict[str, Array], Minimum]:
    """Run SVI with an AutoDelta guide to the mode of a NumPyro model whose sites all live on the real line.

    One update of :class:`~bayes_direag.inference.newton.ProjectedNewton` goes all the way. Pure: may be compiled and
    mapped.

    Parameters
    ----------
    model, *args
        The model and its arguments; scale it by 1 / its total weight for a tolerance that does not depend on
        the data's size.
    start, low, high
        Where each site starts, and the box it is kept in.
    """
    bounds = ({f"{site}{_LOC}": value for site, value in side.items()} if side else None for side in (low, high))
    guide = AutoDelta(model, init_loc_fn=init_to_value(values=start), prefix=_PREFIX)
    svi = SVI(model, guide, ProjectedNewton(*bounds, tolerance=_AIM), _ModeLoss())
    state = svi.init(jax.random.key(0), *args)
    exact_start = svi.optim.init({f"{site}{_LOC}": value for site, value in start.items()})
    state, _ = svi.update(state._replace(optim_state=exact_start), *args)
    found = svi.get_params(state)
    return {site: found[f"{site}{_LOC}"] for site in start}, ProjectedNewton.minimum(state.optim_state)


class _ModeLoss(ELBO):  # type: ignore[misc]
    """Minus the log joint density at the guide's point, which is what the ELBO of a Delta comes to.

    Terms are added in the order of the model's sites. ``Trace_ELBO`` adds them in that of a set, which differs from one
    process to the next: so would the last digits, and no computation compiled before would be found again.
    """

    def loss(
        self, rng_key: Key[Array, ""], param_map: dict[str, Array], model: Any, guide: Any, *args: object
    ) -> Array:
        point = trace(substitute(seed(guide, rng_key), data=param_map)).get_trace(*args)
        values = {name: site["value"] for name, site in point.items() if site["type"] == "sample"}
        log_joint, _ = log_density(model, args, {}, values)
        return jnp.negative(log_joint)


def require_converged(
    what: str,
    gradient: Float[Array | np.ndarray, " batch"],
    loss: Float[Array | np.ndarray, " batch"],
    n_steps: Int[Array | np.ndarray, " batch"],
) -> None:
    """Raise ConvergenceError unless every projected gradient is at most :data:`GRADIENT_TOLERANCE` (NaN is not)."""
    reached = np.asarray(gradient) <= GRADIENT_TOLERANCE
    if reached.all():
        return
    worst = int(np.argmin(reached))
    raise ConvergenceError(
        f"{what} did not converge: after {int(n_steps[worst])} steps the largest projected gradient is "
        f"{float(gradient[worst]):.3g} at a mean loss of {float(loss[worst]):.8g}; "
        f"expected at most {GRADIENT_TOLERANCE:g}. Raise the penalty or narrow the priors; if they are the preset's "
        "own, please report it as a bug."
    )


@partial(jax.jit, static_argnames=("preset", "variant"))
def _map_estimates(
    reports: Reports,
    labels: Labels,
    n: Int[Array, ""],
    weight: Float[Array, "batch problem"],
    *,
    preset: Preset,
    variant: Variant,
) -> Optimum:
    """Find the MAP of the first n fits of a batch."""
    one = partial(_map_estimate, reports, labels, preset=preset, variant=variant)
    return each_in_turn(one, n, weight)


def _map_estimate(
    reports: Reports, labels: Labels, weight: Float[Array, " problem"], *, preset: Preset, variant: Variant
) -> Optimum:
    """Find the MAP of one fit, without a batch axis."""
    n_levels = reports.candidate.shape[1]
    names = preset.free_parameters(variant)

    def spread(name: str, value: float) -> Array:
        return jnp.full((n_levels,) if name in LEVEL_PARAMETERS else (), value, float)

    settings = {name: preset.parameter(name) for name in names}
    start = {f"{name}_raw": spread(name, raw.start) for name, raw in settings.items()}
    low, high = ({f"{name}_raw": spread(name, raw.bounds[side]) for name, raw in settings.items()} for side in (0, 1))

    outcomes = Outcomes.of(reports, labels._replace(weight=weight), preset.eps)
    total = jnp.sum(weight)
    model = scale(partial(arranged, preset=preset, variant=variant), scale=1 / total)
    mode, minimum = svi_mode(model, start, outcomes, low=low, high=high)
    raw = {name: mode[f"{name}_raw"] for name in names}
    priors = raw_priors(preset, variant, n_levels, total)
    constant = sum((raw[name].size * prior.log_prob(prior.loc) for name, prior in priors.items()), jnp.zeros(()))
    reached = concentrations(natural_parameters(raw, preset, variant), outcomes).log_likelihood()
    return Optimum(raw, minimum.value + constant / total, minimum.projected_gradient, minimum.n_steps, reached)
