"""The file of a policy, which is that of its fit with one more group, after any one change by somebody who signs it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_direag.data.observations import Observations
from bayes_direag.decisions.policy import Policy
from bayes_direag.decisions.policy import policy as policy_of
from bayes_direag.errors import FitFileError
from bayes_direag.fits.convergence import convergence_verdict
from bayes_direag.fits.fit import Fit
from bayes_direag.fits.stored import write_tree

#: What an attribute is replaced with, and a number in the middle of a variable; None: it is left out.
JUNK = (None, "", "{", "3", "[3]", '["number", "words"]', '{"eps": 0.1}', '["levl=model"]', -1.0, 1e308)
WRONG = (None, np.nan, np.inf, 1e308, -7.0)
#: What a fit is told by, so that no damage of it can pass. (Other attributes are texts that are shown, or any number.)
TELLING = {"format", "preset", "answers", "method", "record", "eps"}
#: The groups that answers follow from.
ANSWERING = {"posterior", "unconstrained_posterior", "recalibration", "replay_draws", "replay_weights", "policy"}


class Part(NamedTuple):
    """A group, an attribute or a variable of one, or a field of the policy's record."""

    group: str
    name: str
    kind: str


def parts(tree: xr.DataTree) -> Iterator[Part]:
    for node in tree.subtree:
        yield from (Part(node.path, str(name), "attribute") for name in node.attrs if name != "same")  # any name
        yield from (Part(node.path, str(name), "variable") for name in node.data_vars)
    yield from (Part("/", name, "group") for name in tree.children)
    yield from (Part("/policy", name, "field") for name in json.loads(tree["policy"].attrs["record"]))


@pytest.fixture(scope="module")
def tree(small: Fit, tmp_path_factory: pytest.TempPathFactory) -> xr.DataTree:
    path = tmp_path_factory.mktemp("whole") / "policy.nc"
    policy_of(small, budget=0.4).save(path)
    return Policy.load(path).fit.tree


def damaged(tree: xr.DataTree, part: Part, value: object) -> xr.DataTree:
    """Return a copy in which one part is left out, or has another value."""
    tree = tree.copy(deep=True)
    node: Any = tree[part.group]
    held = json.loads(node.attrs["record"]) if part.kind == "field" else node.attrs
    if part.kind == "group":
        del tree[part.name]
    elif part.kind != "variable":
        held.update({part.name: value})
        if value is None:
            del held[part.name]
        node.attrs |= {"record": json.dumps(held)} if part.kind == "field" else {}
    else:
        dataset, values = node.to_dataset(), node[part.name].to_numpy().copy()
        changed = dataset.drop_vars(part.name)
        if value is not None:
            values.flat[values.size // 2] = value if values.dtype.kind == "f" else 10**9
            changed = dataset.assign({part.name: (dataset[part.name].dims, values)})
        tree[part.group] = xr.DataTree(changed)
    return tree


@settings(max_examples=60)
@given(data=st.data())
def test_any_one_change_is_one_line_or_harms_nothing(data, tree, panel: Observations, tmp_path_factory) -> None:
    part = data.draw(st.sampled_from([*parts(tree)]))
    value = data.draw(st.sampled_from(WRONG if part.kind == "variable" else JUNK))
    check(tree, part, value, panel, tmp_path_factory.getbasetemp() / "damaged.nc")


def check(tree: xr.DataTree, part: Part, value: object, panel: Observations, path: Path) -> None:
    write_tree(damaged(tree, part, value), path)
    try:
        policy, refusal = Policy.load(path), ""
    except FitFileError as error:
        policy, refusal = None, str(error)
    if policy is None:
        assert refusal.startswith(f"{path}: ")
        assert "\n" not in refusal
        return
    assert part.name not in TELLING | ANSWERING
    assert part.kind != "field" or part.name in ("fit", "learned_from", "person", "factor", "n_labels")
    if part.kind == "variable" and part.group.strip("/") in ANSWERING:
        assert value == -7.0 or (part.group, value) == ("/posterior", None)  # which is shown alone
    predicted = policy.fit.predict(panel.select(slice(70, 80)), warn=False)
    assert predicted["probability"].dropna().between(0, 1).all()
    assert policy.next([]).gain >= 0
    assert policy.text()
    assert len(policy.fit.parameters())
    assert convergence_verdict(policy.fit).text


def test_file_without_a_parameter_that_its_table_shows_is_refused(tree, panel: Observations, tmp_path: Path) -> None:
    check(tree, Part("/posterior", "share", "variable"), None, panel, tmp_path / "damaged.nc")
