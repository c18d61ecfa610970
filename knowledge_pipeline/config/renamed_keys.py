"""Keys of `knowledge.yaml` that have a new name; the old name is still read for one version."""

from __future__ import annotations

import logging

from knowledge_pipeline.config.yaml_lines import ConfigPath, ParsedConfig, format_key_path

RENAMED_KEYS: dict[ConfigPath, str] = {
    ("embedding", "ray", "from_texts"): "min_texts",
    ("query", "cache", "megabytes"): "max_megabytes",
    ("query", "cache", "minutes"): "ttl_minutes",
    ("query", "related"): "max_related",
    ("serve", "log"): "log_format",
    ("serve", "log_content"): "log_queries",
    ("serve", "names"): "allowed_hosts",
    ("serve", "traces", "content"): "include_content",
    ("serve", "traces", "sample"): "sample_ratio",
}
"""The path of an old key, of a source or of the whole file, and the new last part."""

_log = logging.getLogger(__name__)


def rename_key(key_path: ConfigPath, *, where: str) -> ConfigPath:
    """The path under its new name; the log warns of an old one, naming `where` it was found."""
    within_source = key_path[:1] == ("sources",) and len(key_path) > 2
    new = RENAMED_KEYS.get(key_path[2:] if within_source else key_path)
    if new is None:
        return key_path
    renamed = (*key_path[:-1], new)
    old_name, new_name = format_key_path(key_path), format_key_path(renamed)
    _log.warning("%s: %s is now %s; the next version no longer reads the old name", where, old_name, new_name)
    return renamed


def rename_keys(parsed: ParsedConfig, *, name: str) -> None:
    """Give the old keys of a file, and all below them, their new names; both at once are a problem."""
    for old in [path for path in parsed.lines if path and isinstance(path[-1], str)]:
        line = parsed.lines[old]
        new = rename_key(old, where=f"{name}:{line}")
        if new == old:
            continue
        values = parsed.value_at(old[:-1])
        if new in parsed.lines:
            parsed.add_problem(old, f"found the old name of {format_key_path(new)}; allowed: one of the two")
            del values[old[-1]]
            continue
        parsed.value_at(old[:-1])[new[-1]] = values.pop(old[-1])
        depth = len(old)
        parsed.lines = {
            (*new, *path[depth:]) if path[:depth] == old else path: at for path, at in parsed.lines.items()
        }
