"""The fields of a reply that state an answer or a confidence: labelled lines, members of JSON objects, tags and boxes.

The form of a prompt, copied, is no field.
"""

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

from elicitation.reply_text import next_question

Scale = Literal["percent", "fraction", "probability"]
"""What a confidence without a unit is; a probability is a fraction if it has a decimal point, else a percentage."""


class Field(NamedTuple):
    """A field of a reply, at its place in it."""

    start: int
    end: int
    what: str  # ``answer``, ``confidence`` or ``both``
    label: str  # the first letter of its name; ``box``, ``line``; empty in an object or a tag, whose text has an end
    text: str
    scale: Scale = "percent"  # of a confidence without a unit
    rank: int | None = None  # the number of a guess
    following: str = ""  # what may belong to it: the next line, or what touches a box


_PLACEHOLDER = re.compile(
    r"(?i)[<\[{(]\s*(?:(?:your|the|a|only|insert)\s+)*(?:number|answer|confidence|probability|final|level|value)\b"
    r"[^<>\[\]{}()\d]*[>\]})]"
)
# What others say: comments, quoted lines, and quotations in which a label or a box stands.
_COMMENT = re.compile(r"(?m)<!--(?:(?!-->)[\s\S])*+(?:-->)?|^[^\S\n]*[\"'\u201c\u2018\u00ab]*>.*")
_QUOTATION = re.compile(
    r"(?<!\w)(?:([\"'])(?=\S)(?:(?!\1)[\s\S]){1,600}\1|\u201c[^\u201c\u201d]{1,600}\u201d|\u00ab[^\u00ab\u00bb]{1,600}\u00bb)(?!\w)"
)
_OBJECT = re.compile(r"""(?:\[\s*)?\{\s*(?:"[^"\n]{1,40}"|'[^'\n]{1,40}')\s*:""")
_AROUND = ("arguments", "function", "guesses", "input", "output", "parameters", "response", "result")  # of an object
_DICTIONARY = re.compile(r"\{[^{}]*\}")  # as Python writes it
_ESCAPE = re.compile(r'\\(?:["\\/]|u[0-9a-fA-F]{4}|[nrt](?![a-zA-Z]{1,20}\{))|\\')
_BACKSLASH = "\ue000"  # stands for one that is no escape in JSON
_TAG = re.compile(r"<(?P<name>[A-Za-z][\w-]{0,20})>(?P<text>[^<]*)</(?P=name)>")
_BRACKETED = re.compile(r"(?m)^\[\[ ## (?:\w+_)?([a-z]+) ## \]\]")  # fields of DSPy
_LATEX = re.compile(r"(?m)\\[()\[\]]|(?<!\\)\\++(?=[%$#])|^[^\S\n]*(?:```|~~~)\w*")  # and fences
_BOX = re.compile(r"(?m)\\f?boxed\s*\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}|^####\s*(-?\$?\d[\d.,]*)$")
# A box that is a part of more: what ends so before it, or begins so behind it.
_BEFORE_BOX = re.compile(
    r"(?:-(?! )|\S *(?:[-+/\u2212\u00d7^<\u2260]|(?<![=-])>|(?<!\*)\*(?!\*))|\d|\\(?:times|cdot|neq?)|\bnot|n't)[ $]*\Z"
)
_BEHIND_BOX = re.compile(r"[ $*_`)\]}%]*+(?!-(?! ?\d)|[.,:](?!\d)|[;!?(|\u2013\u2014]).{1,40}")
_BARE_CONFIDENCE = re.compile(r"\s*(?:\d{1,3}(?:\.\d+)?\s*%|[01]?\.\d+)\s*")
_S, _D = r"[^\S\n]", r"(?:[^\S\n]|[*_`])*+"  # a space; decoration
_M = r"""(?:[^\w\n<>|"'{\0\u2018-\u201f\u00ab\u00bb]|_)*+"""  # marks at the beginning of a line
_MEASURE = (
    rf"(?:confidence|certainty|probability|likelihood)(?:{_S}*\#?\d{{1,3}})?+"
    rf"(?:{_S}+(?:level|score|rating|value|estimate|percent(?:age)?|in|of|that|my|this|the|answer|guess|is|correct))*+"
)
_LABEL = re.compile(
    rf"""(?mix)
    (?: ^(?:(?P<heading>\#{{1,6}}{_D})|{_M}(?:\d{{1,3}}{_S}*[.):]{_M})?)
      | (?P<inline>[,;.(\[|/*\u2013\u2014-][ *_`]{{0,4}}+) )
    (?:(?:so|my|the|your|best|correct(?:ed)?|final|overall|stated|new|revised|updated|refined),?{_S}+){{0,3}}
    (?P<name> (?:answer|guess|(?-i:G)(?=\d)) (?:{_S}*\#?\d{{1,3}})?+ | {_MEASURE} | (?-i:P)\d{{1,3}} )
    (?: {_D}(?:and|&|/|\+){_D}(?P<second>{_MEASURE}) )?
    (?: {_D}[(\[] (?:
        (?P<percent>0\s*(?:-|\u2013|to)\s*100\s*%?|(?:in{_S}+|as{_S}+an?{_S}+)?(?:%|percent(?:age)?))
        | (?P<fraction>0(?:\.0)?\s*(?:-|\u2013|to)\s*1(?:\.0)?) | (?P<remark>[^()\[\]\n]{{0,40}}) ) [)\]] )?+
    (?: {_D}(?:is{_D})?: | {_S}*\*\*{_S}*$ | (?(heading){_D}$|(?!)) )
    """
)
_LINES = re.compile(rf"((?:{_D}\n){{0,12}})(.*)\n?(.*)")  # behind a label: blank ones, its content, and the next
_OTHER_LABEL = re.compile(rf"{_M}(?:\d{{1,3}}[.)]{_M})?[^\W\d][\w ]{{1,30}}{_D}[:=]")


