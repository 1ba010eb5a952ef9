"""The fields of a reply that state an answer or a confidence: labelled lines, members of JSON objects, tags and boxes.

The form of a prompt, copied, is no field.
"""

import json
import re
from bisect import bisect
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
    is_final: bool = False  # marked as the final answer


class Answer(NamedTuple):
    """A field with an answer, and the fields with its confidence."""

    field: Field
    stated: list[Field]


_PLACEHOLDER = re.compile(
    r"(?i)[<\[{(]\s*(?:(?:your|the|a|only|insert)\s+)*(?:number|answer|confidence|probability|final|level|value)\b"
    r"[^<>\[\]{}()\d]*[>\]})]"
)
# What others say: comments, quoted lines, and quotations in which a label or a box stands.
_COMMENT = re.compile(r"(?m)<!--(?:(?!-->)[\s\S])*+(?:-->)?|^[^\S\n]*[\"'\u201c\u2018\u00ab]*>.*")
_QUOTATION = re.compile(
    r"(?<!\w)(?:([\"'])(?=\S)(?:(?!\1)[\s\S]){1,600}\1|\u201c[^\u201c\u201d]{1,600}\u201d|\u00ab[^\u00ab\u00bb]{1,600}\u00bb)(?!\w)"
)
_OBJECT = re.compile(r'(?:\[\s*)?\{\s*"[^"\n]{1,40}"\s*:')
_DECODER = json.JSONDecoder(  # a name twice leaves nothing
    strict=False,
    parse_float=str,
    parse_int=str,
    object_pairs_hook=lambda pairs: dict(pairs) if len({name.lower() for name, _ in pairs}) == len(pairs) else None,
)
_AROUND = ("arguments", "function", "guesses", "input", "output", "parameters", "response", "result")  # of an object
_ESCAPE = re.compile(r'\\(?:["\\/]|u[0-9a-fA-F]{4}|[nrt](?![a-zA-Z]{1,20}\{))|\\')
_BACKSLASH = "\ue000"  # stands for one that is no escape in JSON
_TAG = re.compile(  # and the keys and values, or parameters, of a tool that is called
    r"<(?:arg_key>\s*(?P<key>[\w-]{1,20})\s*</arg_key>\s*<arg_value|parameter(?:=| name=)\"?(?P<parameter>[\w-]{1,20})"
    r"\"?|(?P<name>[A-Za-z][\w-]{0,20}))>(?P<text>[^<]*)</(?(key)arg_value|(?(parameter)parameter|(?P=name)))>"
)
_MINUS = re.compile(r"(\\[(\[][^\S\n]*-)[^\S\n]+")  # in a formula, where spaces mean nothing
_LATEX = re.compile(r"(?m)\\[()\[\]]|(?<!\\)\\++(?=[%$#])|^[^\S\n]*(?:```|~~~)\w*")  # and fences
_WORD = re.compile(r"[\w/-]++(?!>)")  # outside of tags
_BOX = re.compile(r"(?m)\\f?boxed\s*\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}|^####\s*(-?\$?\d[\d.,]*)$")
# A box that is a part of more: what ends so before it, or begins so behind it.
_BEFORE_BOX = re.compile(
    r"(?:-(?! )|\S *(?:[-+/\u2212\u00d7^<\u2260]|(?<![=-])>|(?<!\*)\*(?!\*))|\d|\\(?:times|cdot|neq?)|\bnot|n't)[ $]*\Z"
)
_BEHIND_BOX = re.compile(r"[ $*_`)\]}%]*+(?!-(?! ?\d)|[.,:](?!\d)|[;!?(|\u2013\u2014]).{1,40}")
_BARE_CONFIDENCE = re.compile(r"\s*(?:\d{1,3}(?:\.\d+)?\s*%|[01]?\.\d+)\s*")
_NO_ANSWER = re.compile(r"(?i)\b(?:not|answer)\b|^[\w ]+:|^#")  # what no bare line is
_S, _D = r"[^\S\n]", r"(?:[^\S\n]|[*_`])*+"  # a space; decoration
_M = r"""(?:[^\w\n<>|"'{\0\u2018-\u201f\u00ab\u00bb]|_)*+"""  # marks at the beginning of a line
_MEASURE = (
    rf"(?:confidence|certainty|probability|likelihood)(?:{_S}*\#?\d{{1,3}})?+"
    rf"(?:{_S}+(?:level|score|rating|value|estimate|percent(?:age)?|in|of|that|my|this|the|answer|guess|is|correct))*+"
)
_LABEL = re.compile(  # a heading, a bold line, and "[[ ## answer ## ]]" of DSPy need no colon
    rf"""(?mix)
    (?: ^(?:(?P<heading>\#{{1,6}}{_D})|{_M}(?:\d{{1,3}}{_S}*[.):]{_M})?)
      | (?P<inline>[,;.(\[|/*\u2013\u2014-][ *_`]{{0,4}}+) )
    (?:(?:so|my|the|your|best|overall|stated|(?P<final>final|correct(?:ed)?|new|revised|updated|refined)),?(?:{_S}|_)+){{0,3}}
    (?P<name> (?:answer|guess|(?-i:G)(?=\d)) (?:{_S}*\#?\d{{1,3}})?+ | {_MEASURE} | (?-i:P)\d{{1,3}} )
    (?: {_D}(?:and|&|/|\+){_D}(?P<second>{_MEASURE}) )?
    (?: {_D}[(\[] (?:
        (?P<percent>0\s*(?:-|\u2013|to)\s*100\s*%?|(?:in{_S}+|as{_S}+an?{_S}+)?(?:%|percent(?:age)?))
        | (?P<fraction>0(?:\.0)?\s*(?:-|\u2013|to)\s*1(?:\.0)?) | (?P<remark>[^()\[\]\n]{{0,40}}) ) [)\]] )?+
    (?: {_D}(?:is{_D})?: | {_S}*\*\*{_S}*$ | {_S}*\#\#{_S}*\]\] | (?(heading){_D}$|(?!)) )
    """
)
_LINES = re.compile(rf"((?:{_D}\n){{0,12}})(.*)\n?(.*)")  # behind a label: blank ones, its content, and the next
# The mark of a list, or a dash, before a value; no minus, which touches its number, or has an operator behind it.
_MARK = re.compile(
    rf"(?:{_D}(?:[\u2014\u2015]+{_S}*|[-\u2022\u25aa\u2010-\u2015\u2043]{_S}+)|{_S}*\*{_S}+)(?=\S)(?![a-z]\W*[-+/^=])"
)
_OTHER_LABEL = re.compile(rf"{_M}(?:\d{{1,3}}[.)]{_M})?[^\W\d][\w ]{{1,30}}{_D}[:=]")
# Words for what is not the final answer, and a line that begins with one: a label, a tag or a heading.
_STAGE = r"(?:draft|first|initial|tentative|preliminary|rough|candidate|hypothes[ie]s|guess|attempt|step)\b"
_ELSE = (
    r"(?:option|alternative|other|another|second(?:ary)?|third|possib\w+|part|example|case|scenario|fallback|wrong|common"
    r"|typical|naive|less|least|unlikely|runner|if)\b"
)
DRAFT = re.compile(
    rf"(?mi)^[^\w\n]{{0,9}}+(?:\d{{1,2}}[.)]{_S}*)?(?:(?:an?|the|my|one){_S})?"
    rf"(?:{_STAGE}|(?P<other>{_ELSE}))(?:[ _-]?[\w()#]++){{0,4}}+[*`]*(?:[:>]|$)"
)
_OF_DRAFT = re.compile(rf"(?i)\b(?:{_STAGE}|{_ELSE})|\A{_OTHER_LABEL.pattern}.*\w|\A\W*+(?:\w++\W*+){{0,2}}\Z")


