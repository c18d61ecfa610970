"""Write a first `knowledge.yaml`; add and remove sources without touching a character of the rest.

Nothing is dumped again: the lines of one entry are inserted or removed where the parser's events place them,
so every other character stays, as no round trip of ruamel.yaml keeps it
(docs/decisions/structure-and-interfaces.md). The new text is validated before it replaces the file in one
step; on any error the file stays as it was. Environment variables may be missing here: a source can be added
on a machine without the secrets.
"""

# ruamel.yaml leaves its events untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

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

from knowledge_pipeline.config.file import check_config, format_problems, read_config
from knowledge_pipeline.config.problems import ParsedConfig, parse_config
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import Busy, ConfigError, NotFound
from knowledge_pipeline.file_languages import (
    PARSED_LANGUAGES,
    VENDORED_FOLDERS,
    detect_language,
    is_openapi,
    is_package,
)

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
    yaml, stream = YAML(), io.StringIO()
    yaml.default_flow_style = False
    yaml.width = 1_000_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(_quote_unprintable(entry), stream)
    first, *others = stream.getvalue().rstrip("\n").split("\n")
    indented = [f"- {first}", *(f"  {line}" if line else "" for line in others)]
    block = "".join(f"{' ' * column if line else ''}{line}{line_end}" for line in indented)
    return before + gap + block + text[at:]


def remove_entry(text: str, index: int) -> str:
    """The text without a source and the comments that describe it; raises ConfigError as `insert_entry`."""
    sources = _locate_list(text, "sources")
    start, end = sources.items[index]
    if sources.is_flow:
        line = text.rfind("\n", 0, start) + 1
        whole = None if text[line:start].strip() else _FLOW_LINE_REST.match(text, end)
        if whole:
            return text[:line] + text[whole.end() :]
        rest = _FLOW_REST.match(text, end)
        kept, after = text[:start], text[rest.end() if rest else end :].lstrip(" ")
        return kept.rstrip(" ").removesuffix(",") + after if after.startswith("]") else kept + after
    line, column = _find_dash(text, start)
    begin = line
    while begin > 0:  # comment lines directly above it, those not indented deeper, go with it
        above = text.rfind("\n", 0, begin - 1) + 1
        if not _is_comment(text[above:begin]) or _count_indent(text[above:begin]) > column:
            break
        begin = above
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
    root = next((position for position, is_root in enumerate(is_node) if is_root), len(events))
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


def _find_dash(text: str, start: int) -> tuple[int, int]:
    line = start
    while line > 0:
        line = text.rfind("\n", 0, line) + 1
        if match := _DASH.match(text, line, start):
            return line, match.end() - 1 - line
        line -= 1
    raise ConfigError("an entry of the list does not start on a line of its own: edit the file by hand")


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