def find_fields(reply: str, scale: Scale = "percent") -> tuple[list[Field], str]:
    """Return the fields of a reply in order, and the text in which they have their places.

    The text ends before a question that the model asks itself. If no label names an answer, boxes do, or a line alone
    before its confidence. ``scale`` is that of a confidence whose label does not say.
    """
    marked: list[str] = []

    def take(tag: re.Match[str]) -> str:
        if _LABEL.search(tag["text"]):  # a draft, or the whole reply
            return tag[0] if tag.end() > last_word else ""
        return _as_lines(tag["text"], marked, tag["name"]) or tag[0]

    def keep(quoted: re.Match[str]) -> str:
        return "" if _LABEL.search(quoted[0][1:-1]) or _BOX.search(quoted[0]) else quoted[0]

    text = _without_objects(reply, marked)
    last_word = max((word.end() for word in re.finditer(r"[\w/-]++(?!>)", text)), default=0)
    text = _QUOTATION.sub(keep, _TAG.sub(take, text))
    text = _LATEX.sub("", _BRACKETED.sub(r"\1:", text))
    fields = [*_labelled(text, marked, scale)]
    text = text[: next_question(text, next((field.end for field in fields if field.what != "confidence"), len(text)))]
    fields = [field for field in fields if field.end <= len(text)]
    if all(field.what == "confidence" for field in fields):
        fields = sorted([*_unlabelled(text, fields), *fields])
    return fields, text


def _without_objects(reply: str, marked: list[str]) -> str:
    """Put labelled lines in place of an object with fields, not of several in a row; a broken one ends the reply."""
    text = _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else _BACKSLASH, _COMMENT.sub("", reply))
    decoder = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, object_pairs_hook=_unique)
    pieces, position, is_listed = [""], 0, False
    while (brace := _OBJECT.search(text, position)) is not None:
        between, start = text[position : brace.start()], brace.start()
        try:
            value, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            dictionary = _DICTIONARY.match(text, start)
            value, position = (None, len(text)) if dictionary is None else (_literal(dictionary[0]), dictionary.end())
        lines = _as_lines(value, marked)
        if is_listed and lines and not re.search(r"\w", between):
            pieces[-1], lines = "", " "
        is_listed = bool(lines)
        pieces += [between, lines or ("" if value is None else text[start:position].replace("\n", " "))]
    return "".join([*pieces, text[position:]]).replace(_BACKSLASH, "\\")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object] | None:
    return dict(pairs) if len({name.lower() for name, _ in pairs}) == len(pairs) else None


def _literal(text: str) -> object:
    with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
        return ast.literal_eval(text)
    return None


