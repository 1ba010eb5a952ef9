r"""The one number that a text states, by this grammar.

::

    text   = {side ("=" | "≈")} side     the last side counts, or else the fraction of which it is a rounding
    side   = words [sign] number {scale} words
    sign   = "-" | "+" | "minus" | "negative" | "plus" | "positive", with a currency before or after it
    number = decimal | [whole] decimal "/" decimal | decimal "e" exponent
    scale  = "hundred" | "thousand" | "million" | ...

Words are labels and units, which count for nothing. But words of a sign, a scale or a fraction in any language,
operators, and number words or variables beside the number can change its value: then there is none.
"""

import re
from fractions import Fraction
from itertools import islice

MAX_SIZE = 400
"""The largest decimal exponent, and number of characters, of a number: limits memory."""


def _any(words: str) -> str:
    """Return a pattern that finds any of these words; a star stands for any letters."""
    return rf"(?<![^\W\d_])(?:{'|'.join(words.split())})(?![^\W\d_])".replace("*", r"\w*")


_POWERS = {2: "hundred", 3: "thousand", 4: "万 萬", 5: "lakh", 6: "million mio mln", 7: "crore", 8: "億 亿"}
_POWERS |= {9: "billion bn bln milliard mrd mld", 12: "trillion"}
_SCALES = {word: power for power, words in _POWERS.items() for word in words.split()}
_SCALE = "[万萬億亿]|" + _any(" ".join(f"{word}s?" for word in _SCALES if word.isascii()))
_OTHER_SCALE = _any(
    "dozen* doz dz douzain* dutzend* docen* dozzin* dúzi* dozijn* tuzin* tucet* düzin* lusin* дюжин* hundre* hundert* "
    "honderd* hundra* centaine* ratus yüz сот* thousand* tausend* tsd duizend* tusen* tusin* mila mille milliers tysi* "
    "tys ribu nghìn ngàn тыс* lakh* lacs? crore* kharab million* milion* miljo* milyon* milhã* milhõ* millon* millón* "
    "mn mio mln juta triệu миллион* млн milliard* miljard* miliard* milyar* miliar* mrd mld bn bln tn trn billion* "
    "billon* billón* biljo* bilyon* bilhã* bilhõ* tỷ миллиард* млрд trillion* trilh* triljo* *illions? myriad*"
)
_SCALE_BESIDE = (  # only beside a number, as these are other words elsewhere, or not set apart by spaces
    "(?:[百千兆十拾割백천만억조]|ร้อย|พัน|หมื่น|แสน|ล้าน|हज|लाख|करोड|ألف|آلاف|مليون|مليار|هزار|میلی|"
    + _any("score gross grand bin mil crs?")
    + ")"
)
_NEGATIVE = re.compile(
    _any("negativ* négati* neg moins menos meno минус отриц* eksi") + "|[负負]|マイナス|零下", re.IGNORECASE
)
_DIGIT = _any(
    "zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety half halves thirds? fourths? fifths? "
    "sixths? sevenths? eighths? ninths? tenths? twelfths? *teenths? twentieths? demie? medi[oa] mezz[oa] mei[oa] "
    "*halbe?"
)
_IN_WORDS = rf"(?:one|{_DIGIT})(?:[ -](?:and )?(?:one|hundred|thousand|million|{_DIGIT})){{0,12}}"
_REPEATED = re.compile(rf"\({_IN_WORDS}\)|\b{_IN_WORDS} (?=\([^\w()]*\d)", re.IGNORECASE)  # as in "100 (one hundred)"

_TERM = r"(?:\d+(?:[.,]\d+)*|(?<![\d.])\.\d+)"
_WELL_FORMED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d*(?:\.\d+)?")
_NUMBER = re.compile(
    rf"(?:(?P<whole>\d+) (?=\d+ ?/ ?\d))?(?P<top>{_TERM})(?: ?/ ?(?P<bottom>{_TERM}))?"
    rf"(?:e(?P<exponent>[+-]?\d+))?(?P<scales>(?:[ -]*(?:{_SCALE}))*)",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?:-|\b(?:minus|negative)\b) ?¤? ?@", re.IGNORECASE)