def _find_next_line(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _count_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def add_source(
    path: Path,
    entry: Mapping[str, Any],
    key: str = "sources",
    *,
    check: Callable[[SourceConfig], None] = lambda source: None,
) -> None:
    """Append one source, written as in the file: `${NAME}` for a secret, relative paths kept.

    With the key `organisations`, one of these. `check` is called with a source as it will be opened, and
    may raise. Raises ConfigError if the id is taken or the file is, or would be, invalid; Busy if someone
    else changed the file meanwhile.
    """
    path = path.resolve()
    text = read_config(path)
    _require_valid(text, path)
    before, added = parse_config(text, name=path.name), _to_plain(entry)
    entries = before.list_at(key)
    ids, singular = [item["id"] for item in entries], key.removesuffix("s")
    if (name := str(added.get("id"))) in ids:
        line = before.line_of((key, ids.index(name), "id"))
        raise ConfigError(f"{path.name}:{line}: there is a {singular} {name!r} already: choose another id")
    edited = insert_entry(text, added, key)
    settings, problems = _check_edit(edited, path)
    if settings is None or problems:
        raise ConfigError(f"the {singular} was not added: {problems}")
    for source in settings.sources[len(entries) :] if key == "sources" else ():
        check(source)
    after = parse_config(edited, name=path.name)
    _require_other_values_unchanged(before, after, {key: [*entries, *after.list_at(key)[-1:]]}, path)
    _replace_file(path, edited, expected=text)


def remove_source(path: Path, source_id: str) -> None:
    """Remove one source, with the comment lines directly above it and inside it.

    Raises NotFound for an unknown id, ConfigError if several have it or the rest needs it, and Busy.
    """
    path = path.resolve()
    text = read_config(path)
    before = parse_config(text, name=path.name)
    sources = before.list_at("sources")
    ids = [before.value_at(("sources", index, "id")) for index in range(len(sources))]
    indexes = [index for index, id_ in enumerate(ids) if id_ == source_id]
    if not indexes:
        raise NotFound(f"no source {source_id!r} in {path}: `knowledge sources list` shows them")
    if len(indexes) > 1:
        raise ConfigError(f"{len(indexes)} sources in {path} have the id {source_id!r}: rename one by hand")
    edited = remove_entry(text, indexes[0])
    if problems := _check_edit(edited, path)[1]:
        _require_valid(text, path)
        raise ConfigError(f"{source_id!r} was not removed, the rest needs it: {problems}")
    rest = [source for index, source in enumerate(sources) if index != indexes[0]]
    _require_other_values_unchanged(before, parse_config(edited, name=path.name), {"sources": rest}, path)
    _replace_file(path, edited, expected=text)


def _require_valid(text: str, path: Path) -> None:
    if problems := check_config(text, path, allow_unset=True)[1]:
        raise ConfigError(format_problems(problems, path))


def _check_edit(edited: str, path: Path) -> tuple[Settings | None, str]:
    """What an edit makes, and what is wrong with it, without the lines of a text that nobody has seen."""
    try:
        settings, problems = check_config(edited, path, allow_unset=True)
    except ConfigError as error:
        return None, str(error).split(": ", 2)[-1]
    return settings, "; ".join(str(problem) for problem in problems)


def _require_other_values_unchanged(
    before: ParsedConfig, after: ParsedConfig, changed: dict[str, list[Any]], path: Path
) -> None:
    """Refuse an edit that would change any other value: YAML allows shapes that the edit does not know."""
    if {**before.value, **changed} != {**{key: list[Any]() for key in changed}, **after.value}:
        raise ConfigError(f"{path} is written in an unusual way: edit it by hand")


def _replace_file(path: Path, text: str, *, expected: str) -> None:
    """Replace the file in one step, with the same permissions."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            shutil.copymode(path, name)
            if read_config(path) != expected:
                raise Busy(f"{path} was changed by someone else meanwhile: run the command again")
            Path(name).replace(path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None
    if os.name == "posix":  # make the new name survive a power cut, where folders can be synced
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _to_plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Only what YAML and JSON know: an entry may hold paths, tuples and read-only mappings."""

    def convert(value: Any) -> Any:
        return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else str(value)

    return json.loads(json.dumps(dict(entry), default=convert))


_MAX_FILES = 50_000
_MAX_SPECIFICATIONS = 2_000  # YAML and JSON files that are opened
_MAX_SPECIFICATION_BYTES = 5_000_000
_MAX_OPENED_BYTES = 200_000_000  # of all of them
_SKIPPED_FOLDERS = VENDORED_FOLDERS.union(
    ("node_modules", "venv", "site-packages", "__pycache__", "build", "target")
)
_MARKDOWN_SUFFIXES = {".md", ".markdown", ".mdx", ".rst"}
_PAGED_SUFFIXES = {".pdf", ".docx", ".pptx", ".xlsx"}
_SPECIFICATION_SUFFIXES = {".yaml", ".yml", ".json"}

_HEADER = """\
# What is indexed, and how: docs/configuration.md explains every key.
# Relative paths are relative to this file; secrets are written as ${NAME}.
version: 1

# Where the tables are stored. Keep this folder out of version control.
store: .knowledge
"""
_DESCRIPTIONS = {
    "code": "Source files, cut at functions and classes.",
    "markdown": "Markdown and reStructuredText, cut at headings.",
    "openapi": "OpenAPI and Swagger files, one chunk an operation.",
    "git_history": "Commits: message, author, changed files; the newest 1,000 unless `depth` says more.",
    "files": "PDF and Word files, with page numbers.",
}
USUAL_IDS = {"markdown": "docs", "openapi": "api", "git_history": "history"}
"""The ids of sources, or their last part, by type; those of other types are named as the type."""

_NO_SOURCES = """
# Nothing to index was found here yet. An example:
#   - id: code
#     type: code
#     connection:
#       type: git
#       url: https://example.com/team/project.git
sources: []
"""


def render_initial_config(
    folder: Path, *, config_folder: Path | None = None, repository: str | None = None
) -> str:
    """The text of a new file that declares what `folder` holds.

    `config_folder` is where the file will be (None: `folder` itself). With `repository`,
    a git URL, the sources read that repository instead, whatever it holds. Raises ConfigError
    if `folder` is not a folder.
    """
    if repository is not None:
        where = f"      type: git\n      url: {_quote_yaml(repository)}\n"
        types = ["code", "markdown", "openapi", "git_history"]
    else:
        try:
            path = Path(os.path.relpath(folder.absolute(), (config_folder or folder).absolute())).as_posix()
        except ValueError:  # another drive
            path = folder.absolute().as_posix()
        where = f"      type: local\n      path: {_quote_yaml(path)}\n"
        types = list(_detect_source_types(folder))
    if not types:
        return _HEADER + _NO_SOURCES
    entries = [
        f"  # {_DESCRIPTIONS[kind]}\n  - id: {USUAL_IDS.get(kind, kind)}\n    type: {kind}\n"
        f"    connection:\n{where}"
        + ('    include: ["*.pdf", "*.docx", "*.pptx", "*.xlsx"]\n' if kind == "files" else "")
        for kind in types
    ]
    return f"{_HEADER}\nsources:\n" + "\n".join(entries)


def write_initial_config(path: Path, folder: Path, *, repository: str | None = None) -> None:
    """Write the initial file; raises ConfigError if it exists, or `repository` holds a password."""
    text = render_initial_config(folder, config_folder=path.absolute().parent, repository=repository)
    _, problems = check_config(text, path)
    if problems:
        raise ConfigError(format_problems(problems[:1], path))
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} exists already: edit it, or remove it first") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None


