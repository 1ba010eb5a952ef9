"""What is compiled for shapes of data is shared by fits of one shape, and given up where a process sees many."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayes_direag.model import compilation
from bayes_direag.model.compilation import Compiled, compiled


@pytest.fixture
def total(monkeypatch: pytest.MonkeyPatch) -> Compiled:
    monkeypatch.setattr(compilation, "KEPT", 3)

    @compiled("power")
    def total(values: jax.Array, *, power: int) -> jax.Array:
        return jnp.sum(values**power)

    return total


def test_compiled_function_is_that_function_whatever_the_shape(total: Compiled) -> None:
    for size in (1, 4, 2, 4):
        values = np.arange(size, dtype=float)
        for power in (1, 2):
            np.testing.assert_allclose(total(values, power=power), (values**power).sum())


def test_compiled_function_keeps_the_shapes_that_were_used_last(total: Compiled) -> None:
    first = total.program(np.zeros(1), power=1)
    for size in (2, 1, 3, 4):
        total(np.zeros(size), power=1)
    assert len(total.programs) == 3
    assert total.program(np.zeros(1), power=1) is first
    second = total.program(np.zeros(4), power=1)
    for size in (5, 6, 7):
        total(np.zeros(size), power=1)
    assert second._cache_size() == 0
    assert total.program(np.zeros(4), power=1) is not second


def test_fits_of_one_shape_share_what_is_compiled(total: Compiled) -> None:
    for seed in range(3):
        total(np.random.default_rng(seed).normal(size=5), power=1)
    ((_, program),) = total.programs.items()
    assert program._cache_size() == 1


CHILD = """
import warnings
from pathlib import Path
import jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist, pandas as pd
from jax import lax
from bayes_direag import Observations, fit_map, fit_nuts
from bayes_direag.model import compilation
from bayes_direag.model.evidence import draw_states

warnings.simplefilter("ignore")
compilation.KEPT, rng = {kept}, np.random.default_rng(0)

@compilation.compiled()
def powers(matrix):
    return lax.fori_loop(0, 3, lambda n, power: jnp.sin(power @ matrix) + n, matrix).sum()

def votes(data):
    with data.levels():
        vote = numpyro.sample("vote", dist.Normal(0, 1))
    draw_states(data, data.by_report(vote) * data.usable, numpyro.sample("null", dist.Normal(0, 1)))

def questions(n_levels):
    rows = [(f"q{q}", f"level {k}", rng.choice(["a", "b"]), "a") for q in range(9) for k in range(n_levels)]
    return Observations.from_frame(pd.DataFrame(rows, columns=["problem_id", "level", "answer", "gold_answer"]))

def predicted(fit):
    fit.predict(questions(len(fit.level_names)), warn=False)

def sampled(n_levels):
    return fit_nuts(questions(n_levels), num_chains=2, num_warmup=25, num_samples=25)

for number in range({n}):
    if number:
        {of_number}
    maps = Path("/proc/self/maps").read_bytes().count(b"\\n")
    print(maps, Path("/proc/self/statm").read_text().split()[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has /proc")
@pytest.mark.parametrize(
    ("of_number", "kept", "n"),
    [
        pytest.param("powers(np.eye(number))", 3, 41, marks=pytest.mark.slow),
        pytest.param("predicted(fit_map(questions(number)))", 1, 5, marks=pytest.mark.slow),
        pytest.param("predicted(fit_map(questions(number), preset=votes))", 2, 9, marks=pytest.mark.slow),
        pytest.param("predicted(sampled(number))", 1, 4, marks=pytest.mark.slow),
    ],
    ids=["computation", "map", "own model", "nuts"],
)
def test_many_shapes_hold_no_more_memory_than_the_few_that_are_kept(of_number: str, kept: int, n: int) -> None:
    code = CHILD.replace("{of_number}", of_number).replace("{kept}", str(kept)).replace("{n}", str(n))
    run = [sys.executable, "-c", code]
    said = subprocess.run(run, env=os.environ.copy(), capture_output=True, text=True, check=True).stdout  # noqa: S603
    maps, pages = np.array(said.split(), int).reshape(n, 2).T
    of_one, further = (maps[kept] - maps[0]) / kept, n - kept - 2
    assert maps[-1] - maps[kept + 1] < of_one * further / 4
    assert pages[-1] < 1.2 * pages[kept + 1]
