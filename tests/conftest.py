"""What every test runs under: the strictest JAX there is, in double precision, and reproducible Hypothesis."""

import gc
import os
import resource

# before numpy and jax are loaded: a process a core needs no further threads, and what runs once no optimised code
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=1")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

from pathlib import Path

import hypothesis
import jax
import jaxtyping
import pytest

gc.set_threshold(200_000, 50, 50)  # looking for garbage takes a fifth of the time in which tests are collected
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
hypothesis.settings.register_profile("project", derandomize=True, deadline=None, max_examples=30)
hypothesis.settings.load_profile("project")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="module", autouse=True)
def few_memory_maps():
    """Forget compiled programs long before there are 65,530 memory maps, at which Linux lets no process go on."""
    yield
    maps = Path("/proc/self/maps")
    if maps.is_file() and maps.read_bytes().count(b"\n") > 40_000:
        jax.clear_caches()


@pytest.fixture(scope="session", autouse=True)
def many_programs():
    """Keep what is compiled for more shapes than a user's process has: tests come back to those of the shared fits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayes_direag.model.compilation.KEPT", 48)
        yield


@pytest.fixture(scope="module")
def optimised():
    """Optimise what the tests of a module compile from here on, as it runs long.

    Tests after it compile anew: optimised code gives other last digits than that of the processes which tests start.
    """
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)
    jax.clear_caches()


@pytest.fixture(scope="module")
def small_pieces():
    """Evaluate few questions as few, where answers are asked for one by one, hundreds of times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayes_direag.model.forward._FEW_CELLS", 1 << 9)
        yield


@pytest.fixture
def unchecked_types():
    """Check no types: in a loop over thousands of cases, some of which other tests check."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def full_disk():
    """Let no file grow beyond 4 kB."""
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, most))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.fixture(scope="session")
def golden() -> Path:
    return Path(__file__).parent / "golden"


def shared_folder(name: str) -> Path:
    """Return a folder of real data, which is not part of the project."""
    folder = SHARED / "data" / name
    if not folder.is_dir():
        pytest.skip(f"the real {name} are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def real_observations() -> Path:
    return shared_folder("observations")


@pytest.fixture(scope="session")
def real_replies() -> Path:
    return shared_folder("replies")


@pytest.fixture(scope="session")
def real_cases() -> Path:
    return shared_folder("cases")


# What is imported in fixtures cannot be imported above, as the type checks are not yet in place there.


@pytest.fixture(scope="session")
def simulated():
    """240 simulated questions."""
    from bayes_direag.model.simulate import simulate_observations

    return simulate_observations(n=240, seed=5)


@pytest.fixture(scope="session")
def labelled(simulated):
    """The questions that :func:`nuts` and :func:`point` have learned from."""
    return simulated.select(slice(0, 80))


@pytest.fixture(scope="session")
def unlearnable(simulated):
    """Four questions without a gold answer, and one that nobody answered."""
    from bayes_direag.data.observations import Observations
    from bayes_direag.data.records import Observation, Question

    hidden = [question.model_copy(update={"gold_answer": None}) for question in simulated.questions[100:104]]
    nothing = tuple(Observation(level=0, level_name=name, answer=None) for name in simulated.level_names[:1])
    silent = Question(problem_id="silent", gold_answer="3", observations=nothing)
    return Observations.from_questions([silent, *hidden], answers="numeric")


@pytest.fixture(scope="session")
def among_others(labelled, unlearnable):
    """The labelled questions, handed over among others."""
    from bayes_direag.data.observations import Observations

    return Observations.from_questions([*unlearnable.questions, *labelled.questions], answers="numeric")


@pytest.fixture(scope="session")
def nuts(among_others, tmp_path_factory):
    """A NUTS fit to the labelled questions, of recorded draws."""
    from tests.made_fits import made_once, recorded_nuts

    return made_once(tmp_path_factory, "nuts", lambda _: recorded_nuts(among_others))


@pytest.fixture(scope="session")
def point(labelled, tmp_path_factory):
    """A MAP of the same questions."""
    from bayes_direag.fits.making import fit_map
    from tests.made_fits import made_once

    return made_once(tmp_path_factory, "map", lambda _: fit_map(labelled))


@pytest.fixture(scope="session")
def observations(tmp_path_factory) -> Path:
    """Return a file of 80 simulated questions, for the commands to read."""
    from bayes_direag.model.simulate import simulate_observations
    from tests.made_fits import made_once

    def write(folder: Path) -> Path:
        simulate_observations(80, seed=4).write(folder / "observations.jsonl")
        return folder / "observations.jsonl"

    return made_once(tmp_path_factory, "observations", write)


@pytest.fixture(scope="session")
def questions(observations, tmp_path_factory) -> Path:
    """Return the same questions without gold answers, and one that nobody answered."""
    from tests.command_line import without_gold
    from tests.made_fits import made_once

    silent = {
        "problem_id": "silent",
        "observations": [{"level": 0, "level_name": "very_cautious", "answer": None, "confidence": None}],
    }

    def write(folder: Path) -> Path:
        return without_gold(observations, folder / "unlabelled.jsonl", silent)

    return made_once(tmp_path_factory, "questions", write)


@pytest.fixture(scope="session")
def fitted(observations, tmp_path_factory) -> tuple[Path, str]:
    """Return a fit to them, and what was printed when it was made."""
    from tests.command_line import succeed
    from tests.made_fits import made_once

    def fit(folder: Path) -> tuple[Path, str]:
        path = folder / "fit.nc"
        return path, succeed("fit", observations, "--out", path, "--seed", 3)

    return made_once(tmp_path_factory, "fitted", fit)


@pytest.fixture(scope="session")
def groups(simulated, tmp_path_factory):
    """Return a fit to the first 120 of the simulated questions, with levels in groups."""
    from bayes_direag.fits.making import fit_map
    from tests.bayes_direag.fits.test_groups import grouped
    from tests.made_fits import made_once

    return made_once(tmp_path_factory, "groups", lambda _: fit_map(grouped(simulated.select(slice(120)))))
