"""Insert one entry into a list of a YAML text, such as `sources`, or remove one, as text.

Nothing is dumped again: the lines of one entry are inserted or removed where the
parser's events place them, so every other character stays, as no round trip of ruamel.yaml keeps it
(docs/decisions/structure-and-interfaces.md). Pure; the caller checks the result.
"""

# ruamel.yaml leaves its events untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from knowledge_pipeline.errors import ConfigError

_DASH = re.compile(r" *-(?=[ \t\r\n])")
_BLANK_LINE = re.compile(r"\n[ \t]*\r?\n")
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\r?\n)+")
_BLANK_END = re.compile(r"(\r?\n)(?:[ \t]*\r?\n)+\Z")
_UNPRINTABLE = re.compile(
    "[^\\x20-\\x7e\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff]"
)
_FLOW_REST = re.compile(r"[ \t]*,?")
_FLOW_LINE_REST = re.compile(r"[ \t]*,?[ \t]*(?:#[^\n]*)?(?:\n|\Z)")


def insert_entry(text: str, entry: Mapping[str, Any], key: str = "sources") -> str:
    """The text with one more entry at the end of the list; raises ConfigError if only a person can do it."""
    sources = _locate_list(text, key)
    if sources.is_flow and sources.items:
        at = sources.items[-1][1]
        return f"{text[:at]}, {to_flow_yaml(entry)}{text[at:]}"
    line_end = "\r\n" if "\r\n" in text else "\n"
    text, at, column = _prepare_insertion(text, key, sources, line_end)
    before = text[:at] if not at or text[at - 1] == "\n" else text[:at] + line_end
    gap = ""
    if len(sources.items) > 1 and _BLANK_LINE.search(text, sources.items[-2][1] - 1, sources.items[-1][0]):
        gap = line_end
    return before + gap + _render_block(entry, column, line_end) + text[at:]


def remove_entry(text: str, index: int) -> str:
    """The text without a source and the comments that describe it; raises ConfigError as `insert_entry`."""
    sources = _locate_list(text, "sources")
    start, end = sources.items[index]
    if sources.is_flow:
        return _remove_flow_item(text, start, end)
    line, column = _find_dash(text, start)
    begin = _find_entry_start(text, line, column)
    kept, rest = text[:begin], text[_find_entry_end(text, end, column) :]
    if not rest.strip():
        kept = _BLANK_END.sub(r"\1", kept)
    elif _BLANK_END.search(kept) or (index == 0 and len(sources.items) > 1):
        rest = _BLANK_LINES.sub("", rest)
    if len(sources.items) > 1:
        return kept + rest
    colon = kept.index(":", sources.key_end) + 1
    return kept[:colon] + " []" + kept[colon:] + rest


def to_flow_yaml(value: Any) -> str:
    """A value on one line: JSON is YAML, except for characters that only JSON allows unescaped."""
    json_text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


@dataclass(frozen=True, slots=True)
class _ListSpan:
    """Where a list is in the text; offsets count characters, half-open."""

    key_end: int  # -1: there is no such key
    start: int = 0  # of the list, or of the value in its place
    end: int = 0
    is_flow: bool = False  # [a, b]
    items: tuple[tuple[int, int], ...] = ()  # from the first to the last written character


def _locate_list(text: str, name: str) -> _ListSpan:
    if re.search(r"\r(?!\n)", text):
        raise ConfigError("lines end in a bare carriage return: save the file with usual line ends")
    events = list(YAML(typ="safe", pure=True).parse(text))
    is_node = (isinstance(event, (CollectionStartEvent, ScalarEvent)) for event in events)
    root = next((position for position, found in enumerate(is_node) if found), len(events))
    if root == len(events) or not isinstance(events[root], MappingStartEvent):
        return _ListSpan(key_end=-1)
    children = _split_children(events, root)
    for key, value in zip(children[::2], children[1::2], strict=True):
        if not isinstance(key[0], ScalarEvent) or key[0].value != name:
            continue
        key_end, first = key[0].end_mark.index, value[0]
        if isinstance(first, AliasEvent):
            raise ConfigError(f"`{name}` is an alias: edit the file by hand")
        if not isinstance(first, SequenceStartEvent):
            return _ListSpan(key_end, *_find_extent(value))
        items = tuple(_find_extent(item) for item in _split_children(value, 0))
        return _ListSpan(key_end, *_find_extent(value), is_flow=bool(first.flow_style), items=items)
    return _ListSpan(key_end=-1)


