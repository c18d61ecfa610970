"""What a source that is declared over HTTP may say: less than one that the operator writes into the file.

Whoever holds a token is not the server's operator. A variable may stand only where a secret belongs, since
what it holds is shown everywhere else; code is named by the operator alone; and of the machine's files only
those below `serve.source_roots` may be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from knowledge_pipeline.config.problems import SECRET_KEYS
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.real_paths import resolve_links

_PATH_KEYS = frozenset(
    {
        ("connection", "path"),
        ("connection", "credentials"),
        ("connection", "object", "credentials"),
        ("metadata", "coverage"),
    }
)
_CODE_KEYS = frozenset(
    {
        ("metadata", "custom"),
        ("chunking", "custom"),
        ("sanitize", "custom"),
        ("files", "extractor"),
        ("connection", "use"),
    }
)
_QUERY_KEY = ("connection", "query")
_LOCAL_URL = "file://"


def require_safe_source(entry: Mapping[str, Any], folder: Path, roots: tuple[Path, ...]) -> None:
    """Check an entry of `sources`; relative paths are relative to a folder.

    Raises:
        InvalidQuery: it has a variable outside of a secret, names code or a query, or a path outside of
            the roots.
    """
    for keys, value in _iter_values(entry, ()):
        key = ".".join(keys)
        if keys[:2] in _CODE_KEYS:
            raise InvalidQuery(f"{key}: code is not named over HTTP: write it into knowledge.yaml")
        if keys == _QUERY_KEY:
            raise InvalidQuery(f"{key}: queries are not named over HTTP: write it into knowledge.yaml")
        if "${" in value and not SECRET_KEYS.intersection(keys):
            raise InvalidQuery(f"{key}: over HTTP a variable may stand only in a secret, such as token")
        if keys in _PATH_KEYS or (keys == ("connection", "url") and _is_local(value)):
            _require_below(key, value.removeprefix(_LOCAL_URL), folder, roots)


def _iter_values(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if is_object(value):
        for key, inner in value.items():
            yield from _iter_values(inner, (*keys, key))
    elif is_list(value):
        for inner in value:
            yield from _iter_values(inner, keys)
    elif isinstance(value, str):
        yield keys, value


def _is_local(url: str) -> bool:
    """Whether git would read this machine's files: a path, or `file://`; `host:path` is read by ssh."""
    before_slash = url.partition("/")[0]
    return url.startswith(_LOCAL_URL) or ("://" not in url and ":" not in before_slash)


def _require_below(key: str, path: str, folder: Path, roots: tuple[Path, ...]) -> None:
    try:
        resolved = resolve_links(folder / Path(path).expanduser())
    except (OSError, RuntimeError, ValueError):
        raise InvalidQuery(f"{key}: this is no path that can be read: give another") from None
    if not any(resolved.is_relative_to(root.resolve()) for root in roots):
        raise InvalidQuery(
            f"{key}: only folders below serve.source_roots may be named over HTTP: ask the operator"
        )
