"""Find and read `knowledge.yaml`, and report all of its problems at once.

Only this module reads the environment: `${NAME}` inside text, `KNOWLEDGE_CONFIG`,
`KNOWLEDGE_STORE`, `KNOWLEDGE_EMBEDDING_MODE` and `KNOWLEDGE_SYNC_MODE`. Secrets come from there only, and no
message of this module holds a value that came from there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError, create_model

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.model import UnsetSecret, UnsetText
from knowledge_pipeline.config.organisations import LISTINGS, read_listing
from knowledge_pipeline.config.problems import (
    SECRET_KEYS,
    ConfigPath,
    ConfigProblem,
    ParsedConfig,
    parse_config,
    to_problem,
)
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig, resolve_trigger
from knowledge_pipeline.config.store import ObjectStore, StoreOptions, parse_store_url
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.real_paths import resolve_links
from knowledge_pipeline.text import is_list, is_object

CONFIG_NAME = "knowledge.yaml"

_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
_SECRET = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_PASSWORD_IN_URL = re.compile(r"://[^/\s?#@]*:[^/\s?#]*@")
_TOKEN_IN_URL = re.compile(
    r"https?://[^/\s?#@:]{20,}@|[?&](access_token|private_token|api[-_]?key|token|password)=", re.IGNORECASE
)
_WRITTEN_OUT = "found a secret written in the file; allowed: ${NAME}, with the secret in that variable"
_INSIDE_URL = "found a password or token inside a URL; allowed: a URL without one, and `token: ${NAME}`"

_LEADS_NOWHERE = "a path that leads nowhere"  # a loop of links, a `~user` that does not exist

_CONNECTED = ("sources", "organisations")  # their entries have a connection

_PATH_KEYS = {
    ("connection", "path"),
    ("metadata", "coverage"),
    ("context", "templates"),
    ("settings", "path"),
}
_PATH_LIST_KEYS = {("evaluation", "questions"), ("sql_models", "folders"), ("serve", "source_roots")}
_OPTIONAL_PATH_KEYS = {  # `./x`, if it exists
    *(("connection", "url"), ("embedding", "model"), ("rerank", "model"), ("context", "tokenizer")),
    *(("code", "model"), ("prose", "model")),  # of `embedding_by_content`
}
_CONSEQUENT_ERROR = "default_factory_not_called"  # because of another error, which is reported


def find_config(start: Path) -> Path:
    """The file to use: `KNOWLEDGE_CONFIG`, or in `start` or its nearest parent; else raises ConfigError."""
    if variable := os.environ.get("KNOWLEDGE_CONFIG"):
        path = Path(variable).expanduser().absolute()
        if not path.is_file():
            raise ConfigError(f"KNOWLEDGE_CONFIG names {path}, which is not a file: correct it or unset it")
        return path
    folder = start.absolute()
    for parent in (folder, *folder.parents):
        if (parent / CONFIG_NAME).is_file():
            return parent / CONFIG_NAME
    raise ConfigError(f"no {CONFIG_NAME} in {folder} or a folder above it: run `knowledge init`")


def load_settings(path: Path, *, override: bool = True) -> Settings:
    """Read and validate one file, with the overrides of the environment unless told otherwise.

    Paths become absolute: those in the file are relative to its folder, the one in
    `KNOWLEDGE_STORE` to the working directory. Variables of secrets and connections may be missing:
    who opens what needs them is told. Raises ConfigError, with one line per problem.
    """
    stamp = _stat_parts(path)  # before it is read: whoever changes it meanwhile is noticed
    settings, problems = check_config(read_config(path), path)
    if settings is None or problems:
        raise ConfigError(format_problems(problems, path))
    if override and (store := os.environ.get("KNOWLEDGE_STORE")):
        settings = settings.model_copy(update=_override_store(settings, store))
    stamp += _stat_listings(settings)
    settings = _add_members(settings).with_stamp(stamp)
    return _apply_sync_mode(_apply_embedding_mode(settings)) if override else settings


def read_stamp(path: Path, settings: Settings) -> tuple[int, ...]:
    """What differs from `settings.stamp` once `load_settings` may say something else; () without a file."""
    stamp = _stat_parts(path)
    return stamp and stamp + _stat_listings(settings)


def _stat_listings(settings: Settings) -> tuple[int, ...]:
    """What differs once an organisation is listed anew: each listing is renamed into the folder."""
    return _stat_parts(settings.local_folder / LISTINGS) if settings.organisations else ()


def _stat_parts(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def read_config(path: Path) -> str:
    """The text of the file, with its line ends; raises ConfigError if it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise ConfigError(f"there is no {path}: run `knowledge init`") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path.name}:{line}: the file is not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): check its permissions") from None