def find_answers(reply: str, scale: Scale = "percent") -> tuple[list[Answer], str]:
    """Return the answers of a reply, each with its confidences, and the text in which they have their places.

    Confidences stand behind their answer, or before the only one. If no label names an answer, boxes do, or a line
    alone before its confidence. The text ends before a question that the model asks itself. ``scale`` is that of a
    confidence whose label does not say.
    """
    marked: list[str] = []

    def take(tag: re.Match[str]) -> str:
        if _LABEL.search(tag["text"]):  # a draft, or the whole reply
            return "" if _WORD.search(tag.string, tag.end()) else tag[0]
        return _as_lines(tag["text"], marked, tag["name"] or tag["key"] or tag["parameter"]) or tag[0]

    text = _TAG.sub(take, _without_objects(_COMMENT.sub("", reply), marked))
    text = _QUOTATION.sub(lambda said: "" if _LABEL.search(said[0][1:-1]) or _BOX.search(said[0]) else said[0], text)
    text = _LATEX.sub("", _MINUS.sub(r"\1", text))
    fields = [*_labelled(text, marked, scale)]
    text = text[: next_question(text, next((field.end for field in fields if field.what != "confidence"), len(text)))]
    fields = [field for field in fields if field.end <= len(text)]
    if all(field.what == "confidence" for field in fields):
        fields = sorted([*_unlabelled(text, fields), *fields])
    drafts = [draft.start() for draft in DRAFT.finditer(text)]
    answers: list[Answer] = []
    for field in fields:
        if field.what != "confidence":
            answers.append(Answer(field, []))
        elif answers and field.rank in (None, answers[-1].field.rank):
            is_own = bisect(drafts, answers[-1].field.end) == bisect(drafts, field.start - 1)
            answers[-1].stated.extend([field] * is_own)
    if len(answers) == 1 and not answers[0].stated:
        before = [field for field in fields if field.end <= answers[0].field.start][-3:]
        answers[0].stated.extend(field for field in before if _is_of(text, field, answers[0].field))
    return answers, text