_SIGN = r"(?:[-+]|\b(?:minus|negative|plus|positive)\b)"
_RELATION = re.compile(r"[<>≤≥≠≪≫≲≳⩽⩾≮≯]|!=")
_SEVERAL = re.compile(r"[;,]\s|\b(?:and|or)\b")  # if between two equals signs, there are two equations
_FORMULA = re.compile(
    r"[\\√∛∜π∞±∓∑∏∫]|\b(?:sqrt|log|ln|sin|cos|tan|exp|root of)\b"
    r"|\band (?:a|one) quarter\b|(?<![\d.,])[1-3][ -]quarters?\b|\.\d{0,20}([1-9])\1\.\.|\.#",  # 0.333..., 1.#IND
    re.IGNORECASE,
)
# What makes a number doubtful, which is @ here; before it, after it, anywhere.
_DOUBTFUL = re.compile(
    "|".join(
        (
            rf"(?:[*/^÷·_]|{_SIGN}) ?(?:\([^()@]*|{_SIGN} ?¤? ?)@|[*/^÷·_] ?¤? ?@",
            r"[\w)](?:[.,]?|[-+] ?¤? ?)@",
            r"(?<=[\w)])(?<!\bis)(?<!\bwas)(?<!\bare)(?<!\bby)(?<!\bto) (?:[-+]|minus|plus) ¤? ?@",
            r"(?<!\w)(?:-|minus\b) ?[^\W\d_]{1,4}\.? ?¤? ?@",  # a sign before the name of a currency
            r"^\(¤ ?@\)$",  # a loss, as accountants write it
            rf"(?:{_DIGIT}|{_any('one double twice triple point')})(?:[ -]| of | the | a ){{0,3}}@|\bminus {_DIGIT}",
            r"@ ?(?:[*^+÷·_]|/(?! ?[^\W\d_]{2})|-(?: ?[^\W\d_](?!\w)|\W*$)|pi(?!\w))|@[\u0300-\u036f]|@\w*半",
            r"@(?! ?(?-i:[mgshlLJNVWACFHΩ])(?!\w)| (?-i:[KTtd])\W*$"  # a variable: no unit, and no part of a word
            r"| ?(?-i:[^kKMBx-z])(?:(?: ?- ?|/|')[^\W\d_]{2}|\.[a-z]\b)| M&| (?-i:[ACDSUVacptu]) [^\W\d_]{2})"
            r" ?[A-Z\u0391-\u03a9](?!\w)",
            r"¤ ?[-+]? ?@ ?(?:mm?|[kbt])(?![^\W\d_])|@ ?(?:mm?|[kbt])¤",  # a short scale of money
            rf"@[ -]*(?:{_SCALE_BESIDE}|{_any('squared cubed factorial divided multiplied times.[b-z]')})",
            rf"@(?:[ °/-]*(?!{_any('the of in to for per from at by with on than each')})[^\W\d_]++){{0,2}}?[ ,-]*"
            rf"(?:(?:and |& |or |to |out of |point )?(?:an? )?{_DIGIT}|(?:and|or|to|point) one(?: \w+)?\W*$"
            r"|(?:minus|plus)\b)|\b(?:below|under)(?: zero| freezing|\W*$)",
            _OTHER_SCALE,
        )
    ),
    re.IGNORECASE,
)


def amount(text: str) -> Fraction | None:
    """Return the number that a text without Markdown and LaTeX states; None if there is none, or more than one."""
    if _RELATION.search(text):
        return None
    *sides, last = re.split("[=≈]", _REPEATED.sub("", text))
    value = _stated(last)
    if value is None or any(_SEVERAL.search(side) for side in sides[1:]):
        return None
    before = next((number for number in map(_stated, reversed(sides)) if number is not None), value)
    if before == value:
        return value
    places = _places(value)
    if places is not None and abs(before - value) < Fraction(1, 10**places):  # the last side is rounded
        return before if places and _places(before) is None else None
    return value if text.rfind("=") > text.rfind("≈") else None


def _places(value: Fraction) -> int | None:
    """Return the number of decimals, None if they do not end."""
    return next((n for n in range(value.denominator.bit_length()) if 10**n % value.denominator == 0), None)


def _stated(side: str) -> Fraction | None:
    """Return the number in one side of an equation."""
    numbers = list(islice(_NUMBER.finditer(side), 2))
    if len(numbers) != 1 or len(numbers[0].group()) > MAX_SIZE or _FORMULA.search(side):
        return None
    marked = _NUMBER.sub("@", side)
    negative = _MINUS.search(marked) is not None
    value = _value(numbers[0])
    if value is None or _DOUBTFUL.search(marked) or (not negative and _NEGATIVE.search(marked)):
        return None
    return -value if negative else value


def _value(match: re.Match[str]) -> Fraction | None:
    """Return the exact unsigned value of a match of ``_NUMBER``, None if it is malformed or too large."""
    whole, bottom, exponent = match["whole"], match["bottom"], match["exponent"] or "0"
    terms = (match["top"], bottom or "1")
    if not all(_WELL_FORMED.fullmatch(term) for term in terms) or (bottom and match["exponent"]):
        return None
    top, divisor = (Fraction(term.replace(",", "")) for term in terms)
    if divisor == 0 or (whole and top >= divisor) or abs(int(exponent)) > MAX_SIZE:
        return None
    scales = re.findall(_SCALE, match["scales"].lower())
    power = int(exponent) + sum(_SCALES[scale.removesuffix("s")] for scale in scales)
    return (int(whole or 0) + top / divisor) * Fraction(10) ** power
