"""Chains shared out among JAX's devices: on an accelerator side by side, on a CPU those of a device in turn."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Shaped

from bayes_direag.evidence import Reports
from bayes_direag.log_joint import Outcomes
from bayes_direag.model import Labels

_BY_CHAIN, _WHOLE = PartitionSpec("chain"), PartitionSpec()  # type: ignore[no-untyped-call]


class Chains(NamedTuple):
    """How chains are shared out, as many to each device, and what they are conditioned on.

    Attributes
    ----------
    n_devices
        How many devices there are for them.
    own_labels
        Whether each has labels of its own, with a leading axis chain on each array, or all have the same.
    """

    n_devices: int
    own_labels: bool

    def lay_out(self, values: Shaped[np.ndarray, "chain *rest"]) -> Shaped[Array, "chain *rest"]:
        """Put what each chain is given on the device that it runs on."""
        return jnp.asarray(jax.device_put(values, NamedSharding(self._mesh, _BY_CHAIN)))

    def each[Chain, Result](
        self, one: Callable[[Chain, Outcomes], Result], chains: Chain, reports: Reports, labels: Labels, eps: float
    ) -> Result:
        """Apply a function to each chain and what it is conditioned on."""

        def on_device(chains: Chain, reports: Reports, labels: Labels) -> Result:
            mapped: Callable[..., Callable[..., Result]] = jax.vmap if jax.default_backend() != "cpu" else _in_turn
            if self.own_labels:
                return mapped(lambda chain, own: one(chain, Outcomes.of(reports, own, eps)))(chains, labels)
            shared = Outcomes.of(reports, labels, eps)
            return mapped(lambda chain: one(chain, shared))(chains)

        # no check: the carries of numpyro's loops start as constants, which are not marked as varying over the mesh
        return jax.shard_map(
            on_device,
            mesh=self._mesh,
            in_specs=(_BY_CHAIN, _WHOLE, _BY_CHAIN if self.own_labels else _WHOLE),
            out_specs=_BY_CHAIN,
            check_vma=False,
        )(chains, reports, labels)

    @property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(jax.local_devices()[: self.n_devices]), ("chain",), axis_types=(AxisType.Auto,))


def _in_turn[Result](function: Callable[..., Result]) -> Callable[..., Result]:
    """Return what ``jax.vmap`` does, one after the other."""
    return lambda *batch: jax.lax.map(lambda one: function(*one), batch)
