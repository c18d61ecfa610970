"""Sets an entry in the settings of an agent's program, JSON with comments or TOML; all else stays as it is.

The new text is read again, and is returned only where it holds the entry and everything that was there.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from knowledge_pipeline.text import is_list, is_object

_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)")
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*+[}}\]])")
_SPACE = re.compile(r"[ \t\r\n]*+")
_INDENT = re.compile(r"[ \t]*+")
_OF_REMOTE_SERVERS = (
    *("type", "url", "headers"),
    *("http_headers", "env_http_headers", "bearer_token_env_var"),
)
"""Options of an entry that do not go with a command."""


class UnreadableSettings(Exception):
    """A text is not of its format, or has something else in the place of the entry."""


def set_json_entry(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with `entry` as member `name` of the object `section`; options that it has besides stay.

    Raises `UnreadableSettings`: comments and trailing commas aside, it is no JSON object with such an object.
    """
    settings = _parse_json(text)
    return _set_member(text, settings, section, name, _merge_entry(settings, section, name, entry))


def set_json_items(text: str, section: str, name: str, items: list[Any], *, replaced: str) -> str:
    """The text with `items` at the end of the list `name` of the object `section`; the others stay.

    Those that have the text `replaced` in each of their commands are replaced. Raises as `set_json_entry`.
    """
    settings = _parse_json(text)
    listed = _find_member(settings, section, name, [])
    if not is_list(listed):
        raise UnreadableSettings
    others = [it for it in listed if not _has_only(it, replaced)]
    return _set_member(text, settings, section, name, [*others, *items])


def _has_only(item: Any, text: str) -> bool:
    hooks = item.get("hooks") if is_object(item) else None
    return is_list(hooks) and bool(hooks) and all(text in json.dumps(hook) for hook in hooks)


def _set_member(text: str, settings: Any, section: str, name: str, merged: Any) -> str:
    bare = _blank(_COMMENT, text)
    if not bare.strip():
        return _fit_newlines(_join_paragraphs(text, json.dumps({section: {name: merged}}, indent=2)), text)
    plain = _blank(_TRAILING_COMMA, bare)
    root = _JsonObject.read(plain, _skip_space(plain, 0))
    first_lines = (_indent_of(text, start) for start, _ in root.members.values())
    unit = next(filter(None, first_lines), "  ")
    if section not in root.members:
        edited = root.add_member(text, bare, section, {name: merged}, unit)
    else:
        servers = _JsonObject.read(plain, root.members[section].start)
        if name not in servers.members:
            edited = servers.add_member(text, bare, name, merged, unit)
        else:
            start, end = servers.members[name]
            edited = text[:start] + _dump_json(merged, unit, _indent_of(text, start)) + text[end:]
    edited = _fit_newlines(edited, text)
    servers_before = settings.get(section, {})
    if _parse_json(edited) != {**settings, section: {**servers_before, name: merged}}:
        raise UnreadableSettings
    return edited


