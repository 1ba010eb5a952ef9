r"""The number that a text is, by this grammar; any other text is none.

::

    text     = {formula "="} amount             a name or numbers; one number equals the amount
    amount   = [sign] number ["°" | currency | " " units] | [sign] decimal "%" | [sign] currency [sign] number [code]
    number   = decimal ["e" exponent] | decimal "/" decimal | "\frac{" [sign] decimal "}{" decimal "}" | "\frac12"
    currency = sign of a currency | code
    units    = unit [("/" | " per ") unit], each perhaps with a power or after "square" or "cubic"

Decimals may have commas between thousands, and degrees be ``^\circ``. Units and codes are those of the table below.
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
    "percent pct degree celsius fahrenheit kelvin dollar euro pound cent penny pence yen yuan rupee franc peso won "
    "second minute hour day week month year yr millimeter millimetre centimeter centimetre "
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
_CODE = "(?:USD|EUR|GBP|JPY|CNY|INR|CHF|CAD|AUD|NZD|HKD|SGD|KRW|SEK|NOK|DKK|PLN|CZK|BRL|MXN|ZAR)"
_DEGREE = r"(?:°|\^(?:\\circ|\{\\circ\}))"
_SIGN = r"\\?[$£¥₠-⃀円元원]"
_AMOUNT = re.compile(
    rf"(?P<sign>[+-]?) ?(?P<currency>(?:(?:US)?{_SIGN} ?|{_CODE} )(?P<inner>-?))?"
    rf"(?:\\[dt]?frac(?:\{{(?P<minus>-?)(?P<over>{_DECIMAL})\}}\{{(?P<under>{_DECIMAL})\}}|(?P<one>\d)(?P<two>\d))"
    rf"|(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d+)| ?/ ?(?P<bottom>{_DECIMAL}))?)"
    rf"(?(currency)(?: {_CODE})?"
    rf"|(?:(?(bottom)(?!)| ?\\?%)|{_DEGREE}[CF]?| ?{_SIGN}| ?{_CODE}| {_UNIT}(?:(?:/| per ){_UNIT})?)?)"
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
    minus = [match[name] for name in ("sign", "inner", "minus") if match[name]] if match else []
    if match is None or len(minus) > 1:
        return None
    top = match["over"] or match["one"] or match["decimal"]
    bottom = match["under"] or match["two"] or match["bottom"] or "1"
    numerator, denominator = (Fraction(text.replace(",", "")) for text in (top, bottom))
    exponent = int(match["exponent"] or 0)
    if not denominator or abs(exponent) > MAX_SIZE:
        return None
    value = numerator / denominator * Fraction(10) ** exponent
    return -value if "-" in minus else value
