"""Finds personal data by form and checksum: addresses, phone and card numbers, accounts, national ids.

Names and postal addresses are not searched: this needs a language model, which errs on
code. Numbers without a checksum count only in a form that people write them in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import NamedTuple

from knowledge_pipeline.sanitizing.findings import Finding

_EMAIL = re.compile(
    r"(?<![\w.+%-])(?P<user>[A-Za-z0-9_][\w.+%-]{0,63}+)@(?!\dx\.)"  # no icon@2x.png
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}(?<!-))?\.){1,8}[A-Za-z]{2,24}(?![\w-])",
    re.ASCII,
)
_CARD = re.compile(
    r"(?<![\w.+-])(?:\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}|\d{4}[ -]\d{6}[ -]\d{5}|\d{14,16})(?![\w-]|\.\d)",
    re.ASCII,
)
_CARD_ISSUERS = re.compile(
    r"4\d{15}|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|(?:6011|65\d\d|64[4-9]\d|35\d\d)\d{12}"
)
# A group takes all digits that it can, and gives none back: a run of digits has thousands of divisions.
# The last form is that of a number so short that one group has taken all.
_PHONE_INTERNATIONAL = re.compile(
    r"(?<![\w.+*/=-])\+[1-9](?:\d{0,3}(?:[ .\-/]?\(?\d{1,5}+\)?){2,6}|[ .\-/]?\(?\d{2,5}+\)?)(?![\w-])",
    re.ASCII,
)
_PHONE_AMERICAN = re.compile(
    r"(?<![\w.+/(=-])(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}(?![\w-]|\.\d)", re.ASCII
)
_PHONE_LABELLED = re.compile(
    r"\b(?i:tel(?:efon|ephone)?|phone|mobile|cell|fax|t[ée]l[ée]phone|handy)\b(?:[ _]?(?i:number|no|nr))?\.?"
    r"[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}[\"']?(?P<number>[(0]?\d[\d ()/.-]{5,18}\d)(?![\w-])",
    re.ASCII,
)
_SIX_DIGITS = re.compile(r"\d(?:[ ().\-/A-Z]{0,3}+\d){5,}+", re.ASCII)
_WINDOW_MARGIN_CHARS = 48  # room for "Steuer-Identifikationsnummer: " before, and for an IBAN's letters
_IBAN = re.compile(r"(?<![\w-])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)", re.ASCII)


def _build_validator(checker: str) -> Callable[[str], bool]:
    """The checksum and structure test of one kind of number, imported at the first candidate."""
    return lambda number: import_module(f"stdnum.{checker}").is_valid(number)


def _keep_digits(number: str) -> str:
    return "".join(character for character in number if character.isdigit())


def _is_card(number: str) -> bool:
    from stdnum import luhn

    digits = _keep_digits(number)
    return bool(_CARD_ISSUERS.fullmatch(digits)) and luhn.is_valid(digits)


def _is_phone(number: str) -> bool:
    import phonenumbers

    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(number, "US"))
    except phonenumbers.NumberParseException:
        return False


def _has_phone_digits(number: str) -> bool:
    digits = _keep_digits(number)
    return 7 <= len(digits) <= 15 and len(set(digits)) > 2


class _NumberFormat(NamedTuple):
    kind: str
    pattern: re.Pattern[str]  # `number` is the group, where there is one
    accepts: Callable[[str], bool]


def _build_national_id(checker: str, pattern: str, label: str = "") -> _NumberFormat:
    if label:
        pattern = rf"\b(?i:{label})\b[\"']?[ \t]{{0,4}}[:=#]?[ \t]{{0,4}}[\"']?(?P<number>{pattern})"
    alone = re.compile(rf"(?<![\w.+-])(?:{pattern})(?![\w-]|\.\d)", re.ASCII)
    return _NumberFormat("national_id", alone, _build_validator(checker))


_NUMBERS = (
    _NumberFormat("iban", _IBAN, _build_validator("iban")),
    _NumberFormat("card_number", _CARD, _is_card),
    _NumberFormat("phone_number", _PHONE_INTERNATIONAL, _is_phone),
    _NumberFormat("phone_number", _PHONE_AMERICAN, _is_phone),
    _NumberFormat("phone_number", _PHONE_LABELLED, _has_phone_digits),
    _build_national_id("us.ssn", r"\d{3}-\d{2}-\d{4}"),
    _build_national_id("es.dni", r"\d{8}-?[A-HJ-NP-TV-Z]"),
    _build_national_id("es.nie", r"[XYZ]-?\d{7}-?[A-HJ-NP-TV-Z]"),
    _build_national_id("it.codicefiscale", r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]"),
    _build_national_id("fr.nir", r"[12] ?\d{2} ?\d{2} ?(?:\d{2}|2[AB]) ?\d{3} ?\d{3} ?\d{2}"),
    _build_national_id("fi.hetu", r"\d{6}[-+A-FU-Y]\d{3}[0-9A-FHJ-NPR-Y]"),
    _build_national_id("se.personnummer", r"(?:\d{2})?\d{6}[-+]\d{4}"),
    _build_national_id("be.nn", r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}"),
    # digits alone, which count only after their name
    _build_national_id("pl.pesel", r"\d{11}", label="pesel"),
    _build_national_id("nl.bsn", r"\d{9}", label="bsn|burgerservicenummer|sofinummer"),
    _build_national_id(
        "de.idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}", label=r"steuer-?id(?:entifikationsnummer)?|idnr|tax id"
    ),
    _build_national_id("gb.nhs", r"\d{3}[ -]?\d{3}[ -]?\d{4}", label=r"nhs(?: number| no\.?)?"),
)


def find_personal_data(text: str) -> Iterator[Finding]:
    """Personal data of a text, by kind; findings may overlap."""
    for match in _EMAIL.finditer(text) if "@" in text else ():
        if not (match["user"] == "git" and text.startswith((":", "/"), match.end())):  # git@host:owner/name
            yield Finding(*match.span(), "email")
    for start_char, end_char in _find_digit_windows(text):
        for kind, pattern, holds in _NUMBERS:
            group = "number" if "number" in pattern.groupindex else 0
            for match in pattern.finditer(text, start_char, end_char):
                if holds(match[group]):
                    yield Finding(*match.span(group), kind)


def _find_digit_windows(text: str) -> Iterator[tuple[int, int]]:
    """Spans around six digits or more, where numbers are searched; none overlap."""
    start_char = end_char = 0
    for match in _SIX_DIGITS.finditer(text):
        if match.start() - _WINDOW_MARGIN_CHARS > end_char:
            if end_char:
                yield start_char, end_char
            start_char = max(0, match.start() - _WINDOW_MARGIN_CHARS)
        end_char = min(len(text), match.end() + _WINDOW_MARGIN_CHARS)
    if end_char:
        yield start_char, end_char