def set_toml_entry(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with the table `[section.name]`, and `entry` in it; other options of the table stay.

    Raises `UnreadableSettings`: it is not TOML with tables in that place.
    """
    original, text = text, text.replace("\r\n", "\n")
    settings = _parse_toml(text)
    merged = _merge_entry(settings, section, name, entry)
    lines = [f"{option} = {json.dumps(value, ensure_ascii=False)}" for option, value in entry.items()]
    quoted = f"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    header = rf"^[ \t]*\[[ \t]*{re.escape(section)}[ \t]*\.[ \t]*{quoted}[ \t]*\][^\n]*(?:\n|\Z)"
    match = re.search(header, text, re.MULTILINE)
    if match is None:
        edited = _join_paragraphs(text, "\n".join([f"[{section}.{name}]", *lines]))
    else:
        next_table = re.compile(r"^[ \t]*\[", re.MULTILINE).search(text, match.end())
        end = next_table.start() if next_table else len(text)
        kept = _drop_options(text[match.end() : end], {*entry, *_OF_REMOTE_SERVERS})
        before = text[: match.end()].removesuffix("\n")
        edited = "\n".join([before, *lines, kept]) + text[end:]
    edited = _fit_newlines(edited, original)
    if _parse_toml(edited) != {**settings, section: {**settings.get(section, {}), name: merged}}:
        raise UnreadableSettings
    return edited


def _merge_entry(settings: Any, section: str, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry, with the other options of the one that is there."""
    current = _find_member(settings, section, name, {})
    if not is_object(current):
        raise UnreadableSettings
    kept = {option: value for option, value in current.items() if option not in _OF_REMOTE_SERVERS}
    return {**kept, **entry}


def _find_member(settings: Any, section: str, name: str, default: Any) -> Any:
    """None where the settings are no object with such an object."""
    members = settings.get(section, {}) if is_object(settings) else None
    return members.get(name, default) if is_object(members) else None


def _join_paragraphs(text: str, paragraph: str) -> str:
    separator = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return f"{text if text.strip() else ''}{separator}{paragraph}\n"


def _fit_newlines(edited: str, text: str) -> str:
    """With the line ends of the text as it was."""
    return re.sub(r"\r?\n", "\r\n", edited) if "\r\n" in text else edited


def _parse_json(text: str) -> Any:
    try:
        return json.loads(_blank(_TRAILING_COMMA, _blank(_COMMENT, text)).strip() or "{}")
    except json.JSONDecodeError:
        raise UnreadableSettings from None


def _parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise UnreadableSettings from None


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with spaces in place of what a pattern matches; line ends, strings and open comments aside."""

    def replace(match: re.Match[str]) -> str:
        is_open = match[0].startswith("/*") and not (len(match[0]) > 3 and match[0].endswith("*/"))
        return match[0] if match[0][0] == '"' or is_open else re.sub(r"[^\r\n]", " ", match[0])

    return pattern.sub(replace, text)


def _skip_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _indent_of(text: str, at: int) -> str:
    """What the line begins with that has a character."""
    indent = _INDENT.match(text, text.rfind("\n", 0, at) + 1)
    return indent[0] if indent else ""


def _dump_json(value: Any, unit: str, indent: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return f"\n{indent}".join(lines)


class _Range(NamedTuple):
    start: int
    end: int


class _JsonObject(NamedTuple):
    """Where an object stands in a text, and the values of its members."""

    start: int  # of its opening brace
    end: int  # of its closing one
    members: Mapping[str, _Range]

    @classmethod
    def read(cls, plain: str, start: int) -> _JsonObject:
        """The object at a place of sound JSON."""
        members, decoder = dict[str, _Range](), json.JSONDecoder()
        at = _skip_space(plain, start + 1)
        while plain[at] != "}":
            name, end = decoder.raw_decode(plain, at)
            value_start = _skip_space(plain, _skip_space(plain, end) + 1)  # after the colon
            _, value_end = decoder.raw_decode(plain, value_start)
            members[name] = _Range(value_start, value_end)
            at = _skip_space(plain, value_end)
            at = _skip_space(plain, at + 1) if plain[at] == "," else at
        return cls(start, at, members)

    def add_member(self, text: str, bare: str, name: str, value: Any, unit: str) -> str:
        """The text with a new last member, after the comments of the one before.

        `bare` is the text without comments.
        """
        outer = _indent_of(text, self.start)
        inner, last = outer + unit, max((end for _, end in self.members.values()), default=self.start + 1)
        comma = "," if self.members and "," not in bare[last : self.end] else ""
        between = text[last : self.end].rstrip()
        member = f"{json.dumps(name)}: {_dump_json(value, unit, inner)}"
        return f"{text[:last]}{comma}{between}\n{inner}{member}\n{outer}{text[self.end :]}"


def _drop_options(body: str, names: set[str]) -> str:
    """The lines of a TOML table without some options, whose values may have several lines."""
    kept, lines = list[str](), body.split("\n")
    while lines:
        line = lines.pop(0)
        if line.partition("=")[0].strip().strip("\"'") not in names or "=" not in line:
            kept.append(line)
            continue
        while lines:  # until its value is whole
            try:
                tomllib.loads(line)
                break
            except tomllib.TOMLDecodeError:
                line = f"{line}\n{lines.pop(0)}"
    return "\n".join(kept)
