"""The entries of `knowledge.yaml` for folders, repositories, services, organisations and tables.

Nothing is written before the repository has answered: a mistyped address leaves
`knowledge.yaml` unchanged.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin
from urllib.parse import urlsplit

from knowledge_pipeline.cli.session import Session, WrongUsage, resolve_config
from knowledge_pipeline.config.connections import ARCHIVE_NAME, GitConnection, LocalConnection
from knowledge_pipeline.config.model import SPELLINGS, SettingsModel
from knowledge_pipeline.config.sources import FILTER_TYPES, AttachmentSettings, SourceConfig
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.text import is_list, is_object

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings


SourceEntry = dict[str, Any]
"""One item of `sources`, as written in the file; `Any`: plain YAML values."""

_REPOSITORY_ADDRESS = re.compile(r"^(?:https?://(?P<host>[^/@\s]+)/)?(?P<path>[\w.-]+(?:/[\w.-]+)+)$")
_AZURE_ADDRESS = re.compile(
    r"https://(?P<account>[a-z0-9]+)\.blob\.core\.windows\.net/(?P<container>[^/?#]+)/?(?P<prefix>[^?#]*)"
)
_REPOSITORY_PROMPT = "Repository on GitHub or GitLab (its address)"
_HOSTED_KINDS = ("github_pr", "github_issues", "discussions", "releases", "snippets")


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """How a source type is added."""

    address_prompt: str  # "" if the service has one address
    token_variable: str
    id_suffix: str


SERVICE_KINDS = {
    "github_pr": ServiceKind(_REPOSITORY_PROMPT, "GITHUB_TOKEN", "pulls"),
    "github_issues": ServiceKind(_REPOSITORY_PROMPT, "GITHUB_TOKEN", "issues"),
    "discussions": ServiceKind("Repository on GitHub (its address)", "GITHUB_TOKEN", "discussions"),
    "releases": ServiceKind(_REPOSITORY_PROMPT, "GITHUB_TOKEN", "releases"),
    "snippets": ServiceKind("Project on GitLab (its address)", "GITLAB_TOKEN", "snippets"),
    "jira": ServiceKind("Address of the Jira site", "JIRA_TOKEN", "tickets"),
    "confluence": ServiceKind("Address of the Confluence site", "CONFLUENCE_TOKEN", "pages"),
    "slack": ServiceKind("", "SLACK_TOKEN", "slack"),
}
"""The types that are read from a service."""


def build_service_entry(
    kind: str, address: str, *, email: str | None, token_variable: str | None
) -> SourceEntry:
    """An entry without an id; it names the variable of the token ("": none, None: usual), never the token."""
    hosted = _parse_repository_address(address) if kind in _HOSTED_KINDS else None
    usual = "GITLAB_TOKEN" if hosted and hosted["type"] == "gitlab" else SERVICE_KINDS[kind].token_variable
    variable = usual if token_variable is None else token_variable
    identity = {**({"email": email} if email else {}), **({"token": f"${{{variable}}}"} if variable else {})}
    if email and kind not in ("jira", "confluence"):
        raise WrongUsage("--email is for Jira and Confluence: other services know the token's account")
    if hosted:
        return {"type": kind, "connection": {**hosted, **identity}}
    if kind == "slack":
        return {"type": kind, "connection": {"type": "slack", **identity}}
    if not re.match(r"^https?://[^\s/@]+", address):
        raise WrongUsage(
            f"{address!r} is not the address of a site: write it like https://example.atlassian.net"
        )
    return {"type": kind, "connection": {"type": kind, "url": address.rstrip("/"), **identity}}


def parse_wiki_url(address: str) -> SourceEntry | None:
    """The connection of a wiki of GitHub or GitLab, by its address in a browser; None for any other."""
    for mark in ("/-/wikis", "/wiki"):
        repository, separator, rest = address.partition(mark)
        host = urlsplit(repository).hostname or ""
        if separator and rest[:1] in ("", "/") and ("github" in host or "gitlab" in host):
            return {**_parse_repository_address(repository), "wiki": True}
    return None


def parse_bucket_url(address: str) -> SourceEntry | None:
    """The connection of `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or a container of Azure; else None."""
    scheme, separator, rest = address.partition("://")
    if scheme == "az":
        raise WrongUsage(
            "an az:// URL names no account: give https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX"
        )
    if container := _AZURE_ADDRESS.fullmatch(address):
        return {"type": "azure", **{name: value for name, value in container.groupdict().items() if value}}
    kind = {"s3": "s3", "gs": "gcs"}.get(scheme)
    if kind is None or not separator:
        return None
    bucket, _, prefix = rest.partition("/")
    return {"type": kind, "bucket": bucket, **({"prefix": prefix} if prefix else {})}


def is_archive_file(path: Path) -> bool:
    """Whether a path is of an archive on this machine, by its name."""
    return ARCHIVE_NAME.search(path.name) is not None and path.expanduser().is_file()


def build_archive_connection(bucket: SourceEntry) -> SourceEntry:
    """The connection of an object of a bucket, where the bucket's prefix is the name of an archive."""
    is_archive = ARCHIVE_NAME.search(bucket.get("prefix", ""))
    return {"type": "archive_file", "object": bucket} if is_archive else bucket


def derive_archive_name(path: str) -> str:
    """The first part of an id: the name of an archive."""
    return _to_slug(ARCHIVE_NAME.sub("", path.rpartition("/")[2])) or "archive"


def derive_service_name(entry: SourceEntry) -> str:
    """The first part of an id: the name of the repository or site."""
    connection: dict[str, str] = entry["connection"]
    if connection["type"] == "archive_file":
        return derive_archive_name(entry["connection"]["object"]["prefix"])
    keys = ("repository", "project", "bucket", "container")
    if path := next((connection[key] for key in keys if key in connection), None):
        name = path.rpartition("/")[2]
    else:
        name = (urlsplit(connection.get("url", "")).hostname or "workspace").partition(".")[0]
    return _to_slug(name) or "site"


def _to_slug(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")


def _parse_repository_address(address: str) -> SourceEntry:
    match = _REPOSITORY_ADDRESS.match(address.strip().rstrip("/").removesuffix(".git"))
    host, path = (match["host"] or "github.com", match["path"]) if match else ("", "")
    site = _build_site(host)
    if site["type"] == "gitlab":
        return {"type": "gitlab", "project": path, **site}
    if not host or path.count("/") != 1:
        raise WrongUsage(f"{address!r} is not a repository on GitHub or GitLab: give its address")
    return {"type": "github", "repository": path, **site}


def _build_site(host: str) -> dict[str, str]:
    """The service at a host, and its address where it is not the usual one."""
    if "gitlab" in host:
        return {"type": "gitlab", **({} if host == "gitlab.com" else {"url": f"https://{host}"})}
    return {"type": "github", **({} if host == "github.com" else {"url": f"https://{host}/api/v3"})}


_GIT_ADDRESS = re.compile(
    r"^(?:[a-z][a-z0-9+.-]*://|[^/@:\s]+@[^/:\s]+:|(?=[^/@:\s]+?\.[^/:\s])[^/:\s]++:)", re.IGNORECASE
)
_HOSTED = re.compile(
    r"(?P<host>[\w-]+(?:\.[\w-]+)+/)?(?P<name>[\w-][\w.-]*/[\w.-]+(?:/[\w.-]+)*?)(?:@(?P<branch>[\w./-]+))?/?"
)
"""`github.com/org/repo`, `gitlab.com/group/subgroup/repo@branch`, or `org/repo` of GitHub."""

_MAX_ID_CHARS = 64


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """A folder on this machine, or a git repository read at a branch's tip."""

    location: str
    branch: str | None = None
    token_variable: str | None = None  # the environment variable that holds the token
    is_git: bool | None = None  # None: unless the location is a folder with files, and no branch is named

    @classmethod
    def parse(
        cls, text: str, branch: str | None = None, token_variable: str | None = None
    ) -> RepositoryLocation:
        """A folder, an address, or what people write of one: `github.com/org/repo`, `org/repo@branch`.

        A folder that is there goes before a name on GitHub. Raises ConfigError for two branches.
        """
        match = _HOSTED.fullmatch(text)
        if match is None or Path(text).expanduser().exists() or _GIT_ADDRESS.match(text):
            return cls(text, branch, token_variable)
        if match["host"] is None and match["name"].count("/") > 1:
            return cls(text, branch, token_variable)
        if branch and match["branch"]:
            raise ConfigError(f"{text!r} and --branch name a branch each: give one")
        url = f"https://{match['host'] or 'github.com/'}{match['name']}"
        return cls(url, branch or match["branch"], token_variable, is_git=True)

    @property
    def is_local(self) -> bool:
        """Whether files are read from the folder as they are, rather than through git."""
        if self.is_git is not None:
            return not self.is_git
        folder = self._local_path
        has_objects = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
        is_bare = has_objects and not (folder / ".git").exists()
        return self.branch is None and folder.is_dir() and not is_bare

    @property
    def folder(self) -> Path:
        """The folder that it names."""
        return self._local_path.resolve()

    @property
    def _local_path(self) -> Path:
        return Path(self.location).expanduser()

    @property
    def url(self) -> str:
        """What git fetches from: an address, or the absolute path of a repository."""
        return self.location if _GIT_ADDRESS.match(self.location) else str(self.folder)

    @property
    def slug(self) -> str:
        """Its name as the first part of an id: "flask"."""
        if _GIT_ADDRESS.match(self.location):
            name = re.split(r"[/:]", self.location.rstrip("/").removesuffix("/.git"))[-1]
        else:
            name = self.folder.name
        return _to_slug(name.removesuffix(".git")) or "repo"

    def require_valid(self) -> None:
        """Raises ConfigError if it is neither a folder nor an address."""
        if not self._local_path.is_dir() and not _GIT_ADDRESS.match(self.location):
            raise ConfigError(
                f"{self.location!r} is neither a folder nor the address of a git repository, nor a name such "
                "as github.com/org/repo: correct it"
            )

    def to_connection(self) -> SourceEntry:
        """Its git connection, as written in the file."""
        entry: SourceEntry = {"type": "git", "url": self.url}
        if self.branch:
            entry["branch"] = self.branch
        if self.token_variable:
            entry["token"] = f"${{{self.token_variable}}}"
        return entry


def declare_sources(session: Session, repository: RepositoryLocation) -> tuple[list[str], list[str]]:
    """Declare the repository's sources in the file; returns the new ids, and all ids of its sources.

    Raises ConfigError if it holds nothing to index, and what the source raises if it cannot be listed.
    """
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.config.settings import Settings

    repository.require_valid()
    path = resolve_target_config(session)
    settings = load_settings(path) if path.exists() else Settings(store=path.parent / ".knowledge")
    used_ids = {source.id for source in settings.sources}
    added: list[SourceEntry] = []
    ids: list[str] = []
    for entry in _iter_proposed_entries(repository, path):
        proposed = validate_entry(entry, path)
        identity = _source_identity(proposed)
        declared = next((source for source in settings.sources if _source_identity(source) == identity), None)
        if declared:
            ids.append(declared.id)
        elif repository.is_local or _has_documents(proposed, settings):
            entry["id"] = choose_free_id(entry["id"], used_ids)
            used_ids.add(entry["id"])
            ids.append(entry["id"])
            added.append(entry)
    if not ids:
        raise ConfigError(f"nothing to index was found in {repository.location}: name another folder")
    add_entries(session, path, added)
    return [entry["id"] for entry in added], ids


def resolve_target_config(session: Session) -> Path:
    """The file in use, or the path for a new one: as named, or else in the current folder."""
    if session.config is not None:
        return resolve_config(session.config).absolute()
    try:
        return session.config_path
    except ConfigError:
        if os.environ.get("KNOWLEDGE_CONFIG"):
            raise
        return Path.cwd() / "knowledge.yaml"


def add_entries(session: Session, path: Path, entries: list[SourceEntry], key: str = "sources") -> None:
    """Add entries to a list of the file, and create it if there is none."""
    from knowledge_pipeline.config.edit import add_source, render_initial_config

    if not entries:
        return
    if not path.exists():
        head = render_initial_config(path.parent, repository="https://example.com").partition("\nsources:")[0]
        try:
            path.write_text(f"{head}\nsources: []\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None
        session.screen.print_note(f"Wrote {path}")
    for entry in entries:
        add_source(path, entry, key)
    session.use_config(path)


def choose_free_id(preferred: str, used_ids: set[str]) -> str:
    """The id, cut to the allowed length, with a number if it is taken."""
    name, count = preferred[:_MAX_ID_CHARS], 1
    while name in used_ids:
        count += 1
        name = f"{preferred[: _MAX_ID_CHARS - 4]}-{count}"
    return name


def _iter_proposed_entries(repository: RepositoryLocation, path: Path) -> Iterator[SourceEntry]:
    """One for each type that the repository may hold, with an id from its name."""
    from knowledge_pipeline.config.edit import render_initial_config
    from knowledge_pipeline.config.problems import parse_config

    if repository.is_local:
        text = render_initial_config(repository.folder, config_folder=path.parent)
    else:
        text = render_initial_config(path.parent, repository=repository.url)
    for entry in parse_config(text, name=path.name).value_at(("sources",)) or ():
        connection = entry["connection"] if repository.is_local else repository.to_connection()
        room = _MAX_ID_CHARS - len(entry["id"]) - 1
        yield {**entry, "id": f"{repository.slug[:room]}-{entry['id']}", "connection": connection}


def validate_entry(entry: Mapping[str, Any], path: Path) -> SourceConfig:
    """The entry as settings; its token is read from the environment, which may lack it."""
    from knowledge_pipeline.config.edit import insert_entry
    from knowledge_pipeline.config.file import check_config

    text = insert_entry("version: 1\nsources: []\n", entry)
    settings, problems = check_config(text, path)
    if settings is None or problems:
        raise ConfigError("; ".join(str(problem).partition("].")[2] or str(problem) for problem in problems))
    return settings.sources[0]


def _source_identity(source: SourceConfig) -> tuple[str, ...]:
    """Equal for two sources that read the same."""
    connection = source.connection
    if isinstance(connection, LocalConnection):
        return (source.type, "local", str(connection.path.resolve()))
    if isinstance(connection, GitConnection):
        return (source.type, "git", *connection.host_and_path, connection.branch or "")
    return (source.type, connection.type, connection.location)


def _has_documents(source: SourceConfig, settings: Settings) -> bool:
    from knowledge_pipeline.connectors.registry import open_source
    from knowledge_pipeline.store.lake import Lake

    with open_source(source, cache=Lake(settings.store).cache) as opened:
        return any(True for _ in opened.discover())


_OPTIONS = {"id": "--id", "type": "TYPE", "connection.type": "--path or --url"}
"""Keys that have an option of their own, which decides other things as well."""

_SECTIONS = ("access", "chunking", "embedding", "metadata", "refresh", "sanitize")
_WIDTH = 78


def apply_assignments(entry: dict[str, Any], assignments: Sequence[str]) -> None:
    """Set keys such as `access.visibility=private` in an entry; what is wrong with them, its settings say.

    Of a list, a value has one or several, separated by commas, and repeating the key adds to it.

    Raises `WrongUsage`: an assignment is not `KEY=VALUE`, or its key has an option of its own.
    """
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        *holders, key = name.strip().split(".")
        if not equals or not all((*holders, key)):
            raise WrongUsage(f"found --set {assignment}; allowed: a key of the source: labels=bug,urgent")
        if option := _OPTIONS.get(name.strip()):
            raise WrongUsage(f"--set cannot set {name.strip()}: {option} does")
        section: dict[str, Any] = entry
        for holder in holders:
            inner = section.setdefault(holder, {})
            if not is_object(inner):
                raise WrongUsage(f"--set {name}: {holder} holds a value, not keys")
            section = inner
        value = _read_value(text, _find_annotation(entry, (*holders, key)))
        present = section.get(key)
        section[key] = [*present, *value] if is_list(present) and is_list(value) else value


def describe_keys() -> str:
    """The keys of `--set` by type of source, as lines for the help."""
    lines = ["every type", *_wrap([*_list_common_keys()])]
    for source_type in dict.fromkeys(type_ for types in FILTER_TYPES.values() for type_ in types):
        lines += [source_type, *_wrap([*_list_own_keys(source_type)])]
    return "\n".join(lines)


def _list_own_keys(source_type: str) -> Iterator[str]:
    """The filters of a type, by the keys of those that are sections; attachments can be switched, too."""
    from knowledge_pipeline.config.problems import list_models

    for name, types in FILTER_TYPES.items():
        if source_type in types:
            models = list_models(SourceConfig.model_fields[name].annotation)
            if not models or AttachmentSettings in models:
                yield name
            yield from (f"{name}.{key}" for model in models for key in model.model_fields)


def _wrap(names: Sequence[str]) -> list[str]:
    return textwrap.wrap(", ".join(names), _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _list_common_keys() -> Iterator[str]:
    """Keys of the sections that every source has; of a connection and an embedding there are many."""
    from knowledge_pipeline.config.problems import list_models

    yield from ("namespace", "content_type", "upstream")
    for section in _SECTIONS:
        (model,) = list_models(SourceConfig.model_fields[section].annotation)
        yield from (f"{section}.{name}" for name in model.model_fields)
    yield "connection.KEY"


def _find_annotation(entry: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The type of a key; None for an unknown one, which the settings refuse. `Any`: a type's own type."""
    from knowledge_pipeline.config.problems import list_models

    models: list[type[SettingsModel]] = [SourceConfig]
    annotation: Any = None
    for key in path:
        name = SPELLINGS.get(key, key)
        fields = [model.model_fields[name] for model in models if name in model.model_fields]
        annotation = fields[0].annotation if fields else None
        models = list_models(annotation)
        if key == "connection":
            tag = entry["connection"].get("type")
            models = [model for model in models if tag in get_args(model.model_fields["type"].annotation)]
    return annotation


def _read_value(text: str, annotation: Any) -> Any:
    """A value as the file would have it: lists by commas or as JSON, numbers and switches, else the text."""
    parts = _list_types(annotation)
    if any(part in (tuple, list) for part in parts):
        return _parse_json(text) if text.startswith("[") else [item.strip() for item in text.split(",")]
    is_switch = text in ("true", "false") and AttachmentSettings in parts  # of a whole section
    is_plain = not parts.isdisjoint({bool, int, float}) or text.startswith("{") or is_switch
    return _parse_json(text) if is_plain else text


def _parse_json(text: str) -> Any:
    with suppress(ValueError):
        return json.loads(text)
    return text


def _list_types(annotation: Any) -> set[Any]:
    """The types in an annotation, and the generic ones: `tuple[str, ...] | None` has tuple and str."""
    types = {get_origin(annotation) or annotation}
    for part in get_args(annotation):
        types |= _list_types(part) if not isinstance(part, str) else set[Any]()
    return types


_OF_SITES = {"jira": "jira_projects", "confluence": "confluence_spaces", "slack": "slack_channels"}
_ADDRESS = re.compile(
    r"^(?:https?://)?(?P<host>[\w-]+(?:\.[\w-]+)+(?::\d+)?)/(?P<path>[\w.-]+(?:/[\w.-]+)*)$"
)


def build_organisation_connection(
    kind: str, address: str, *, email: str | None, token_variable: str | None
) -> SourceEntry:
    """The connection of an organisation, by the type of its members' sources and the address of all."""
    if kind in _OF_SITES:
        entry = build_service_entry(kind, address, email=email, token_variable=token_variable)
        return {**entry["connection"], "type": _OF_SITES[kind]}
    if email:
        raise WrongUsage("--email is for Jira and Confluence")
    if bucket := parse_bucket_url(address):
        if token_variable:
            raise WrongUsage("a bucket takes no --token-env: see --set connection.access_key_id")
        if pattern := find_archive_pattern(address):
            return {**bucket, "type": f"{bucket['type']}_archives", "prefix": pattern.rpartition("/")[0]}
        return {**bucket, "type": f"{bucket['type']}_folders"}
    match = _ADDRESS.match(address.strip().rstrip("/"))
    if match is None or ("gitlab" not in match["host"] and "/" in match["path"]):
        raise WrongUsage(
            f"{address!r} is no organisation: give github.com/NAME, gitlab.com/GROUP, s3://BUCKET/PREFIX, "
            "the address of a Jira or Confluence site, or --path FOLDER"
        )
    site = _build_site(match["host"])
    is_gitlab = site.pop("type") == "gitlab"
    identity = {"token": f"${{{token_variable or ('GITLAB_TOKEN' if is_gitlab else 'GITHUB_TOKEN')}}}"}
    if is_gitlab:
        return {"type": "gitlab_group", "group": match["path"], **site, **identity}
    return {"type": "github_organisation", "organisation": match["path"], **site, **identity}


def find_archive_pattern(address: str) -> str | None:
    """The names of archives that `s3://BUCKET/PREFIX/*.zip` means; None for any other address."""
    prefix = (parse_bucket_url(address) or {}).get("prefix", "")
    name = prefix.rpartition("/")[2]
    return prefix if "*" in name and ARCHIVE_NAME.search(name) else None