def _quote_yaml(text: str) -> str:
    """The text as a YAML value in which nothing is taken for a variable."""
    is_plain = re.fullmatch(r"[\w./][\w./:@-]*", text, re.ASCII)
    return text if is_plain else to_flow_yaml(text.replace("${", "$${"))


def _detect_source_types(folder: Path) -> Iterator[str]:
    """By the names of files alone, and what YAML and JSON files say that they are."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: name the folder to index")
    types: set[str] = {"git_history"} if (folder / ".git").exists() else set()
    opened = opened_bytes = 0
    for path in _walk_files(folder):
        suffix = path.suffix.lower()
        if detect_language(path.name) in PARSED_LANGUAGES:
            types.add("code")
        if suffix in _MARKDOWN_SUFFIXES or path.name.lower() == "readme":
            types.add("markdown")
        if suffix in _PAGED_SUFFIXES:
            types.add("files")
        is_bounded = opened < _MAX_SPECIFICATIONS and opened_bytes < _MAX_OPENED_BYTES
        if suffix in _SPECIFICATION_SUFFIXES and "openapi" not in types and is_bounded:
            payload = _read_start(path)
            opened, opened_bytes = opened + 1, opened_bytes + len(payload)
            if is_openapi(payload):
                types.add("openapi")
    yield from (kind for kind in _DESCRIPTIONS if kind in types)


def _walk_files(folder: Path) -> Iterator[Path]:
    """Up to a bound, without links, hidden folders, and folders of dependencies and build results."""
    left = _MAX_FILES
    for root, folders, names in os.walk(folder):
        inside = Path(root).relative_to(folder).as_posix()
        folders[:] = sorted(
            name
            for name in folders
            if name[0] != "." and (name not in _SKIPPED_FOLDERS or is_package(f"{inside}/{name}"))
        )
        yield from (Path(root, name) for name in names[:left])
        left -= len(names)
        if left <= 0:
            return


def _read_start(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe would block
            return b""
        with path.open("rb") as file:
            return file.read(_MAX_SPECIFICATION_BYTES)
    except OSError:
        return b""
