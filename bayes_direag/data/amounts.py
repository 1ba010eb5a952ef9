r"""The number that a text is, by this grammar; any other text is none.

::

    text     = {formula "="} amount ["."]        formulas that are numbers equal the amount
    amount   = [sign] [currency] [sign] number {scale} [("/" | "per") units] [per]
             | [sign] number {scale} [units | currency | things] [per]
    number   = decimal | [whole] decimal "/" decimal | [decimal "*"] "10^" whole | decimal "e" whole
    units    = unit {["/" | "per" | "*"] unit}, each with a power or after "square" or "cubic"

    things   = plural ["of" word]
    per      = "per" word

Units are those of the tables below. A plural is an English one, as in "5 eggs", "5 t-shirts" and "5 cups of flour".
"""

import re
from fractions import Fraction

MAX_SIZE = 400
"""The largest decimal exponent, and number of characters, of a number: limits memory."""

_SCALES = {
    "hundred": 2, "thousand": 3, "万": 4, "萬": 4, "lakh": 5, "million": 6, "mio": 6, "mln": 6, "crore": 7, "億": 8,
    "亿": 8, "billion": 9, "bn": 9, "trillion": 12,
}  # fmt: skip
_SYMBOLS = (  # no s right behind digits, as in 1900s
    "% ‰ ° °C °F K m km dm cm mm μm nm mi ft in yd kg g mg μg lb lbs oz t L l dL dl cL cl mL ml h hr hrs min mins "
    "(?<!\\d)s sec secs ms J kJ MJ N kN W kW MW kWh V mV kV A mA Hz kHz MHz GHz Ω kΩ Pa kPa bar atm mol cal kcal "
    "B kB KB MB GB TB rad mph kph ha ¢ 元 円 人 个 個 歳 岁"
)
_WORDS = (
    "percent pct degree celsius fahrenheit kelvin dollar euro pound cent penny pence yen yuan rupee franc peso USD "
    "EUR GBP JPY CNY INR CHF second minute hour day week month year yr millimeter millimetre centimeter centimetre "
    "meter metre kilometer kilometre inch inche foot feet yard mile milligram gram kilogram ton tonne ounce "
    "milliliter millilitre liter litre gallon quart pint cup teaspoon tablespoon acre hectare joule watt volt ampere "
    "amp ohm hertz newton pascal mole calorie byte megabyte gigabyte radian knot unit item piece point person people "
    "child children man men woman women boy girl kid student fish sheep goose geese mouse mice tooth teeth leaf leaves "
    "bag basket book bottle box bunch can card case class coin egg game group jar letter marble pack package packet "
    "page pen pencil plate row slice ticket toy tree word"
)
_UNIT = (
    rf"(?:(?:(?i:square|cubic|sq\.?|cu\.?) )?(?:(?i:(?:{'|'.join(_WORDS.split())})s?)|{'|'.join(_SYMBOLS.split())})"
    rf"(?![^\W\d_])(?: (?i:old)\b)?(?: ?\^ ?\{{?[+-]?[1-3]\}}?|[23])?)"
)
# Things that are counted; not words that are more, less or other than 1 of a thing.
_PLURAL = (
    r"(?!(?:[a-z]+-)*(?:dozens|tens|hundreds|thousands|halves|thirds|quarters|pairs|couples|scores|times|folds|powers"
    r"|others|percentages|lacs|myriads|perhaps|besides|always|millones|billones|docenas|decenas|centenas|cientos"
    r"|dizaines|douzaines|centaines|milliers|dezenas|milhares|[a-z]*(?:illions|ths|wards|ways|times))\b)"
    r"(?:[a-z]{1,20}-){0,2}[a-z]{2,20}(?<![su])s\b"
)
_THINGS = rf"(?i:{_PLURAL}(?: of [a-z]{{3,20}}\b)?)"
_PER = r"(?: per [A-Za-z]{2,20}\b)?"
_UNITS = rf"{_UNIT}(?:(?: ?[/*·] ?| per | ){_UNIT}){{0,3}}"
_CURRENCY = r"(?:(?:US ?)?¤|(?:USD|EUR|GBP|JPY|CNY|INR|CHF|Rs\.?)(?= ?[-\d.]))"
_SIGN = r"(?:(?P<minus{}>-|(?i:minus|negative)\b)|\+)"
_DECIMAL = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
_POWER = r"10 ?\^ ?\{?(?P<power>[+-]?\d+)\}?"
_NUMBER = (
    rf"(?:{_POWER}|(?:(?P<whole>\d+) )?(?P<top>{_DECIMAL}) ?/ ?(?P<bottom>{_DECIMAL})"
    rf"|(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d+)| ?[*x·] ?{_POWER.replace('power', 'times')})?)"
)
_SCALE = rf"(?:[ -]?(?i:{'|'.join(_SCALES)})s?\.?(?![a-z]))"
_AMOUNT = re.compile(
    rf"{_SIGN.format(1)}? ?(?P<currency>{_CURRENCY})? ?{_SIGN.format(2)}? ?{_NUMBER}(?P<scales>{_SCALE}{{0,3}})"
    rf"(?(currency)(?: ?(?:/|\bper\b) ?{_UNITS})?|(?: ?¤|[ -]?{_UNITS}| {_THINGS})?){_PER}\.?"
)
_FORMULA = re.compile(r"[^\W\d]\w*(?:\(\w\))?|(?:[^\W\d_](?![^\W\d_])|\\frac|,(?=\d{3})|[\d .(){}+*/^%°¤-])*[\w)}%°]")
_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^#+ ", ""),  # as in some data sets
        (r"(?<=\d)'(?=\d{3}(?!\d))", ","),
        (r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r" \1/\2 "),
        (r"[$£¥₠-⃀]", "¤"),
    )
)


def amount(text: str) -> Fraction | None:
    """Return the number that a text of :func:`~bayes_direag.data.plain.unmarked` is, None if it is not one number."""
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    *before, last = (" ".join(side.split()) for side in text.split("="))
    value = _value(last)
    if value is None or not all(_FORMULA.fullmatch(side) and _value(side) in (None, value) for side in before):
        return None
    return value


def _value(side: str) -> Fraction | None:
    """Return the exact value of one side of an equation; None for what is no amount, or too large."""
    match = _AMOUNT.fullmatch(side) if len(side) <= MAX_SIZE else None
    if match is None or (match["minus1"] and match["minus2"]):
        return None
    top = match["top"] or match["decimal"] or "1"
    bottom = Fraction((match["bottom"] or "1").replace(",", ""))
    exponent = int(match["power"] or match["times"] or match["exponent"] or 0)
    number = Fraction(top.replace(",", ""))
    if not bottom or (match["whole"] and number >= bottom) or abs(exponent) > MAX_SIZE:
        return None
    power = exponent + sum(_SCALES[scale] for scale in re.findall("|".join(_SCALES), match["scales"].lower()))
    number = (int(match["whole"] or 0) + number / bottom) * Fraction(10) ** power
    return -number if match["minus1"] or match["minus2"] else number
