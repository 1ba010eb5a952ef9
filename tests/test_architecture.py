"""The rules of the house: who imports whom, what an import costs, and how large a file may grow."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bayes_direag
from tests.elicitation.runs import ENVIRONMENT

ROOT = Path(bayes_direag.__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [ROOT / name for name in SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
FILES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
MODULES = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in FILES]

#: What importing any package of ours must never load.
NEVER = {"matplotlib", "torch", "vllm"}
#: What takes long to load, and is not needed to read observations.
HEAVY = {"arviz", "arviz_base", "jax", "numpyro", "pandas", "pyarrow", "scipy", "sklearn", "xarray"}


def loaded_by(code: str, *arguments: str) -> set[str]:
    """Run code in a fresh process and return the packages that it has loaded."""
    script = f"import sys\n{code}\nprint('\\n'.join({{name.partition('.')[0] for name in sys.modules}}))"
    command = [sys.executable, "-c", script, *arguments]
    environment = os.environ | ENVIRONMENT
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
    return set(done.stdout.split())


class TestWhatAnImportLoads:
    def test_importing_and_reading_are_light(self, tmp_path):
        """Each import alone would load no less than all together."""
        path = tmp_path / "observations.jsonl"
        path.write_text(
            '{"problem_id": "a", "gold_answer": "1", "observations": [{"level": 0, "answer": "1", "confidence": 90}]}\n'
        )
        code = [
            *(f"import {package.name}" for package in PACKAGES),
            "dir(bayes_direag)",
            "from bayes_direag import Observations, canonical, DirEAGError, preset",
            "import bayes_direag.data.answers, bayes_direag.data.observations, bayes_direag.cli",
            "assert len(Observations.read(sys.argv[1]).status_counts) == 1",
        ]
        assert loaded_by("\n".join(code), str(path)) & (NEVER | HEAVY) == set()

    def test_help_is_light(self):
        code = (
            "import contextlib, io\n"
            "from bayes_direag.cli import app\n"
            "for command in ([], ['fit'], ['evaluate']):\n"
            "    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):\n"
            "        app([*command, '--help'])\n"
            "    assert 'Usage:' in shown.getvalue()"
        )
        assert loaded_by(code) & (NEVER | HEAVY | {"numpy"}) == set()

    def test_each_work_loads_what_it_needs(self):
        """In one process: to ask no JAX, to fit by MAP neither ArviZ nor statistics, no module pictures."""
        shared = ["bayes_direag.data.answers", "bayes_direag.data.observations"]
        light = [name for name in MODULES if name.startswith("elicitation")]
        code = [
            f"import {', '.join(shared + light)}",
            "assert not {'jax', 'numpyro'} & sys.modules.keys()",
            "from bayes_direag import fit_map, simulate_observations",
            "fit_map(simulate_observations(n=30, seed=1)).predict(simulate_observations(n=3, seed=2))",
            "assert not {'arviz', 'arviz_stats', 'scipy.stats', 'scipy.optimize'} & sys.modules.keys()",
            *(f"import {name}" for name in MODULES),
        ]
        loaded = loaded_by("\n".join(code))
        assert "jax" in loaded
        assert loaded & NEVER == set()


class TestTheFaceOfThePackage:
    def test_every_name_resolves(self):
        assert all(getattr(bayes_direag, name) is not None for name in bayes_direag.__all__)
        assert set(bayes_direag.__all__) <= set(dir(bayes_direag))

    def test_an_unknown_name(self):
        with pytest.raises(AttributeError, match=r"bayes_direag.* Observation5"):
            _ = bayes_direag.Observation5
        with pytest.raises(ImportError, match="cannot import name 'Observation5'"):
            exec("from bayes_direag import Observation5")  # noqa: S102 - the statement is the test's own


def test_file_has_a_name_that_says_what_it_is_a_docstring_and_no_more_than_600_lines():
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    texts = {path: path.read_text() for path in FILES}
    assert [path for path in FILES if path.stem in vague] == []
    assert [path for path, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []
    assert [path for path, text in texts.items() if len(text.splitlines()) > 600] == []


class TestDependencies:
    def test_the_import_contract_holds(self):
        command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)  # noqa: S603
        assert done.returncode == 0, done.stdout
        assert "0 broken" in done.stdout

    def test_every_package_is_under_the_contract_and_the_type_checker(self):
        names = {path.name for path in PACKAGES}
        assert {"bayes_direag", "analysis"} <= names
        assert set(SETTINGS["tool"]["importlinter"]["root_packages"]) == names
        assert set(SETTINGS["tool"]["mypy"]["packages"]) == names

    def test_every_third_party_import_is_declared(self):
        project = SETTINGS["project"]
        extras = [names for extra, names in project["optional-dependencies"].items() if extra != "dev"]
        declared = {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in sum(extras, project["dependencies"])}
        ours = {package.name for package in PACKAGES}
        module_of = {"scikit_learn": "sklearn"}
        known = {module_of.get(name, name) for name in declared} | ours | set(sys.stdlib_module_names)
        known.add("pydantic_core")  # comes with pydantic, each release of which names one of it
        for path in FILES:
            tree = ast.parse(path.read_text())
            imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
            imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            assert {name.partition(".")[0] for name in imported} <= known, path
