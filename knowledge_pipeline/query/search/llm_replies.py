"""Reads a list out of a language model's reply, whatever stands around it. Pure; reads any text.

Models are asked for a bare list and send code fences, prose, numbering, duplicates and
numbers that do not exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(?<![\w.-])(\d{1,4})(?:\.0+)?(?!\w|\.\d)")
_LIST = re.compile(r"\[([^\[\]]*)\]")
_OBJECT_NUMBER = re.compile(r"\"(?:number|passage|index|id)\"\s*:\s*\"?(\d{1,4})\b", re.IGNORECASE)
_ONE = r"\[? ?(?:passage )?#?\d{1,4} ?\]?"  # where white space is folded
_CHAIN = re.compile(rf"{_ONE}(?: ?(?:>|,|;|→|->) ?{_ONE})+", re.IGNORECASE)
_NAMED = re.compile(r"(?:passage|document|result|#|\[)\s*#?(\d{1,4})\b", re.IGNORECASE)
_NUMBERING = re.compile(r"^[ \t]*(?:[-*•]|\(?\d{1,2}[.)])[ \t]+(?=\S)", re.MULTILINE)
_ONLY_NUMBERS = re.compile(r"[\s\d.,;:()]*")
_FENCE = re.compile(r"^[ \t]*```.*$", re.MULTILINE)
_QUOTES = " \t'\"`*“”‘’"
_MAX_LISTS_TRIED = 20


def parse_numbers(reply: str, count: int) -> list[int]:
    """The numbers from 1 to `count` in a reply's order, each once; empty if it names none.

    A list or a chain ("3 > 1 > 2") takes precedence over numbers that are only mentioned; of several
    the longest, and of equally long ones the last, which follows the reasoning.
    """
    text = " ".join(reply.split())
    for readings in (
        [_OBJECT_NUMBER.findall(text)],
        [_NUMBER.findall(each) for each in _LIST.findall(text)],
        [_NUMBER.findall(each.group().replace("->", ">")) for each in _CHAIN.finditer(text)],
    ):
        found = [_keep_valid_numbers(reading, count) for reading in readings]
        longest = max(reversed(found), key=len, default=list[int]())
        if len(longest) > 1:
            return longest
    if named := _keep_valid_numbers(_NAMED.findall(text), count):
        return named
    lines = _NUMBERING.sub("", reply)
    return _keep_valid_numbers(_NUMBER.findall(lines), count) if _ONLY_NUMBERS.fullmatch(lines) else []


def parse_lines(reply: str) -> list[str]:
    """The entries of a list: a JSON list of texts, else one a line, without numbering and quotes.

    A line that ends in a colon only announces the list.
    """
    entries = _parse_json_texts(reply)
    if entries is None:
        plain = _NUMBERING.sub("", _FENCE.sub("", reply))
        entries = [line for line in plain.splitlines() if not line.rstrip(" *").endswith(":")]
    cleaned = (" ".join(entry.split()).strip(_QUOTES) for entry in entries)
    return list(dict.fromkeys(entry for entry in cleaned if entry))


def strip_fences(reply: str) -> str:
    """A text without the code fences around it."""
    return _FENCE.sub("", reply).strip()


def _keep_valid_numbers(numbers: Iterable[str], count: int) -> list[int]:
    return [number for number in dict.fromkeys(map(int, numbers)) if 1 <= number <= count]


def _parse_json_texts(reply: str) -> list[str] | None:
    decoder = json.JSONDecoder()
    for match in list(re.finditer(r"\[", reply))[:_MAX_LISTS_TRIED]:
        try:
            value, _ = decoder.raw_decode(reply, match.start())
        except (ValueError, RecursionError):
            continue
        if value and all(isinstance(entry, str) for entry in value):
            return value
    return None