def _add_members(settings: Settings) -> Settings:
    sources: list[SourceConfig] = []
    unlisted: list[str] = []
    declared = {source.id for source in settings.sources}
    for organisation in settings.organisations:
        location = organisation.connection.location
        listing = read_listing(settings.local_folder / LISTINGS, organisation.id, location)
        if listing is None:
            unlisted.append(organisation.id)
            continue
        for member in filter(organisation.takes, listing.members):
            for source in organisation.build_sources(member):
                if source.id in declared:
                    raise ConfigError(
                        f"source {source.id!r} has the id of a source of organisation {organisation.id!r} "
                        f"(member {member.name}): rename it, or exclude the member"
                    )
                sources.append(source)
    return settings.with_members(sources, unlisted)


def list_variables(path: Path) -> list[str]:
    """The environment variables that questions need, in the file's order: all but those of connections.

    Raises as `load_settings`.
    """
    parsed = parse_config(read_config(path), name=path.name)
    for key in _CONNECTED:
        for entry in filter(is_object, parsed.list_at(key)):
            entry.pop("connection", None)
    values = json.dumps(parsed.value, default=str)
    return list(dict.fromkeys(match[1] for match in _VARIABLE.finditer(values) if match[1]))


def check_config(
    text: str, path: Path, *, allow_unset: bool = False
) -> tuple[Settings | None, list[ConfigProblem]]:
    """Validate a text as the content of `path`: its settings, or all of its problems.

    Variables of secrets and connections may be missing; with `allow_unset` all others too, for edits on
    another machine. Raises ConfigError if the text is not YAML.
    """
    parsed = parse_config(text, name=path.name)
    resolver = _ValueResolver(parsed, path.absolute().parent)
    values = resolver.resolve_value(parsed.value, ())
    if is_object(values):
        values = _apply_defaults(values, resolver.folder)
        _report_duplicate_ids(parsed)
    settings, refused, unset = None, set[ConfigPath](), resolver.unset
    try:
        settings = _validate(values)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        problems = [to_problem(error, parsed) for error in errors if error["type"] != _CONSEQUENT_ERROR]
        refused = {problem.key_path for problem in problems}
        reported = {problem.key_path for problem in parsed.problems}.union(*map(_list_refusable, unset))
        if any(key_path[2:] == ("id",) for key_path in reported):  # the schema reports double ids too
            reported.add(())
        parsed.problems += [problem for problem in problems if problem.key_path not in reported]
    if not allow_unset:
        parsed.problems += [
            problem
            for key_path, problem in unset.items()
            if not (_may_wait(key_path) and refused.isdisjoint(_list_refusable(key_path)))
        ]
    if settings and unset:
        _note_unset(settings, unset.values(), path)
    return settings, sorted(parsed.problems, key=lambda problem: problem.line)


def _may_wait(key_path: ConfigPath) -> bool:
    """Whether only those who open something need a value: a secret, or a part of a connection."""
    is_connection = key_path[2:3] == ("connection",) and key_path[0] in _CONNECTED
    return is_connection or not SECRET_KEYS.isdisjoint(key_path[-1:])


def _list_refusable(key_path: ConfigPath) -> set[ConfigPath]:
    """What may be refused because of a value without its variable: the value, and what text is a part of."""
    lengths = range(2, len(key_path)) if SECRET_KEYS.isdisjoint(key_path[-1:]) else ()
    return {key_path, *(key_path[:length] for length in lengths)}


def _note_unset(settings: Settings, unset: Collection[ConfigProblem], path: Path) -> None:
    """Let settings know their variables that are not set, and sources and organisations their own."""
    settings.note_unset([format_problems([problem], path) for problem in unset])
    by_entry: dict[ConfigPath, list[str]] = {}
    for problem in unset:
        by_entry.setdefault(problem.key_path[:2], []).append(str(problem))
    for key in _CONNECTED:
        for index, entry in enumerate(getattr(settings, key)):
            entry.note_unset(by_entry.get((key, index), ()))


