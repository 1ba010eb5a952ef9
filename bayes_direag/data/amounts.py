r"""The number that a text is, by this grammar; any other text is none.

::

    text     = {formula "="} amount             a name or numbers; one number equals the amount
    amount   = [sign] number ["°" | " " units] | [sign] decimal "%" | [sign] currency [sign] number
    number   = decimal ["e" exponent] | decimal "/" decimal | "\frac{" decimal "}{" decimal "}"
    units    = unit [("/" | " per ") unit], each perhaps with a power or after "square" or "cubic"

Decimals may have commas between thousands. Units are those of the table below.
"""

import re
from decimal import Context, Decimal, Inexact
from fractions import Fraction

MAX_SIZE = 400
"""The largest decimal exponent, and number of characters, of a number: limits memory."""

_PLAIN_DIGITS = 30  # decimal exponents up to this one are written out
_EXACT = Context(prec=MAX_SIZE, traps=[Inexact])
_SYMBOLS = (  # no K, B or M, which are thousands, billions and millions as well
    "°C °F m km dm cm mm μm nm mi ft in yd kg g mg μg lb lbs oz t L l dL dl cL cl mL ml h hr hrs min mins s sec secs "
    "ms J kJ MJ N kN W kW MW kWh V mV kV A mA Hz kHz MHz GHz Ω kΩ Pa kPa bar atm mol cal kcal kB KB MB GB TB rad mph "
    "kph ha"
)
_WORDS = (
    "percent pct degree celsius fahrenheit kelvin dollar euro pound cent penny pence yen yuan rupee franc peso USD "
    "EUR GBP JPY CNY INR CHF second minute hour day week month year yr millimeter millimetre centimeter centimetre "
    "meter metre kilometer kilometre inch foot feet yard mile milligram gram kilogram ton tonne ounce "
    "milliliter millilitre liter litre gallon quart pint cup teaspoon tablespoon acre hectare joule watt volt ampere "
    "amp ohm hertz newton pascal mole calorie byte megabyte gigabyte radian knot unit item piece point person people "
    "child children man men woman women boy girl kid student fish sheep goose geese mouse mice tooth teeth leaf leaves "
    "bag basket book bottle box bunch can card case class coin egg game group jar letter marble pack package packet "
    "page pen pencil plate row slice ticket toy tree word"
)
_UNIT = (
    rf"(?:(?i:square|cubic) )?(?:(?i:(?:{'|'.join(_WORDS.split())})(?:e?s)?)|{'|'.join(_SYMBOLS.split())})"
    r"(?:\^?[23]|[²³])?"
)
_DECIMAL = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
_CURRENCY = r"\\?[$£¥₠-⃀]"
_AMOUNT = re.compile(
    rf"(?P<sign>[+-]?) ?(?P<currency>{_CURRENCY} ?(?P<inner>-?))?"
    rf"(?:\\[dt]?frac\{{(?P<over>{_DECIMAL})\}}\{{(?P<under>{_DECIMAL})\}}"
    rf"|(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d+)| ?/ ?(?P<bottom>{_DECIMAL}))?)"
    rf"(?(currency)|(?:(?(bottom)(?!)| ?\\?%)|°[CF]?| {_UNIT}(?:(?:/| per ){_UNIT})?)?)"
)
# A name, or numbers with signs between them; a letter in one would be unknown.
_FORMULA = re.compile(r"[^\W\d]\w*(?:\(\w\))?|(?:(?<=\d)(?: x |x)(?=\d)|,(?=\d{3})|[\d .(){}+*/^%°$\u00d7\u00f7-])+")


def number(text: str) -> str | None:
    """Return the spelling of the number that a text is; None if it is not one number, or it would be too long."""
    *before, last = (side.strip() for side in text.split("="))
    value = _amount(last)
    if value is None or not all(_FORMULA.fullmatch(side) and _amount(side) in (None, value) for side in before):
        return None
    try:
        decimal = _EXACT.normalize(_EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)))
    except Inexact:
        spelling = str(value)
    else:
        if abs(decimal.adjusted()) > MAX_SIZE:
            return None
        form = "f" if abs(decimal.adjusted()) <= _PLAIN_DIGITS else "e"
        spelling = f"{decimal:{form}}".replace("e+", "e")
    return spelling if len(spelling) <= MAX_SIZE else None


def _amount(side: str) -> Fraction | None:
    """Return the exact value of one side of an equation; None for what is no amount, or too large."""
    match = _AMOUNT.fullmatch(side) if len(side) <= MAX_SIZE else None
    if match is None or (match["sign"] and match["inner"]):
        return None
    top, bottom = match["over"] or match["decimal"], match["under"] or match["bottom"] or "1"
    numerator, denominator = (Fraction(text.replace(",", "")) for text in (top, bottom))
    exponent = int(match["exponent"] or 0)
    if not denominator or abs(exponent) > MAX_SIZE:
        return None
    value = numerator / denominator * Fraction(10) ** exponent
    return -value if "-" in (match["sign"], match["inner"]) else value
