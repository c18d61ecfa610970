"""The sources that a folder or a repository needs, and the entries that declare them.

Nothing is written before the repository has answered: a mistyped address leaves
`knowledge.yaml` unchanged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.session import Session, resolve_config
from knowledge_pipeline.cli.sources.service_entries import SourceEntry
from knowledge_pipeline.errors import ConfigError

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.config.sources.source import SourceConfig

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
        named = _HOSTED.fullmatch(text)
        if named is None or Path(text).expanduser().exists() or _GIT_ADDRESS.match(text):
            return cls(text, branch, token_variable)
        if named["host"] is None and named["name"].count("/") > 1:
            return cls(text, branch, token_variable)
        if branch and named["branch"]:
            raise ConfigError(f"{text!r} and --branch name a branch each: give one")
        url = f"https://{named['host'] or 'github.com/'}{named['name']}"
        return cls(url, branch or named["branch"], token_variable, is_git=True)

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
        return re.sub(r"[^a-z0-9_-]+", "-", name.removesuffix(".git").lower()).strip("-_") or "repo"

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
        declared = next((each for each in settings.sources if _source_identity(each) == identity), None)
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
    from knowledge_pipeline.config.edit import add_source
    from knowledge_pipeline.config.template import render_initial_config

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
    from knowledge_pipeline.config.template import render_initial_config
    from knowledge_pipeline.config.yaml_lines import parse_config

    if repository.is_local:
        text = render_initial_config(repository.folder, config_folder=path.parent)
    else:
        text = render_initial_config(path.parent, repository=repository.url)
    for entry in parse_config(text, name=path.name).value_at(("sources",)) or ():
        connection = entry["connection"] if repository.is_local else repository.to_connection()
        room = _MAX_ID_CHARS - len(entry["id"]) - 1
        yield {**entry, "id": f"{repository.slug[:room]}-{entry['id']}", "connection": connection}


def validate_entry(entry: Mapping[str, Any], path: Path, *, allow_unset: bool = False) -> SourceConfig:
    """The entry as settings; its token is read from the environment.

    Raises:
        ConfigError: a value is invalid, or (unless allowed) an environment variable is not set.
    """
    from knowledge_pipeline.config.file import check_config
    from knowledge_pipeline.config.yaml_edit import insert_entry

    text = insert_entry("version: 1\nsources: []\n", entry)
    settings, problems = check_config(text, path, allow_unset=allow_unset)
    if settings is None or problems:
        raise ConfigError("; ".join(str(problem).partition("].")[2] or str(problem) for problem in problems))
    return settings.sources[0]


def _source_identity(source: SourceConfig) -> tuple[str, ...]:
    """Equal for two sources that read the same."""
    from knowledge_pipeline.config.connections.local import LocalConnection
    from knowledge_pipeline.config.connections.repositories import GitConnection

    connection = source.connection
    if isinstance(connection, LocalConnection):
        return (source.type, "local", str(connection.path.resolve()))
    if isinstance(connection, GitConnection):
        return (source.type, "git", *connection.host_and_path, connection.branch or "")
    return (source.type, connection.type, connection.location)


def _has_documents(source: SourceConfig, settings: Settings) -> bool:
    from knowledge_pipeline.sources.registry import open_source
    from knowledge_pipeline.store.lake import Lake

    with open_source(source, cache=Lake(settings.store).cache) as opened:
        return any(True for _ in opened.discover())
