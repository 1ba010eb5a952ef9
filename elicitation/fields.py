"""What of a model's text is its reply, and the fields of it that name an answer or a confidence.

The frame of a reply is removed: reasoning, marks of chats and channels, later turns. Fields are lines, tags, members of
JSON objects and boxes.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

Scale = Literal["percent", "fraction", "probability", "unknown"]
"""What a confidence without a unit is; a probability is a fraction if it has a decimal point, else a percentage."""


class Field(NamedTuple):
    """A field of a reply, at its place in it."""

    start: int
    end: int
    what: Literal["answer", "confidence", "both"]
    word: str  # the label's own; empty for an answer whose end is marked, as by a tag
    text: str
    scale: Scale = "percent"  # of a confidence without a unit
    rank: int | None = None  # the number of a guess
    more: str = ""  # the next line, if it is no field


_CUT_OFF = re.compile(
    r"length|max|limit|incomplete|partial|unfinished|filter|safety|block|prohibit|recitation|spii|guardrail|refus"
    r"|abort|cancel|interrupt|error|fail|malformed|timeout|time_out|context|exceed|insufficient|truncat|repetition",
    re.IGNORECASE,
)
_WHOLE = re.compile(r"stop|eos|end|complete|finish|success|succeed|done|tool|function|word", re.IGNORECASE)

_CHARACTERS = (
    {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full-width forms
    | dict.fromkeys((0x00AD, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2060, 0xFEFF))  # invisible: removed
    | {0x066A: "%", 0xFE6A: "%", 0x2236: ":", 0x0D: "\n", 0x2028: "\n", 0x0085: "\n"}
    | {0x066B: ".", 0x066C: ","}  # the Arabic decimal and thousands separators
)
_REASON = (
    r"(?:seed:|ant|longcat_)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|scratch_?pad|reflection"
    r"|(?:inner_?)?(?:monologue|thoughts?))"
)
_REASONING = re.compile(
    rf"""
    (?P<reply>
        <\|channel\|>\s*final\b[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|> | assistantfinal
        | <\|(?:start_(?:text|response)|begin_of_solution|content)\|> | \[BEGIN[ ]FINAL[ ]RESPONSE\]
    )
    | (?P<spoken>here(?:'s|[ ]is)[ ]my[ ]response:)
    | (?P<end> </{_REASON}\s*> | \[/(?-i:THINK)\] | ◁/think▷ | <\|(?:end_(?:of_)?|/){_REASON}\|> | <channel\|>)
    | <{_REASON}(?:\s[^<>]*)?> | \[(?-i:THINK)\] | ◁think▷ | <\|(?:(?:begin|start)_(?:of_)?)?{_REASON}\|>
    | <\|channel\|?>\s*(?:analysis|commentary|thought)\w* | assistant(?:analysis|commentary) | \Aanalysis(?=(?-i:[A-Z]))
    | \A\s*here(?:'s|[ ]is|[ ]are)[ ]my[ ](?:thought[ ]process|reasoning[ ]steps):
    """,
    re.VERBOSE | re.IGNORECASE,
)
_TURN = re.compile(
    r"<\|[^<>|\n]{1,40}\|>|</?s>|<(?:bos|eos|pad|start_of_turn|end_of_turn)>|<\|turn>|<turn\|>|\[/?INST\]",
    re.IGNORECASE,
)
PLACEHOLDER = re.compile(
    r"[<\[{(]\s*(?:(?:your|the|a|only|insert)\s+)*(?:number|answer|confidence|probability|final|level|value)\b"
    r"[^<>\[\]{}()\d]*[>\]})]",
    re.IGNORECASE,
)
_QUESTION = r"(?:(?:next|new)[^\S\n]+)?(?:question|problem|exercise|user|human|instructions?|q)\b[ *_]*\d*[ *_]*:"
_NEXT_QUESTION = re.compile(rf"^[^\w\n]*{_QUESTION}", re.IGNORECASE | re.MULTILINE)
_SET_OFF_QUESTION = re.compile(rf"\n[^\S\n]*\n[^\S\n]*{_QUESTION}", re.IGNORECASE)
_FIRST_WORD = re.compile(r"(?:\A|\n)[^\w\n]*\w")
_ROLE = re.compile(r"\A\s*(?:assistant|model)[^\S\n]*(?:\n|\Z)")

_MAX_LINES = 12  # over which a field may be broken
_MAX_BROKEN = 100  # objects that are no JSON, after which no more are looked for
_TAKEN = "\0"  # stands for text that is a field
_BACKSLASH = "\ue000"  # stands for one that is no escape in JSON

_S = r"[^\S\n]"  # a space
_D = rf"(?:{_S}|[*_`\"'])*+"  # decoration
_M = r"(?:[^\w\n]|_)*+"  # marks at the beginning of a line
_MEASURE = (
    rf"(?:confidence|certainty|probability|likelihood)(?:{_S}*\#?\d{{1,3}})?+"
    rf"(?:{_S}+(?:level|score|rating|value|estimate|percent(?:age)?|in|of|that|my|this|the|answer|guess|is|correct))*+"
)
_LABEL = re.compile(
    rf"""
    (?:
      ^ (?:(?P<heading>{_S}*\#{{1,6}}{_D}) | {_M}) (?:(?:step{_S}*)?\d{{1,3}}{_S}*[.):]{_M})?
      | (?P<inline>[,;.!?(|\[]{_D} | {_S}[-\u2013\u2014]{_D} | (?<![\s*_`"'])(?<!\bof){_S}{_D})
    )
    (?:(?:so|thus|hence|therefore|and|with|my|the|your|best|correct|corrected|overall|stated|final),?{_S}+){{0,4}}
    (?:
      (?P<answer>answer|guess|G(?=\d)) (?:{_S}*\#?(?P<rank>\d{{1,3}}))?+ (?:{_D}[(\[][^()\[\]\n]{{0,40}}[)\]])?+
      | (?P<measure>{_MEASURE}|P\d{{1,3}}) (?:{_D}\((?P<range>[^()\n]{{0,30}})\))?+
    )
    (?: {_D}(?:is{_D})?[:=] | {_S}*(?:\*\*|__){_S}*$ | (?(heading){_D}$|(?!)) | (?<=\d){_D}[.)]
      | (?<=final[ ]answer){_S}+is\b(?!{_S}+not\b) )
    | \b(?P<both>answer|guess){_D}(?:and|&|/|\+){_D}(?P<second>{_MEASURE}){_D}
      (?: \((?P<bounds>{_S}*0[^()\n]{{0,30}})\){_D}[:=]? | [:=] )
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_SAYS_SCALE = re.compile(
    r"(?:[\s\d,.:;=%\u2013-]|\b(?:to|in|how|on|an?|the|scale|of|from|out|between|and|percent(?:age)?|is|as|where|being"
    r"|fully|completely|certain(?:ty)?|sure|confident|correct|right|probability|that|my|this|answer|it|i|am)\b)*",
    re.IGNORECASE,
)
OTHER_LABEL = re.compile(rf"{_M}(?:\d{{1,3}}[.)]{_M})?[^\W\d][\w ]{{1,30}}{_D}:")
_ITEM = re.compile(rf"^{_M}(?P<rank>\d{{1,3}}){_D}[.)](?!\d)(?={_D}\S)", re.MULTILINE)
_TAG = re.compile(r"<(?P<tag>[A-Za-z][\w-]{0,20})>(?P<text>[^<]*)</(?P=tag)>")
_OBJECT = re.compile(r'\{\s*"[^"\n]{1,40}"\s*:')
_ESCAPE = re.compile(r'\\(?:["\\/]|u[0-9a-fA-F]{4}|[nrt](?![a-zA-Z]{1,20}\{))|\\')
_LATEX = re.compile(r"\\[()\[\]]|(?<!\\)\\++(?=[%$#])|^[^\S\n]*(?:```|~~~)\w*", re.MULTILINE)  # and fences
_BRACKETED = re.compile(r"^\[\[ ## (\w+) ## \]\]", re.MULTILINE)  # fields of DSPy
# What the model does not say itself: comments and quoted lines; quotations, if there is a label or a box in them.
_COMMENT = re.compile(r"""<!--(?:(?!-->)[\s\S])*+(?:-->)?|^(?:[^\S\n]|["'\u201c\u2018\u00ab])*+>.*""", re.MULTILINE)
_QUOTATION = re.compile(
    "|".join(
        rf"(?<![\w.]){left}(?=\S)[^{left}{right}]{{1,600}}(?<=\S){right}(?!\w)"
        for left, right in ('""', "\u201c\u201d", "\u00ab\u00bb", "''", "\u2018\u2019")
    )
)
_BOX = re.compile(r"\\f?boxed\s*\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}")
_LAST_LINE = re.compile(rf"^####{_S}*([^\n]*\w[^\n]*)\Z", re.MULTILINE)
_BARE_CONFIDENCE = re.compile(r"\W*(?:\d{1,3}(?:\.\d+)?\s*%|[01]?\.\d+)\W*")


def is_cut_off(finish_reason: str | None) -> bool:
    """Tell whether a model was stopped before the end of its reply, by any server's name for it.

    Examples
    --------
    >>> [is_cut_off(reason) for reason in ("length", "MAX_TOKENS", "incomplete", "stop", None)]
    [True, True, True, False, False]
    """
    return finish_reason is not None and _CUT_OFF.search(finish_reason) is not None


def is_unknown(finish_reason: str | None) -> bool:
    """Tell whether a finish reason is none of those that servers are known to give; such a reply counts as whole."""
    return bool(finish_reason) and not is_cut_off(finish_reason) and not _WHOLE.search(finish_reason or "")


def plain_characters(text: str) -> str:
    """Return a text with plain characters in place of full-width and invisible ones."""
    return text.translate(_CHARACTERS)


def reply_of(text: str, finish_reason: str | None = None) -> str | None:
    """Return the reply in a text, in plain characters; None if it was cut off, or ends in reasoning.

    Reasoning that is opened and closed is left out, as is all before a mark that closes reasoning which the prompt
    opened, or that begins the reply. Of several turns the first counts.

    Examples
    --------
    >>> reply_of("<think>7?</think>Answer: 8<|im_end|>"), reply_of("<think>Answer: 7")
    ('Answer: 8', None)
    """
    if is_cut_off(finish_reason):
        return None
    text = plain_characters(text).replace("<|begin_of_box|>", r"\boxed{").replace("<|end_of_box|>", "}")
    kept: list[str] = []
    depth = place = 0
    for mark in _REASONING.finditer(text):
        if mark["reply"] or (mark["end"] and not depth):
            kept, depth = [], 0
        elif mark["spoken"] and not depth:
            continue
        elif mark["end"] or mark["spoken"]:
            depth -= 1
        elif not depth:
            kept.append(text[place : mark.start()])
            depth = 1
        elif text[place : mark.start()].strip():  # a mark is often written twice
            depth += 1
        place = mark.end()
    if depth:
        return None
    turns = (_ROLE.sub("", turn) for turn in _TURN.split("\n".join([*kept, text[place:]])))
    return next((turn.strip() for turn in turns if re.search(r"\w", turn)), "")


def next_question(reply: str, stated: int) -> int | None:
    """Return where the model asks itself the next question, None if it does not.

    That is behind the first answer, which ends at ``stated``. It may come before, if it is set off by a blank line from
    words that are not a form copied from the prompt.
    """
    copied = max((form.end() for form in PLACEHOLDER.finditer(reply, 0, stated)), default=0)
    said = _FIRST_WORD.search(reply, copied)
    early = None if said is None else _SET_OFF_QUESTION.search(reply, said.end(), stated)
    question = early or _NEXT_QUESTION.search(reply, stated)
    return None if question is None else question.start()


def find_answers(reply: str, scale: Scale = "percent") -> list[tuple[Field, list[Field]]]:
    """Return the answers of a reply in order, each with its confidences, up to the next question that the model asks.

    If no label names an answer, one without a label is looked for: a box, a last line with ``####``, or one line alone
    before its confidence. Confidences follow their answer; one may also stand right before the first answer.
    ``Probability`` is a word of mathematics too: it counts only right after its answer, or under the same number.
    ``scale`` is that of a confidence whose label does not say.
    """
    found: list[Field] = []
    text = _take_objects(_COMMENT.sub(_hidden, reply), scale, found)
    text = _BRACKETED.sub(_heading, _QUOTATION.sub(_hidden, _take_tags(text, scale, found)))
    text = _LATEX.sub(lambda match: " " * len(match[0]), text)
    found = sorted([*found, *_lines(text, scale)], key=lambda field: field.start)
    if (end := next_question(text, found[0].end if found else len(text))) is not None:
        text, found = text[:end], [field for field in found if field.start < end]
    if all(field.what == "confidence" for field in found):
        found = sorted([*_unlabelled(text, found), *found], key=lambda field: field.start)
    answers: list[tuple[Field, list[Field]]] = []
    ranked: dict[int | None, list[Field]] = {}
    early: list[Field] = []
    place = 0
    for field in found:
        near = not re.search(r"\w", text[place : field.start])
        mathematics = not field.word.startswith("c")
        place = field.end
        if field.what != "confidence":
            answers.append((field, early if near else []))
            ranked[field.rank] = answers[-1][1]
            early = []
        elif field.rank is not None:
            ranked.get(field.rank, []).append(field)
        elif not answers:
            early = [] if mathematics else [field]
        elif near or not mathematics:
            answers[-1][1].append(field)
    return answers


def find_items(reply: str, scale: Scale) -> list[Field]:
    """Return the numbered lines of a reply, as answers and confidences in one."""
    return [
        Field(item.start(), end, "both", "item", text, scale, int(item["rank"]))
        for item, text, end, _ in _contents(reply, list(_ITEM.finditer(reply)))
    ]


def _hidden(said: re.Match[str]) -> str:
    """Return spaces for a comment or a quoted line, and for a quotation with a label or a box in it."""
    is_said = said.re is _QUOTATION and not any(found.search(said[0][1:-1]) for found in (_LABEL, _BOX))
    return said[0] if is_said else re.sub(r"[^\n]", " ", said[0])


def _heading(field: re.Match[str]) -> str:
    return f"## {field[1].replace('_', ' ')}".ljust(len(field[0]))


def _take_objects(reply: str, scale: Scale, found: list[Field]) -> str:
    """Find the members of JSON objects, and return the reply without these objects; one cut off ends the reply."""
    text = _ESCAPE.sub(lambda escape: escape[0] if len(escape[0]) > 1 else _BACKSLASH, reply)
    decoder = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, object_pairs_hook=_unique)
    pieces, kept, place, broken = [], 0, 0, 0
    while broken < _MAX_BROKEN and (brace := _OBJECT.search(text, place)) is not None:
        start, members, cut_off = brace.start(), [], False
        try:
            value, place = decoder.raw_decode(text, start)
            members = sorted(_members(value, None), key=lambda member: member[0]["measure"] is not None)
        except RecursionError:
            place, cut_off = len(text), True
        except json.JSONDecodeError as error:
            broken += 1
            cut_off = error.msg.startswith("Unterminated") or not text[error.pos :].strip()
            place = len(text) if cut_off else max(error.pos, brace.end())
        if members or cut_off:
            pieces += [text[kept:start], _TAKEN * (place - start)]
            kept = place
        found += [
            _field(label, start, place, member.replace(_BACKSLASH, "\\"), scale, marked=True)._replace(rank=rank)
            for label, rank, member in members
        ]
    return "".join([*pieces, text[kept:]]).replace(_BACKSLASH, "\\")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object whose members of the same name are missing."""
    count = Counter(name.lower() for name, _ in pairs)
    return {name: item if count[name.lower()] == 1 else None for name, item in pairs}


def _alone(item: object) -> object:
    """Return the value of a list of one, or of an object with one member or a ``value``."""
    if isinstance(item, dict) and item:
        item = [item["value"]] if "value" in item else [*item.values()]
    return item[0] if isinstance(item, list) and len(item) == 1 and not isinstance(item[0], list | dict) else item


def _members(value: object, rank: int | None) -> Iterator[tuple[re.Match[str], int | None, str]]:
    """Yield the labelled members of an object and of objects in it, with the number of a guess."""
    items = enumerate(value, 1) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    for key, item in items:
        label = None if isinstance(key, int) else _key(key)
        number = key if isinstance(key, int) else rank or (None if label is None else _rank(label))
        if label is not None and not (isinstance(item, dict) and any(map(_key, item))):
            item = _alone(item)
        elif key == "arguments" and isinstance(item, str):
            with suppress(json.JSONDecodeError, RecursionError):
                item = json.loads(item, parse_float=str, parse_int=str, object_pairs_hook=_unique)
        if isinstance(item, list | dict):
            yield from _members(item, number)
        elif label is not None and item is not None and PLACEHOLDER.sub("", str(item)).strip():
            yield label, number, item if isinstance(item, str) else str(item).lower()


def _take_tags(text: str, scale: Scale, found: list[Field]) -> str:
    """Find labelled tags, and return the text without them, and without other tags around words."""

    def take(tag: re.Match[str]) -> str:
        label = _key(tag["tag"])
        if label is None or _LABEL.search(tag["text"]) or not PLACEHOLDER.sub("", tag["text"]).strip():
            return f"{' ' * (len(tag['tag']) + 2)}{tag['text']}{' ' * (len(tag['tag']) + 3)}"
        found.append(_field(label, tag.start(), tag.end(), tag["text"].strip(), scale, marked=True))
        return _TAKEN * len(tag[0])

    return _TAG.sub(take, text)


def _lines(text: str, scale: Scale) -> list[Field]:
    """Return the labelled lines; a confidence within a line counts only behind its answer."""
    labels: list[re.Match[str]] = []
    stop = text.find("\n", len(text) - len(text.lstrip()))  # the end of the line that may hold a confidence
    for label in _LABEL.finditer(text):
        inline, measure = label["inline"], label["measure"]
        mathematics = measure and measure[0] in "PpLl" and label[0].endswith("=")
        if (
            mathematics
            or len(re.findall("[\"']", label[0])) % 2
            or (inline and (0 <= stop < label.start() if measure else not inline.strip()))
        ):
            continue
        labels.append(label)
        if not measure and 0 <= stop < label.end():
            stop = text.find("\n", label.end())
    return [
        _field(label, label.start(), end, content, scale)._replace(more=more)
        for label, content, end, more in _contents(text, labels)
    ]


def _contents(text: str, labels: list[re.Match[str]]) -> Iterator[tuple[re.Match[str], str, int, str]]:
    """Yield each label, the rest of its line or, if that is empty, the next line (after a comma both), and its end.

    Behind these comes a further line that follows at once and is no field.
    """
    for label, following in zip(labels, [*labels[1:], None], strict=False):
        rest = text[label.end() : following.start() if following else None].split(_TAKEN)[0]
        content, *lines = rest.split("\n")
        end = place = label.end() + len(content)
        more = ""
        for line in lines[:_MAX_LINES]:
            is_label = OTHER_LABEL.match(line) is not None
            if is_label or (re.search(r"\w", content) and not content.rstrip().endswith(",")):
                more = "" if is_label or not re.search(r"\w", line) else line.strip()
                break
            place += 1 + len(line)
            if line.strip():
                content, end = f"{content} {line}", place
        if re.search(r"\w", PLACEHOLDER.sub("", content)):
            yield label, content, end, more


def _unlabelled(text: str, confidences: list[Field]) -> list[Field]:
    """Return the answers that have no label, and the confidence of a reply of two bare lines."""
    boxes = [Field(box.start(), box.end(), "answer", "box", box[1]) for box in _BOX.finditer(text)]
    if boxes := [box for box in boxes if not any(other.start <= box.start < other.end for other in confidences)]:
        return boxes
    before = text[: confidences[0].start if confidences else None].rstrip(f" \n{_TAKEN}")
    start, end = len(before) - len(before.lstrip()), len(before)
    if last := _LAST_LINE.search(before):
        return [Field(last.start(), end, "answer", "####", last[1])]
    first, _, rest = before[start:].partition("\n")
    answer = Field(start, start + len(first), "answer", "line", first)
    if first and confidences and not rest:
        return [answer]
    if first and not confidences and _BARE_CONFIDENCE.fullmatch(rest):
        return [answer, Field(end - len(rest), end, "confidence", "line", rest, "probability")]
    return []


def _key(name: str) -> re.Match[str] | None:
    """Return the label that a tag or a member is, None if it is none."""
    return _LABEL.fullmatch(f"{re.sub('[_-]', ' ', name)}:")


def _field(label: re.Match[str], start: int, end: int, text: str, scale: Scale, *, marked: bool = False) -> Field:
    measure = label["measure"] or label["second"] or ""
    if stated := label["range"] or label["bounds"]:
        if not _SAYS_SCALE.fullmatch(stated):
            scale = "unknown"
        elif re.search(r"%|percent|100", stated):
            scale = "percent"
        elif re.search(r"\d", stated):
            scale = "fraction" if re.fullmatch(r"\s*0(\.0)?\s*(-|\u2013|to)\s*1(\.0)?\s*", stated) else "unknown"
    elif "percent" in measure:
        scale = "percent"
    elif scale == "percent" and measure[:1].lower() in ("p", "l"):
        scale = "probability"
    word = "is" if label[0].endswith("is") else label["answer"] or label["both"] or measure
    if marked and label["answer"]:
        word = ""
    what: Literal["answer", "both", "confidence"] = (
        "answer" if label["answer"] else "both" if label["both"] else "confidence"
    )
    return Field(start, end, what, word.lower(), text, scale, _rank(label))


def _rank(label: re.Match[str]) -> int | None:
    number = re.search(r"\d+", label["rank"] or label["measure"] or "")
    return None if number is None else int(number[0])