def _as_lines(value: object, marked: list[str], name: str = "", rank: str = "") -> str:
    """Return labelled lines for the own fields of an object, or else for those of the only object in it that has any.

    The objects of a list are numbered. A value may be in a list of its own, or a member of an object.
    """
    name = re.sub("[_-]", " ", name)
    is_field = _LABEL.fullmatch(f"{name}:") is not None
    match value:
        case [one]:
            return _as_lines(one, marked, name, rank)
        case [*items] if not name:
            return "".join(_as_lines(item, marked, "", str(number)) for number, item in enumerate(items, 1))
        case {**members} if is_field or not name:
            names = {key: (key in ("value", "text", "score") and name) or str(key) for key in members}
            direct = "".join(_as_lines(item, marked, names[key], rank) for key, item in members.items())
            if len(re.findall(r"(?mi)^[a-z ]*(?:answer|guess) *: ", direct)) > 1:  # two answers
                return ""
            inner = [members[key] for key in _AROUND if key in members]
            nested = [] if direct or name else [lines for item in inner if (lines := _as_lines(item, marked, "", rank))]
            return nested[0] if len(nested) == 1 else direct
        case str() if not name and value.startswith("{"):  # arguments of a tool
            return _as_lines(_literal(value), marked, "", rank)
        case str() | int() | float() if is_field:
            marked.append((value.replace(_BACKSLASH, "\\") if isinstance(value, str) else str(value).lower()).strip())
            return f"\n{name} {rank}: \0{len(marked) - 1}\0\n"
    return ""


def _labelled(text: str, marked: list[str], scale: Scale) -> Iterator[Field]:
    """Yield the labelled lines; a confidence within a line counts only behind its answer."""
    labels: list[re.Match[str]] = []
    for label in _LABEL.finditer(text):
        is_behind = labels and labels[-1]["name"][0] in "AaGg" and label["name"][0] not in "AaGg"
        if label["inline"] is None or (is_behind and text.find("\n", labels[-1].end(), label.start()) < 0):
            labels.append(label)
    for label, following in zip(labels, [*labels[1:], None], strict=False):
        lines = next(_LINES.finditer(text, label.end(), following.start() if following else len(text)))
        content, next_line = lines[2], lines[3].strip()
        if _BARE_CONFIDENCE.fullmatch(next_line) or (_OTHER_LABEL.match(next_line) and not lines[1]):
            next_line = ""
        letter = label["name"][0].lower()
        measure = (label["second"] or (label["name"] if letter in "cpl" else "")).lower()
        if in_mark := re.fullmatch(r"\s*\0(\d+)\0", content):
            content, letter, next_line = marked[int(in_mark[1])], "", ""
        if not content.strip("*_` \t") or _PLACEHOLDER.search(content) or (measure and label["remark"]):
            continue
        letter = "g" if label["remark"] else letter  # one of several answers
        own_scale: Scale = "fraction" if label["fraction"] else scale
        if label["percent"] or "percent" in measure:
            own_scale = "percent"
        elif own_scale == "percent" and measure[:1] in ("p", "l"):
            own_scale = "probability"
        number = re.search(r"\d+", label["name"])
        rank = None if number is None else int(number[0])
        what = "both" if label["second"] else "confidence" if measure else "answer"
        yield Field(label.start(), lines.end(2), what, letter, content, own_scale, rank, next_line)


def _unlabelled(text: str, confidences: list[Field]) -> list[Field]:
    """Return the answers that have no label, and the confidence of a reply of two bare lines."""
    boxes = [
        Field(*box.span(), "answer", "box", box[1] or box[2] or "", following=_touching(text, *box.span()))
        for box in _BOX.finditer(text)
    ]
    if boxes := [box for box in boxes if not any(other.start <= box.start < other.end for other in confidences)]:
        return boxes
    before = text[: confidences[0].start if confidences else None].rstrip()
    first, _, rest = before.partition("\n")
    if not first or (rest if confidences else not _BARE_CONFIDENCE.fullmatch(rest)):
        return []
    answer, end = Field(0, len(first), "answer", "line", first), len(before)
    return [answer] if confidences else [answer, Field(end, end, "confidence", "line", rest, "probability")]


def _touching(text: str, start: int, end: int) -> str:
    """Return what a box in a text is only a part of."""
    parts = _BEFORE_BOX.search(text[max(start - 40, 0) : start]), _BEHIND_BOX.match(text, end)
    return "".join(part[0] for part in parts if part)
