"""Numbers of spreadsheets as people see them: percentages, currency, dates, durations, fractions.

A full date is written as in ISO 8601, whatever its format, because 01/02/26 says little by itself. A format
that is not understood leaves the number as it is stored.

Source: ECMA-376, part 1, sections 18.8.30 and 18.8.31,
https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache

_ACCOUNTING = "{0}#,##0{1}_);({0}#,##0{1})"
BUILT_IN_FORMATS = {
    **dict(enumerate(("General", "0", "0.00", "#,##0", "#,##0.00"))),
    **{5 + at: _ACCOUNTING.format("$", ".00" if at > 1 else "") for at in range(4)},
    **dict(enumerate(("0%", "0.00%", "0.00E+00", "# ?/?", "# ??/??", "yyyy-mm-dd", "yyyy-mm-dd"), 9)),
    **dict(enumerate(("d-mmm", "mmm-yy", "h:mm AM/PM", "h:mm:ss AM/PM", "h:mm", "h:mm:ss"), 16)),
    22: "yyyy-mm-dd h:mm",
    **dict.fromkeys((*range(27, 32), 36, *range(50, 59)), "yyyy-mm-dd"),  # of East Asian languages
    **{32: "h:mm", 33: "h:mm:ss", 34: "h:mm", 35: "h:mm:ss"},
    **{37 + at: _ACCOUNTING.format("", ".00" if at > 1 else "") for at in range(4)},
    **{41 + at: f'{sign}#,##0{cents};({sign}#,##0{cents});{sign}"-"' for at, (sign, cents) in enumerate(
        (("", ""), ("$", ""), ("", ".00"), ("$", ".00"))
    )},
    **{45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@"},
}  # fmt: skip
"""Codes by the numbers of formats that no file defines; of dates, which follow the reader's country, ours."""

_MAX_CODE_CHARS = 300
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|[_*].|\[(?P<bracket>[^][]{0,255})\]|(?P<half>AM/PM|A/P)|(?P<general>General)'
    r"|(?P<exponent>E[+-]0*)|(?P<date>y+|m+|d+|h+|s+(?:\.0+)?|e+)|(?P<digit>[0#?])|(?P<literal>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(?P<sign><=|>=|<>|<|>|=)(?P<limit>-?\d+(?:\.\d+)?)")
_CURRENCY = re.compile(r"\$(?P<symbol>[^-]*)")
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)
_PLAIN = re.compile(r"(?:#,##|#)?0(?P<places>\.0{1,9})?")
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
    "<>": operator.ne,
}  # fmt: skip

_Tokens = tuple[tuple[str, str], ...]
"""Kind and text of each part of a code, in order."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the digits of a section are, and what is around them."""

    before: str
    tokens: _Tokens
    after: str
    shift: int  # the number times ten to this power is shown
    spec: str | None  # Python's format, of the plain ones
    decimals: int = 0  # of the plain ones


@dataclass(frozen=True, slots=True)
class _Section:
    """One of the up to four parts of a code: of positive numbers, negative ones, zero, and texts."""

    tokens: _Tokens
    condition: tuple[str, float] | None
    kinds: frozenset[str]
    date_parts: frozenset[str]  # first letters
    is_date: bool  # a full one
    decimals: int  # of seconds
    layout: _Layout | None  # of one with digits


def format_number(value: float, code: str, *, is_1904: bool = False) -> str:
    """A number as a cell of this format shows it; `is_1904`: days are counted from 1904 instead of 1900."""
    if code == "General" or len(code) > _MAX_CODE_CHARS:
        return format_general(value)
    try:
        sections = _parse(code)
        at = _choose_section(value, sections)
        section = sections[at]
        if section.date_parts or "elapsed" in section.kinds:
            return _format_date(value, section, is_1904)
        is_signed = value < 0 and (at == 0 or section.condition is not None)
        shown = _format_section(abs(value), section)
        return f"-{shown}" if is_signed and re.search("[1-9]", shown) else shown
    except (ValueError, ArithmeticError, LookupError):
        return format_general(value)


def format_general(value: float) -> str:
    """With the 15 digits that a spreadsheet keeps."""
    is_whole = float(value).is_integer() and abs(value) < 1e21
    return str(int(value)) if is_whole else f"{value:.15g}"


@lru_cache(maxsize=1_000)
def _parse(code: str) -> tuple[_Section, ...]:
    sections: list[_Section] = []
    tokens: list[tuple[str, str]] = []
    condition: tuple[str, float] | None = None
    for match in _TOKEN.finditer(code + ";"):
        kind, text = match.lastgroup or "", match[0]
        if kind in ("quoted", "escaped"):
            tokens.append(("text", match[kind]))
        elif kind == "bracket":
            if limit := _CONDITION.fullmatch(match[kind]):
                condition = (limit["sign"], float(limit["limit"]))
            elif currency := _CURRENCY.match(match[kind]):
                tokens.append(("text", currency["symbol"]))
            elif _ELAPSED.fullmatch(match[kind]):
                tokens.append(("elapsed", match[kind].lower()))
        elif kind == "literal" and text == ";":
            sections.append(_build_section(tuple(tokens), condition))
            tokens, condition = [], None
        elif kind:
            tokens.append((kind, text))
    return tuple(sections)


