"""Add and remove sources in `knowledge.yaml` without touching a character of the rest.

The new text is validated before it replaces the file in one step; on any error the file
stays as it was. Environment variables may be missing here: a source can be added on a
machine without the secrets.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from knowledge_pipeline.config.file import check_config, format_problems, read_config
from knowledge_pipeline.config.yaml_edit import insert_entry, remove_entry
from knowledge_pipeline.config.yaml_lines import ParsedConfig, parse_config
from knowledge_pipeline.errors import Busy, ConfigError, NotFound


def add_source(path: Path, entry: Mapping[str, Any], key: str = "sources") -> None:
    """Append one source, written as in the file: `${NAME}` for a secret, relative paths kept.

    With the key `organisations`, one of these.

    Raises:
        ConfigError: the id is taken, or the file, before or with the entry, is invalid.
        Busy: someone else changed the file meanwhile.
    """
    path = path.resolve()
    text = read_config(path)
    _require_valid(text, path)
    before, added = parse_config(text, name=path.name), _to_plain(entry)
    known = before.list_at(key)
    ids, singular = [each["id"] for each in known], key.removesuffix("s")
    if (name := str(added.get("id"))) in ids:
        line = before.line_of((key, ids.index(name), "id"))
        raise ConfigError(f"{path.name}:{line}: there is a {singular} {name!r} already: choose another id")
    edited = insert_entry(text, added, key)
    if problems := _describe_problems(edited, path):
        raise ConfigError(f"the {singular} was not added: {problems}")
    after = parse_config(edited, name=path.name)
    _require_other_values_unchanged(before, after, {key: [*known, *after.list_at(key)[-1:]]}, path)
    _replace_file(path, edited, expected=text)


def remove_source(path: Path, source_id: str) -> None:
    """Remove one source, with the comment lines directly above it and inside it.

    Raises:
        NotFound: no source has this id.
        ConfigError: several have it, or the file would be invalid without it.
        Busy: someone else changed the file meanwhile.
    """
    path = path.resolve()
    text = read_config(path)
    before = parse_config(text, name=path.name)
    positions = range(len(before.sources))
    found = [index for index in positions if before.value_at(("sources", index, "id")) == source_id]
    if not found:
        raise NotFound(f"no source {source_id!r} in {path}: `knowledge sources list` shows them")
    if len(found) > 1:
        raise ConfigError(f"{len(found)} sources in {path} have the id {source_id!r}: rename one by hand")
    edited = remove_entry(text, found[0])
    if problems := _describe_problems(edited, path):
        _require_valid(text, path)
        raise ConfigError(f"{source_id!r} was not removed, the rest needs it: {problems}")
    rest = [source for index, source in enumerate(before.sources) if index != found[0]]
    _require_other_values_unchanged(before, parse_config(edited, name=path.name), {"sources": rest}, path)
    _replace_file(path, edited, expected=text)


def _require_valid(text: str, path: Path) -> None:
    if problems := check_config(text, path, allow_unset=True)[1]:
        raise ConfigError(format_problems(problems, path))


def _describe_problems(edited: str, path: Path) -> str:
    """What is wrong with an edit, without the lines of a text that nobody has seen."""
    try:
        _, problems = check_config(edited, path, allow_unset=True)
    except ConfigError as error:
        return str(error).split(": ", 2)[-1]
    return "; ".join(str(problem) for problem in problems)


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


def _to_plain(value: Any) -> Any:
    """Only what YAML and JSON know. `Any`: an entry may hold paths, tuples and read-only mappings."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value).items()
        return {str(key): _to_plain(inner) for key, inner in entries}
    if isinstance(value, (list, tuple)):
        return [_to_plain(inner) for inner in cast("Sequence[Any]", value)]
    return str(value) if isinstance(value, Path) else value