def _is_of(text: str, confidence: Field, answer: Field) -> bool:
    """Tell whether a confidence before an answer is its own: the first of the reply, or right below a sentence."""
    above, between = text[: confidence.start].strip().rpartition("\n")[2], text[confidence.end : answer.start]
    if not above:
        return DRAFT.search(between) is None
    is_of_draft = DRAFT.match(above) or (confidence.label and _OF_DRAFT.search(above))
    return not is_of_draft and not re.search(r"\w", between)


def _without_objects(reply: str, marked: list[str]) -> str:
    """Put labelled lines in place of an object with fields, not of several in a row; a broken one ends the reply."""
    text = _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else _BACKSLASH, reply)
    pieces, position, is_listed = [""], 0, False
    while (brace := _OBJECT.search(text, position)) is not None:
        between, start, value, position = text[position : brace.start()], brace.start(), None, len(text)
        with suppress(ValueError, RecursionError):
            value, position = _DECODER.raw_decode(text, start)
        lines = _as_lines(value, marked)
        if is_listed and lines and not re.search(r"\w", between):
            pieces[-1], lines = "", " "
        is_listed = bool(lines)
        pieces += [between, lines or ("" if value is None else text[start:position].replace("\n", " "))]
    return "".join([*pieces, text[position:]]).replace(_BACKSLASH, "\\")


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
            n_answers = len(re.findall(r"(?mi)^[a-z ]*(?:answer|guess) *: ", direct))
            if n_answers > 1:
                return ""
            draft = [line for key in members if DRAFT.match(line := f"{key}:\n".replace("_", " "))]
            direct = f"\n{draft[0]}{direct}" if draft and direct and not n_answers else direct
            inner = [members[key] for key in _AROUND if key in members]
            nested = [] if direct or name else [lines for item in inner if (lines := _as_lines(item, marked, "", rank))]
            return nested[0] if len(nested) == 1 else direct
        case str() if not name and value.startswith("{"):  # arguments of a tool
            with suppress(ValueError, RecursionError):
                return _as_lines(_DECODER.decode(value), marked, "", rank)
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
        content = _MARK.sub("", content, 1) if _MARK.match(content) else content
        if not content.strip("*_` \t") or _PLACEHOLDER.search(content) or (measure and label["remark"]):
            continue
        letter = "g" if label["remark"] else letter  # one of several answers
        own_scale: Scale = "fraction" if label["fraction"] else scale
        if label["percent"] or "percent" in measure:
            own_scale = "percent"
        elif own_scale == "percent" and measure[:1] in ("p", "l"):
            own_scale = "probability"
        rank = int(number[0]) if (number := re.search(r"\d+", label["name"])) else None
        what = "both" if label["second"] else "confidence" if measure else "answer"
        is_final = letter != "g" and (what == "both" or label["final"] is not None)
        yield Field(label.start(), lines.end(2), what, letter, content, own_scale, rank, next_line, is_final)


def _unlabelled(text: str, confidences: list[Field]) -> list[Field]:
    """Return the answers that have no label, and the confidence of a reply of two bare lines."""
    boxes = []
    for box in _BOX.finditer(text):
        around = _BEFORE_BOX.search(text[max(box.start() - 40, 0) : box.start()]), _BEHIND_BOX.match(text, box.end())
        touching = "".join(part[0] for part in around if part)  # what the box is only a part of
        if not any(other.start <= box.start() < other.end for other in confidences):
            boxes.append(Field(*box.span(), "answer", "box", box[1] or box[2] or "", following=touching))
    before = text[: confidences[0].start if confidences else None].rstrip()
    first, _, rest = before.partition("\n")
    is_alone = not rest if confidences else _BARE_CONFIDENCE.fullmatch(rest)
    if boxes or not is_alone or not first or _NO_ANSWER.search(first):
        return boxes
    answer, end = Field(0, len(first), "answer", "line", first), len(before)
    return [answer] if confidences else [answer, Field(end, end, "confidence", "line", rest, "probability")]
