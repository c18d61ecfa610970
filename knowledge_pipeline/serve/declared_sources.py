"""What a source that is declared over HTTP may name: no code, and only what the operator allows of the rest.

The holder of a token is not the server's operator. Variables and code are checked as they are written, paths
and addresses as the source has them that would be opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from knowledge_pipeline.config.connections import (
    ArchiveFileConnection,
    AzureConnection,
    Connection,
    GcsConnection,
    GitConnection,
    LocalConnection,
    S3Connection,
)
from knowledge_pipeline.config.operation import ServeSettings
from knowledge_pipeline.config.problems import SECRET_KEYS
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.real_paths import resolve_links
from knowledge_pipeline.text import is_list, is_object

_CUSTOM_PARTS = ("metadata", "chunking", "sanitize")  # whose key `custom` names code
_CODE_KEYS = {("files", "extractor"), ("connection", "use"), *((part, "custom") for part in _CUSTOM_PARTS)}
_SECRET = re.compile(r"\$\{(\w+)\}")
_ROOTS = "only folders below serve.source_roots may be named over HTTP: ask the operator"


def require_safe_entry(entry: Mapping[str, Any]) -> None:
    """Refuse an entry that names code, a model, a query, or a variable outside of a secret."""
    if entry.get("embedding") is not None:
        raise InvalidQuery("embedding: a model is not named over HTTP: write it into knowledge.yaml")
    for keys, value in _iter_values(entry, ()):
        key = ".".join(keys)
        if keys[:2] in _CODE_KEYS:
            raise InvalidQuery(f"{key}: code is not named over HTTP: write it into knowledge.yaml")
        if keys == ("connection", "query"):
            raise InvalidQuery(f"{key}: queries are not named over HTTP: write it into knowledge.yaml")
        if "${" in value and not _is_secret(keys):
            raise InvalidQuery(f"{key}: over HTTP a variable may stand only in a secret, such as token")


def require_reachable(entry: Mapping[str, Any], source: SourceConfig, serve: ServeSettings) -> None:
    """Refuse a source that would open a path outside of `source_roots`, or send a secret where it may not go.

    Args:
        entry: as it came, with the names of variables.
        source: what is made of it, with its paths resolved.
        serve: `source_roots` and `source_secrets`.
    """
    for key, path in _iter_paths(source, ()):
        _require_below(key, path, serve.source_roots)
    connection = source.connection
    if isinstance(connection, GitConnection):
        _require_git_address(connection, serve.source_roots)
    if isinstance(connection, LocalConnection) and source.type == "git_history":
        _require_git_folder("connection.path", connection.path, serve.source_roots)
    bucket = connection.object if isinstance(connection, ArchiveFileConnection) else connection
    if isinstance(bucket, S3Connection | GcsConnection | AzureConnection):
        _require_own_identity(bucket)
    host = _find_host(connection)
    for keys, value in _iter_values(entry, ()):
        for name in _SECRET.findall(value) if _is_secret(keys) else ():
            if host is None or host not in serve.source_secrets.get(name, ()):
                raise InvalidQuery(
                    f"{'.'.join(keys)}: the variable {name} is not named for {host or 'this connection'} "
                    "in serve.source_secrets: ask the operator"
                )


def _is_secret(keys: tuple[str, ...]) -> bool:
    return keys[0] == "connection" and keys[-1] in SECRET_KEYS


def _iter_values(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if is_object(value):
        for key, inner in value.items():
            yield from _iter_values(inner, (*keys, key))
    elif is_list(value):
        for inner in value:
            yield from _iter_values(inner, keys)
    elif isinstance(value, str):
        yield keys, value


def _iter_paths(settings: BaseModel, keys: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Every path of this machine that settings hold, with its key."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from _iter_paths(value, (*keys, name))
        elif isinstance(value, Path):
            yield ".".join((*keys, name)), value


def _require_below(key: str, path: Path, roots: tuple[Path, ...]) -> Path:
    """The path with its links resolved; a pattern counts up to its first sign."""
    plain = Path(*takewhile(lambda part: not set(part) & set("*?["), path.parts))
    try:
        resolved = resolve_links(plain)
        exists = resolved.exists()
    except (OSError, RuntimeError, ValueError):
        raise InvalidQuery(f"{key}: this is no path that can be read: give another") from None
    if not path.is_absolute() or not any(resolved.is_relative_to(root.resolve()) for root in roots):
        raise InvalidQuery(f"{key}: {_ROOTS}")
    if not exists:
        raise InvalidQuery(
            f"{key}: there is nothing at this path, and a link could come there: make it first"
        )
    return resolved


def _require_git_address(connection: GitConnection, roots: tuple[Path, ...]) -> None:
    """A repository of this machine has to be below a root with all that git opens for it."""
    try:
        address = connection.address
    except ValueError as error:
        raise InvalidQuery(f"connection.url: this is no address that git is given: {error}") from None
    if address.is_local:
        _require_git_folder("connection.url", Path(address.path), roots)


def _require_git_folder(key: str, path: Path, roots: tuple[Path, ...]) -> None:
    folder = _require_below(key, path, roots)
    for link in (folder / ".git", folder.with_name(f"{folder.name}.git")):
        if not link.exists():
            continue
        _require_below(key, link, roots)
        if link.is_file():  # "gitdir: PATH", as of a worktree
            with link.open(encoding="utf-8", errors="surrogateescape") as file:
                target = file.readline(4096).strip().partition("gitdir:")[2].strip()
            _require_below(key, link.parent / target, roots)


def _require_own_identity(bucket: S3Connection | GcsConnection | AzureConnection) -> None:
    """The identity of the server's environment is sent to its cloud alone."""
    names = ("anonymous", "access_key_id", "account_key", "sas_token")
    if bucket.endpoint_url and not any(getattr(bucket, name, None) for name in names):
        raise InvalidQuery(
            "connection.endpoint_url: over HTTP an endpoint is read without the server's identity: "
            "set anonymous, or name a secret"
        )


def _find_host(connection: Connection) -> str | None:
    """The host that secrets are sent to; that of GitHub stands for its API's."""
    host = connection.host
    return "github.com" if host == "api.github.com" else host and host.lower()