def choose_organisation_id(connection: SourceEntry, used_ids: set[str]) -> str:
    """The name of the organisation, the site or the folder, with a number where that is taken."""
    keys: dict[str, str] = connection
    names = (keys.get(key) for key in ("organisation", "group", "prefix", "bucket", "path"))
    name = next((path.rstrip("/").rpartition("/")[2] for path in names if path), "")
    name = name or (urlsplit(keys.get("url", "")).hostname or "").partition(".")[0]
    slug = _to_slug(name)[:30] or keys["type"].partition("_")[0]
    numbers = ["", *map(str, range(2, len(used_ids) + 3))]  # no "-2": ids do not begin with another and "-"
    return next(f"{slug}{number}" for number in numbers if f"{slug}{number}" not in used_ids)


_DATABASE_SUFFIXES = (".duckdb", ".ddb", ".db")
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


def build_table_entry(path: Path | None, url: str | None, *, relative_to: Path) -> tuple[SourceEntry, str]:
    """The entry of a file, a pattern or a database, without its query; and the first part of its id."""
    if (path is None) == (url is None):
        raise WrongUsage("a table needs --path FILE, or --url '${NAME}' with the variable of its address")
    if path is not None:
        kind = "duckdb" if path.suffix.lower() in _DATABASE_SUFFIXES else "table_files"
        name = path.stem if "*" not in path.stem else path.parent.name
        connection = {"type": kind, "path": relative_path(path, relative_to, follow_links=False)}
    elif variable := _VARIABLE.fullmatch(url or ""):
        connection, name = {"type": "postgres", "dsn": url}, variable[1]
    else:
        raise WrongUsage(
            "the address of a database holds a password: put it into a variable, and write --url '${NAME}'"
        )
    return {"type": "table", "connection": connection}, _to_slug(name) or "table"


def relative_path(path: Path, config: Path, *, follow_links: bool = True) -> str:
    """The path, or pattern, relative to the file's folder if it is inside, or else absolute."""
    path, parent = path.expanduser().absolute(), config.absolute().parent
    if follow_links:
        path, parent = path.resolve(), config.resolve().parent
    return path.relative_to(parent).as_posix() if path.is_relative_to(parent) else path.as_posix()