def _build_section(tokens: _Tokens, condition: tuple[str, float] | None) -> _Section:
    kinds = frozenset(kind for kind, _ in tokens)
    dates = [text.lower() for kind, text in tokens if kind == "date"]
    parts = frozenset(text[0] for text in dates)
    is_date = {"y", "m", "d"} <= parts or {"e", "m", "d"} <= parts
    decimals = max((text.count("0") for text in dates), default=0)
    layout = _lay_out(tokens) if "digit" in kinds else None
    return _Section(tokens, condition, kinds, parts, is_date, decimals, layout)


def _choose_section(value: float, sections: tuple[_Section, ...]) -> int:
    numeric = sections[:3]
    if len(numeric) == 1:
        return 0
    if any(section.condition for section in numeric):
        for at, section in enumerate(numeric):
            if section.condition is None or _COMPARISONS[section.condition[0]](value, section.condition[1]):
                return at
        return 0
    if value < 0 and len(numeric) > 1:
        return 1
    return 2 if value == 0 and len(numeric) > 2 else 0


def _format_section(value: float, section: _Section) -> str:
    """A number that is not negative; several places of digits are filled from the right."""
    if "general" in section.kinds:
        parts = (format_general(value) if kind == "general" else text for kind, text in section.tokens)
        return "".join(parts).strip()
    layout = section.layout
    if layout is None:
        is_text = ("literal", "@") in section.tokens
        return format_general(value) if is_text else "".join(text for _, text in section.tokens).strip()
    if layout.spec is not None and _rounds_alike(value * 10.0 ** (layout.shift + layout.decimals)):
        return f"{layout.before}{value * 10.0**layout.shift:{layout.spec}}{layout.after}".strip()
    number = Decimal(f"{value:.15g}").scaleb(layout.shift)
    if layout.spec is None:
        return f"{layout.before}{_fill_digits(number, layout.tokens)}{layout.after}".strip()
    return f"{layout.before}{_round(number, layout.decimals):{layout.spec}}{layout.after}".strip()


def _rounds_alike(value: float) -> bool:
    """Whether its 15 digits, rounded half up, give what the float is rounded to: it is not near a half."""
    return value < 1e12 and abs(value % 1 - 0.5) > 0.01


def _lay_out(tokens: _Tokens) -> _Layout:
    kinds = [kind for kind, _ in tokens]
    first, last = kinds.index("digit"), len(kinds) - 1 - kinds[::-1].index("digit")
    while tokens[last + 1 : last + 2] and (
        kinds[last + 1] == "exponent" or tokens[last + 1][1] in "/123456789"
    ):
        last += 1
    commas = 0  # each behind the digits: thousands
    while tokens[last + 1 + commas : last + 2 + commas] == (("literal", ","),):
        commas += 1
    percents = tokens.count(("literal", "%"))
    before, after = (
        "".join(text for _, text in part) for part in (tokens[:first], tokens[last + 1 + commas :])
    )
    inner = tokens[first : last + 1]
    plain = _PLAIN.fullmatch("".join(text if kind != "text" else "x" for kind, text in inner))
    decimals = len(plain["places"] or ".") - 1 if plain else 0
    spec = f"{',' if ',' in plain[0] else ''}.{decimals}f" if plain else None
    return _Layout(before, inner, after, 2 * percents - 3 * commas, spec, decimals)


