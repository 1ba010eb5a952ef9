r"""The coordinates of NUTS under ``bayes``, in which the posterior is closer to a normal than in its sites.

Labels determine how the evidence for answers compares with that for the null, but hardly how the null's comes from its
base :math:`B` and how much from doubt :math:`D`. In the sites this is a curved ridge: a small bias with
small weights, or a large one with large weights, or no doubt at all. With

.. math:: A = \sum_l u_l w_l \bar q, \qquad D = \sum_l u_l w_l (1 - \bar q), \qquad s = \frac{1}{K + 1}

where :math:`\bar q` is the calibrated confidence at the mean of all logits, s a mean over questions, and :math:`u_l`
the share of questions that level l reports on, NUTS samples

.. math:: v = \log \frac{D}{s + \beta_0}, \qquad r = \log \frac{A}{s / 2 + \beta_0 + D}

in place of the bias and of the centre of the levels' log weights. Labels determine a ratio to which the answers bring
their share s too, so r would fall with the evidence if the null's s counted in full. The Jacobian determinant is 1.
Other models are sampled as they are.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from bayes_direag.model.likelihood_data import LikelihoodData
from bayes_direag.model.models import WEIGHT_SPREAD, bayes
from bayes_direag.model.unconstrained import Model, Unconstrained


def to_unconstrained(model: Model, data: LikelihoodData) -> Callable[[Unconstrained], Unconstrained]:
    """Return the map from the coordinates of NUTS to the unconstrained parameters.

    Under ``bayes`` entry ``bias`` of the coordinates holds v, and ``weight_centre`` holds r. Only the reports of the
    data are used. One report with a confidence of one half is added to each level.
    """
    if model is not bayes:
        return lambda point: point
    weight, usable = jnp.asarray(data.weight), jnp.asarray(data.candidate) >= 0
    counts = usable * weight[None]
    n_reports = 1 + counts.sum(axis=1)
    logits = jnp.asarray(data.logit).reshape(-1, *usable.shape)
    mean_logit = jnp.sum(logits * counts[None], axis=(1, 2)) / n_reports.sum()
    share = (weight / (1 + jnp.asarray(data.n_candidates))).sum() / weight.sum()

    def map_to_unconstrained(point: Unconstrained) -> Unconstrained:
        log_ratio = point["weight_agreement"] * data.agreement + WEIGHT_SPREAD * point["weight_base_decentered"]
        ratios = jnp.exp(data.of_columns(log_ratio)) @ n_reports / (1 + weight.sum())  # (A + D) / exp(centre)
        null_base = jax.nn.softplus(point["null_base_base"])
        log_doubt = point["bias"] + jnp.log(share + null_base)
        log_answers = point["weight_centre"] + jnp.logaddexp(jnp.log(share / 2 + null_base), log_doubt)
        of_confidence = jnp.sum(jnp.exp(point["slope_base"]) * mean_logit) if data.n_signals else 0.0
        centre = jnp.logaddexp(log_answers, log_doubt) - jnp.log(ratios)
        return point | {"bias": log_answers - log_doubt - of_confidence, "weight_centre": centre}

    return map_to_unconstrained