def _validate(values: Any) -> Settings:
    """As `Settings.model_validate`, without building the rules of keys that the file does not have."""
    if is_object(values):
        with suppress(ValidationError):  # which would name another class
            absent = frozenset(Settings.model_fields.keys() - values.keys())
            settings = _omit_rules(absent).model_validate(values)
            return Settings.model_construct(_fields_set=settings.model_fields_set, **settings.__dict__)
    return Settings.model_validate(values)


@lru_cache(maxsize=8)
def _omit_rules(names: frozenset[str]) -> type[Settings]:
    """The class of settings, with any value at keys that a file lacks; their defaults are the same."""
    fields: Any = {name: (Any, Settings.model_fields[name].default) for name in names}
    return create_model(Settings.__name__, __base__=Settings, **fields)


def _apply_defaults(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Put the default store into the file's folder, and make the version a number."""
    default = str(folder / Settings.model_fields["store"].default)
    store = values.get("store") or default
    version = 1 if values.get("version") == "1" else values.get("version")
    remote = isinstance(store, str) and "://" in store
    local = {"store_folder": values.get("store_folder") or default} if remote else {}
    return {**values, **local, "store": store, "version": version}


def _report_duplicate_ids(parsed: ParsedConfig) -> None:
    """Report the line of a repeated id, which the schema does not know."""
    first: dict[str, int] = {}
    for index in range(len(parsed.list_at("sources"))):
        key_path: ConfigPath = ("sources", index, "id")
        name, line = parsed.value_at(key_path), parsed.line_of(key_path)
        if isinstance(name, str) and first.setdefault(name, line) != line:
            text = f"found the id of the source on line {first[name]}; allowed: one that is new"
            parsed.add_problem(key_path, text)


def format_problems(problems: list[ConfigProblem], path: Path) -> str:
    """One line per problem: `knowledge.yaml:7: sources[0].type: found 'cod'; allowed: ...`."""
    return "\n".join(f"{path.name}:{problem.line}: {problem}" for problem in problems)


@dataclass(slots=True)
class _ValueResolver:
    """Replaces variables and resolves paths; adds what is wrong to `parsed.problems`."""

    parsed: ParsedConfig
    folder: Path
    unset: dict[ConfigPath, ConfigProblem] = field(default_factory=dict[ConfigPath, ConfigProblem])

    def resolve_value(self, value: Any, key_path: ConfigPath) -> Any:
        if is_object(value):
            return {key: self.resolve_value(inner, (*key_path, key)) for key, inner in value.items()}
        if is_list(value):
            return [self.resolve_value(inner, (*key_path, index)) for index, inner in enumerate(value)]
        return self._resolve_text(value, key_path) if isinstance(value, str) else value

    def _resolve_text(self, written: str, key_path: ConfigPath) -> str | SecretStr:
        is_secret = bool(key_path[-1:]) and key_path[-1] in SECRET_KEYS
        if is_secret and not _SECRET.fullmatch(written):
            self.parsed.add_problem(key_path, _WRITTEN_OUT)
        text = _VARIABLE.sub(lambda match: self._substitute_variable(match, key_path), written)
        if not is_secret and (_PASSWORD_IN_URL.search(text) or _TOKEN_IN_URL.search(text)):
            self.parsed.add_problem(key_path, _INSIDE_URL)
        if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
            problem = "found a character that cannot be stored; allowed: Unicode text"
            self.parsed.add_problem(key_path, problem)
            return ""
        if problem := self.unset.get(key_path):
            return UnsetSecret(text, str(problem)) if is_secret else UnsetText(text)
        return self._resolve_path(text, key_path)

    def _substitute_variable(self, match: re.Match[str], key_path: ConfigPath) -> str:
        name = match[1]
        if match[0] == "$${":
            return "${"
        if name is None:
            problem = "found '${' without a variable's name; allowed: ${NAME}, or $${ for '${'"
            self.parsed.add_problem(key_path, problem)
        elif name in os.environ:
            return os.environ[name]
        else:
            problem = f"the environment variable {name} is not set: set it"
            if former := self.unset.get(key_path):
                problem = f"{former.text}; {problem}"
            self.unset[key_path] = ConfigProblem(self.parsed.line_of(key_path), key_path, problem)
        return match[0]

    def _resolve_path(self, text: str, key_path: ConfigPath) -> str:
        if key_path == ("store",) and "://" in text:
            return text
        is_optional = key_path[-2:] in _OPTIONAL_PATH_KEYS and text.startswith(("./", "../"))
        is_store = key_path in (("store",), ("store_folder",))
        is_member = key_path[:2] == ("federation", "stores") and key_path[-1:] == ("path",)
        is_path = is_store or is_member or key_path[-2:] in _PATH_KEYS or key_path[:2] in _PATH_LIST_KEYS
        if not text or not (is_path or is_optional):
            return text
        try:
            path = resolve_links(self.folder / Path(text).expanduser())
        except (OSError, RuntimeError):
            self.parsed.add_problem(key_path, f"found {_LEADS_NOWHERE}; allowed: an existing folder or file")
            return text
        return str(path) if is_path or path.exists() else text


def _apply_embedding_mode(settings: Settings) -> Settings:
    mode = os.environ.get("KNOWLEDGE_EMBEDDING_MODE", "")
    if mode not in ("", "local", "api"):
        raise ConfigError("KNOWLEDGE_EMBEDDING_MODE must be `local` or `api`: correct it or unset it")
    if not mode:
        return settings
    own = settings.embedding_by_content
    by_content = {name: _switch_provider(embedding, mode) for name, embedding in own if embedding}
    sources = [
        source.model_copy(update={"embedding": _switch_provider(source.embedding, mode)})
        if source.embedding
        else source
        for source in settings.sources
    ]
    changes = {
        "embedding": _switch_provider(settings.embedding, mode),
        "embedding_by_content": own.model_copy(update=by_content),
        "sources": tuple(sources),
    }
    return settings.model_copy(update=changes)


def _apply_sync_mode(settings: Settings) -> Settings:
    mode = os.environ.get("KNOWLEDGE_SYNC_MODE", "")
    if mode not in ("", "realtime", "scheduled", "manual"):
        raise ConfigError(
            "KNOWLEDGE_SYNC_MODE must be `realtime`, `scheduled` or `manual`: correct it or unset it"
        )
    if not mode:
        return settings
    sources: list[SourceConfig] = []
    for source in settings.sources:
        trigger = resolve_trigger(source)
        if mode == "scheduled":
            changes = {"trigger": trigger if trigger in ("hourly", "weekly") else "daily"}
        else:
            changes = {"trigger": mode} | ({"full_reindex": "on_demand"} if mode == "manual" else {})
        sources.append(source.model_copy(update={"refresh": source.refresh.model_copy(update=changes)}))
    return settings.model_copy(update={"sources": tuple(sources)})


def _override_store(settings: Settings, store: str) -> dict[str, Any]:
    """What `KNOWLEDGE_STORE` changes; the options of the file apply to a store at a URL."""
    if "://" not in store:
        try:
            local = resolve_links(Path(store).expanduser())
        except (OSError, RuntimeError):
            raise ConfigError(f"KNOWLEDGE_STORE names {_LEADS_NOWHERE}: correct it or unset it") from None
        return {"store": local, "store_options": StoreOptions(), "store_folder": None}
    folder = settings.store.folder if isinstance(settings.store, ObjectStore) else settings.store
    try:
        url_store = parse_store_url(store).model_copy(update={"folder": folder})
        return {"store": settings.with_store_options(url_store)}
    except ValueError as error:
        raise ConfigError(f"KNOWLEDGE_STORE: {error}") from None


def _switch_provider(embedding: EmbeddingSettings, mode: str) -> EmbeddingSettings:
    """The same settings if the provider fits the mode, or else that provider's default model."""
    if (embedding.provider == "local") == (mode == "local"):
        return embedding
    if mode == "local":
        return EmbeddingSettings()
    key = os.environ.get("OPENAI_API_KEY")
    changes: dict[str, Any] = {
        "provider": "openai",
        "profile": None,
        "model": "text-embedding-3-small",
        "dimensions": 1536,
        "base_url": os.environ.get("OPENAI_BASE_URL") or embedding.base_url,
        "api_key": embedding.api_key or (SecretStr(key) if key else None),
        "ray": None,
    }
    return embedding.model_copy(update=changes)