def _round(number: Decimal, decimals: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def _fill_digits(number: Decimal, tokens: tuple[tuple[str, str], ...]) -> str:
    pattern = "".join(text for kind, text in tokens if kind != "text")
    if any(kind == "exponent" for kind, _ in tokens):
        return _format_exponent(number, pattern)
    if "/" in pattern:
        return _format_fraction(number, pattern)
    whole_pattern, _, decimals = pattern.partition(".")
    number = _round(number, sum(sign in "0#?" for sign in decimals))
    whole, _, places = f"{number:f}".partition(".")
    while places and decimals[len(places) - 1 : len(places)] in ("#", "?") and places.endswith("0"):
        places = places[:-1]
    whole = _fill_whole("" if whole == "0" else whole, tokens, has_groups="," in whole_pattern)
    return f"{whole}.{places}" if places else whole


def _fill_whole(digits: str, tokens: tuple[tuple[str, str], ...], *, has_groups: bool) -> str:
    """The digits before the point, from the right; what is between the places of digits stays there."""
    points = [at for at, token in enumerate(tokens) if token == ("literal", ".")]
    places = [token for token in tokens[: points[0] if points else None] if token != ("literal", ",")]
    rest, filled = list(digits), list[str]()
    for kind, text in reversed(places):
        if kind != "digit":
            filled.append(text)
        elif rest:
            filled.append(rest.pop())
        elif text == "0":
            filled.append("0")
    whole = "".join([*rest, *reversed(filled)])
    return f"{int(whole):0{len(whole)},}" if has_groups and whole.isdigit() and whole[0] != "0" else whole


def _format_exponent(number: Decimal, pattern: str) -> str:
    mantissa, _, exponent = re.split(r"(E[+-])", pattern, maxsplit=1, flags=re.IGNORECASE)
    decimals = sum(sign in "0#?" for sign in mantissa.partition(".")[2])
    digits, _, power = f"{number:.{decimals}E}".partition("E")
    return f"{digits}E{'-' if int(power) < 0 else '+'}{abs(int(power)):0{max(1, len(exponent))}}"


def _format_fraction(number: Decimal, pattern: str) -> str:
    upper, _, lower = pattern.partition("/")
    lower = lower.strip()
    has_whole = len(upper.split()) > 1
    whole, rest = divmod(number, 1) if has_whole else (Decimal(0), number)
    if lower.isdigit() and int(lower):
        below = int(lower)
        above = int(_round(rest * below, 0))
    else:
        fraction = Fraction(rest).limit_denominator(10 ** min(len(lower), 4) - 1)
        above, below = fraction.numerator, fraction.denominator
    if has_whole and above == below:
        whole, above = whole + 1, 0
    parts = [str(whole) if whole or not above else "", f"{above}/{below}" if above or not has_whole else ""]
    return " ".join(filter(None, parts))


def _format_date(value: float, section: _Section, is_1904: bool) -> str:
    if not section.decimals and _rounds_alike(abs(value) * 86_400):
        seconds = Decimal(round(value * 86_400))
    else:
        seconds = _round(Decimal(repr(value)) * 86_400, section.decimals)
    if "elapsed" in section.kinds:
        return ("-" if value < 0 else "") + _write_time(None, abs(seconds), section)
    if value < 0:
        raise ValueError("no date is negative")
    day = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 31 if value < 60 else 30)
    moment = day + timedelta(microseconds=int(seconds * 1_000_000))
    if section.is_date:
        kinds = section.date_parts
        shown = moment.isoformat(" ")[: 19 if "s" in kinds else 16 if "h" in kinds else 10]
        return shown.removesuffix(" 00:00:00").removesuffix(" 00:00")
    return _write_time(moment, seconds, section)


def _write_time(moment: datetime | None, seconds: Decimal, section: _Section) -> str:
    """Part by part; an `m` next to hours or seconds is a minute, not a month."""
    whole = int(seconds)
    hours = whole // 3600 % 24
    is_half = "half" in section.kinds
    elapsed = {"h": whole // 3600, "m": whole // 60, "s": whole}
    parts: list[str] = []
    names = [
        (at, text[0].lower()) for at, (kind, text) in enumerate(section.tokens) if kind in ("date", "elapsed")
    ]
    before = {at: names[n - 1][1] if n else "" for n, (at, _) in enumerate(names)}
    after = {at: names[n + 1][1] if n + 1 < len(names) else "" for n, (at, _) in enumerate(names)}
    for at, (kind, text) in enumerate(section.tokens):
        name, width = text[:1].lower(), len(text)
        if kind == "elapsed":
            parts.append(f"{elapsed[name]:0{width}}")
        elif kind == "half":
            parts.append("AM" if hours < 12 else "PM")
        elif kind != "date":
            parts.append(text)
        elif name == "h":
            parts.append(f"{(hours % 12 or 12) if is_half else hours:0{min(width, 2)}}")
        elif name == "s":
            decimals = text.count("0")
            parts.append(f"{seconds % 60:0{decimals + 3 if decimals else min(width, 2)}.{decimals}f}")
        elif name == "m" and (before[at] == "h" or after[at] == "s"):
            parts.append(f"{whole // 60 % 60:0{min(width, 2)}}")
        elif moment is not None:
            parts.append(_write_date_part(moment, name, width))
    return "".join(parts).strip()


def _write_date_part(moment: datetime, name: str, width: int) -> str:
    if name == "d":
        return f"{moment.day:0{width}}" if width < 3 else f"{moment:%A}" if width > 3 else f"{moment:%a}"
    if name == "m" and width < 3:
        return f"{moment.month:0{width}}"
    if name == "m":
        return f"{moment:%B}"[: {3: 3, 4: None}.get(width, 1)]  # "Jan", "January", else "J"
    return f"{moment.year % 100:02}" if width < 3 and name == "y" else str(moment.year)
