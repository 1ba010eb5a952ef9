"""The paper's own prompts, read from a checkout of its authors' code at run time. That code is read, and not run.

Its functions join texts: they assign, branch and return. Anything else in them is an error.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayes_direag.errors import DirEAGError

_STEERED, _REPAIR = "direag_core/prompts.py", "direag_core/inference.py"
_BASELINES = "comparison_baselines/run_baselines.py"
_QUESTION = "{question}"


def authors_prompts(folder: Path, protocol: str) -> dict[str, Any]:
    """Return ``frame`` and ``levels`` of a protocol, and ``repair`` if that protocol asks again.

    Raises DirEAGError, with file and fault, if a file is missing, or does not define these prompts.

    Parameters
    ----------
    folder : Path
        A checkout with ``direag_core/prompts.py`` (``STEERING_LEVELS``, ``build_prompt``), ``direag_core/inference.py``
        (``build_format_retry_prompt``) and ``comparison_baselines/run_baselines.py`` (``build_vanilla_sample_prompt``,
        ``build_topk_prompt``).
    protocol : {"steered", "samples", "topk"}
        Which prompts to read.
    """
    if protocol == "samples":
        return {"frame": _prompt(folder / _BASELINES, "build_vanilla_sample_prompt"), "levels": {"vanilla": {}}}
    if protocol == "topk":
        return {"frame": _prompt(folder / _BASELINES, "build_topk_prompt", k=5), "levels": {"topk": {}}}
    path, again = folder / _STEERED, _text(folder / _REPAIR, "build_format_retry_prompt", prompt=_QUESTION)
    if not again.startswith(f"{_QUESTION}\n\n"):
        raise _fault(folder / _REPAIR, "build_format_retry_prompt", again, "the prompt, an empty line and a text")
    levels, notes = _steering_levels(path), {}
    framed = _prompt(path, "build_prompt", level=levels[0] | {"shift": "{note}"}, use_cot=True)
    before, after = map(str.rstrip, framed.partition("{note}")[::2])
    for level in levels:
        prompt = _prompt(path, "build_prompt", level=level, use_cot=True)
        note = prompt.removeprefix(before).removesuffix(after)
        if f"{before}{note}{after}" != prompt:
            raise _fault(path, "build_prompt", prompt, "prompts that differ by the shift of the level alone")
        notes[level["name"]] = {"note": note}
    return {"frame": f"{before}{{note}}{after}", "repair": again.removeprefix(_QUESTION), "levels": notes}


def _prompt(path: Path, name: str, **values: Any) -> str:
    text = _text(path, name, question=_QUESTION, **values)
    if text.count(_QUESTION) != 1:
        raise _fault(path, name, text, "a prompt with the question once")
    return text


def _steering_levels(path: Path) -> list[dict[str, Any]]:
    name, expected = "STEERING_LEVELS", "a list of levels with name and shift, whose index counts from 0"
    for statement in _statements(path):
        match statement:
            case ast.Assign(targets=[ast.Name(id="STEERING_LEVELS")], value=value):
                try:
                    levels = [
                        {key: level[key] for key in ("index", "name", "shift")} for level in ast.literal_eval(value)
                    ]
                except (ValueError, TypeError, KeyError) as error:
                    raise _fault(path, name, f"{type(error).__name__} {error}", expected) from error
                by_index = {level["index"]: level for level in levels}
                if not levels or sorted(by_index) != list(range(len(levels))):
                    raise _fault(path, name, str([level["index"] for level in levels]), expected)
                return [by_index[index] for index in range(len(levels))]
    raise _fault(path, name, "no such list", expected)


def _text(path: Path, name: str, **values: Any) -> str:
    """Return the text that a function returns."""
    for statement in _statements(path):
        match statement:
            case ast.FunctionDef(name=called, body=body) if called == name:
                try:
                    return str(_returned(body, values))
                except (KeyError, TypeError) as error:
                    raise _fault(path, name, str(error), "assignments, branches and texts alone") from error
    raise _fault(path, name, "no such function", "one that returns a prompt")


def _statements(path: Path) -> list[ast.stmt]:
    try:
        return ast.parse(path.read_text("utf-8")).body
    except (OSError, ValueError, SyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DirEAGError(
            f"--prompts-from: {path} cannot be read ({reason}); expected this file of the authors' code. Give the "
            "folder of a checkout of https://github.com/horacehsugithub/DirEAG."
        ) from error


def _fault(path: Path, name: str, seen: str, expected: str) -> DirEAGError:
    return DirEAGError(
        f"--prompts-from: {path}, {name}: saw {seen[:80]!r}; expected {expected}. Check out commit a4981cc of the "
        "authors' code."
    )


def _returned(statements: Sequence[ast.stmt], values: dict[str, Any]) -> Any:
    """Return what statements return, None if they end without; assignments go into ``values``."""
    for statement in statements:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values[name] = _value(value, values)
            case ast.If(test=test, body=body, orelse=orelse):
                returned = _returned(body if _value(test, values) else orelse, values)
                if returned is not None:
                    return returned
            case ast.Return(value=ast.expr() as value):
                return _value(value, values)
            case _:
                raise TypeError(ast.unparse(statement))
    return None


def _value(expression: ast.expr, values: Mapping[str, Any]) -> Any:
    match expression:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.Subscript(value=whole, slice=key):
            return _value(whole, values)[_value(key, values)]
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            return str(_value(value, values))
        case ast.JoinedStr(values=parts):
            return "".join(_value(part, values) for part in parts)
    raise TypeError(ast.unparse(expression))