def _split_children(events: list[Event], start: int) -> list[list[Event]]:
    """The events of each child of the collection that starts at a position."""
    children: list[list[Event]] = []
    depth = 0
    for event in events[start + 1 :]:
        if depth == 0:
            if isinstance(event, CollectionEndEvent):
                return children
            children.append([])
        children[-1].append(event)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
    raise ConfigError("the YAML ends inside a value")


def _find_extent(node: list[Event]) -> tuple[int, int]:
    """Ends of blocks and empty values are no characters, and their marks come after comments."""
    written = [event.end_mark.index for event in node if event.end_mark.index > event.start_mark.index]
    start = node[0].start_mark.index
    return start, max(written, default=start)


def _prepare_insertion(text: str, key: str, sources: _ListSpan, line_end: str) -> tuple[str, int, int]:
    """The text without an empty list, where the entry goes, and the column of its dash."""
    if sources.items:
        start, end = sources.items[-1]
        _, column = _find_dash(text, start)
        return text, _find_entry_end(text, end, column), column
    if sources.key_end < 0:
        gap = "" if not text or text.endswith("\n") else line_end
        text = f"{text}{gap}{key}:{line_end}"
        return text, len(text), 2
    if sources.end > sources.start:  # `[]`, `null`
        text = text[: sources.start].rstrip(" ") + text[sources.end :]
    return text, _find_next_line(text, sources.key_end), 2


def _quote_unprintable(value: Any) -> Any:
    """The same with unprintable text in double quotes: ruamel.yaml loses such characters in plain style."""
    if isinstance(value, Mapping):
        return {_quote_unprintable(key): _quote_unprintable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_quote_unprintable(inner) for inner in value]
    is_unprintable = isinstance(value, str) and _UNPRINTABLE.search(value)
    return DoubleQuotedScalarString(value) if is_unprintable else value


def _render_block(entry: Mapping[str, Any], column: int, line_end: str) -> str:
    yaml, stream = YAML(), io.StringIO()
    yaml.default_flow_style = False
    yaml.width = 1_000_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(_quote_unprintable(entry), stream)
    first, *others = stream.getvalue().rstrip("\n").split("\n")
    indented = [f"- {first}", *(f"  {line}" if line else "" for line in others)]
    return "".join(f"{' ' * column if line else ''}{line}{line_end}" for line in indented)


def _find_dash(text: str, start: int) -> tuple[int, int]:
    """Start of the line with a block entry's dash, and the dash's column."""
    line = start
    while line > 0:
        line = text.rfind("\n", 0, line) + 1
        if match := _DASH.match(text, line, start):
            return line, match.end() - 1 - line
        line -= 1
    raise ConfigError("an entry of the list does not start on a line of its own: edit the file by hand")


def _find_entry_start(text: str, line: int, column: int) -> int:
    """Start of the comment lines directly above a line, those not indented deeper."""
    while line > 0:
        above = text.rfind("\n", 0, line - 1) + 1
        if not _is_comment(text[above:line]) or _count_indent(text[above:line]) > column:
            break
        line = above
    return line


def _find_entry_end(text: str, end: int, column: int) -> int:
    """Start of the line after an entry and after the comments inside it, indented deeper than its dash."""
    after = here = _find_next_line(text, len(text[:end].rstrip()))
    while here < len(text):
        line = text[here : _find_next_line(text, here)]
        inside = _is_comment(line) and _count_indent(line) > column
        if line.strip() and not inside:
            break
        here += len(line)
        after = here if inside else after
    return after


def _remove_flow_item(text: str, start: int, end: int) -> str:
    line = text.rfind("\n", 0, start) + 1
    whole = None if text[line:start].strip() else _FLOW_LINE_REST.match(text, end)
    if whole:
        return text[:line] + text[whole.end() :]
    rest = _FLOW_REST.match(text, end)
    kept, after = text[:start], text[rest.end() if rest else end :].lstrip(" ")
    return kept.rstrip(" ").removesuffix(",") + after if after.startswith("]") else kept + after


def _find_next_line(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
