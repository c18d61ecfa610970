"""Which sources a folder or a repository needs, and the entries that declare them.

Nothing is written before the repository has answered: a mistyped address leaves
`knowledge.yaml` as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.errors import ConfigError

if TYPE_CHECKING:
    from knowledge_pipeline.cli.session import Session
    from knowledge_pipeline.config.settings import Connection, Settings, SourceConfig

SourceEntry = dict[str, Any]

_GIT_ADDRESS = re.compile(
    r"^(?:[a-z][a-z0-9+.-]*://|[^/@:\s]+@[^/:\s]+:|[^/@:\s]+\.[^/:\s]+:)", re.IGNORECASE
)
_MAX_ID_CHARS = 64
_NO_SOURCES_YAML = "\nsources: []\n"


@dataclass(frozen=True, slots=True)
class RepositoryLocation:
    """A folder of this machine, or a git repository read at a branch's tip."""

    location: str
    branch: str | None = None
    token_variable: str | None = None  # the environment variable that holds the token

    @property
    def is_local(self) -> bool:
        """Whether the files are read as they lie in a folder."""
        return self.branch is None and self._local_path.is_dir() and not _is_bare_repository(self._local_path)

    @property
    def folder(self) -> Path:
        """The folder of a local one."""
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
        name = (
            self.folder.name
            if not _GIT_ADDRESS.match(self.location)
            else re.split(r"[/:]", self._trimmed_location)[-1]
        )
        return re.sub(r"[^a-z0-9_-]+", "-", name.removesuffix(".git").lower()).strip("-_") or "repo"

    @property
    def _trimmed_location(self) -> str:
        return self.location.rstrip("/").removesuffix("/.git")

    def require_valid(self) -> None:
        """Raises ConfigError where it is neither a folder nor an address."""
        if not self._local_path.is_dir() and not _GIT_ADDRESS.match(self.location):
            raise ConfigError(
                f"{self.location!r} is neither a folder nor the address of a git repository: correct it"
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
    """Make sure that the file declares the repository's sources; ids that are new, and all ids.

    Raises:
        ConfigError: it holds nothing to index, or the file is wrong.
        SourceRefused, SourceUnavailable: the repository did not let itself be listed.
    """
    repository.require_valid()
    path = resolve_target_config(session)
    known = _load_declared_settings(session, path)
    taken = {source.id for source in known.sources}
    added: list[SourceEntry] = []
    ids: list[str] = []
    for entry in _iter_proposed_entries(repository, path):
        wanted = validate_entry(entry, path)
        same = next((source for source in known.sources if _is_same_source(source, wanted)), None)
        if same is None and (repository.is_local or _has_documents(wanted, known)):
            entry["id"] = choose_free_id(entry["id"], taken)
            taken.add(entry["id"])
            added.append(entry)
        if same or entry in added:
            ids.append(same.id if same else entry["id"])
    if not ids:
        raise ConfigError(f"nothing to index was found in {repository.location}: name another folder")
    add_entries(session, path, added)
    return [entry["id"] for entry in added], ids


def resolve_target_config(session: Session) -> Path:
    """The file in use, or where a new one goes: as named, else in the current folder."""
    import os

    if session.config is not None:
        path = session.config.expanduser().absolute()
        return path / "knowledge.yaml" if path.is_dir() else path
    try:
        return session.config_path
    except ConfigError:
        if os.environ.get("KNOWLEDGE_CONFIG"):
            raise
        return Path.cwd() / "knowledge.yaml"


def add_entries(session: Session, path: Path, entries: list[SourceEntry]) -> None:
    """Add entries to the file, which is made where there is none."""
    from knowledge_pipeline.config.edit import add_source

    if not entries:
        return
    if not path.exists():
        _write_empty_config(path)
        session.screen.print_note(f"Wrote {path}")
    for entry in entries:
        add_source(path, entry)
    session.config = path
    session.forget_settings()


def choose_free_id(preferred: str, used_ids: set[str]) -> str:
    """The id, cut to what is allowed, with a number behind it where it is taken."""
    name, count = preferred[:_MAX_ID_CHARS], 1
    while name in used_ids:
        count += 1
        name = f"{preferred[: _MAX_ID_CHARS - 4]}-{count}"
    return name


def _write_empty_config(path: Path) -> None:
    from knowledge_pipeline.config.template import render_initial_config

    head = render_initial_config(path.parent, repository="https://example.com").partition("\nsources:")[0]
    try:
        path.write_text(head + _NO_SOURCES_YAML, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None


def _load_declared_settings(session: Session, path: Path) -> Settings:
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.config.settings import Settings

    return load_settings(path) if path.exists() else Settings(store=path.parent / ".knowledge")


def _iter_proposed_entries(repository: RepositoryLocation, path: Path) -> Iterator[SourceEntry]:
    """One for each type that the repository may hold, with an id made of its name."""
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


def validate_entry(entry: Mapping[str, Any], path: Path, *, unset_allowed: bool = False) -> SourceConfig:
    """The entry as settings; its token is read from the environment.

    Raises:
        ConfigError: a value is wrong, or (unless allowed) an environment variable is not set.
    """
    from knowledge_pipeline.config.file import check_config
    from knowledge_pipeline.config.yaml_edit import insert_entry

    settings, problems = check_config(
        insert_entry("version: 1\nsources: []\n", entry), path, allow_unset=unset_allowed
    )
    if settings is None or problems:
        raise ConfigError("; ".join(str(problem).partition("].")[2] or str(problem) for problem in problems))
    return settings.sources[0]


def _is_same_source(declared: SourceConfig, proposed: SourceConfig) -> bool:
    return declared.type == proposed.type and _connection_identity(
        declared.connection
    ) == _connection_identity(proposed.connection)


def _connection_identity(connection: Connection) -> tuple[str, ...]:
    from knowledge_pipeline.config.connections import GitConnection, LocalConnection

    if isinstance(connection, LocalConnection):
        return ("local", str(connection.path.resolve()))
    if isinstance(connection, GitConnection):
        return ("git", *connection.host_and_path, connection.branch or "")
    return (connection.type, connection.location)


def _has_documents(source: SourceConfig, settings: Settings) -> bool:
    from knowledge_pipeline.sources.registry import open_source
    from knowledge_pipeline.store.lake import Lake

    with open_source(source, cache=Lake(settings.store).cache) as opened:
        return any(True for _ in opened.discover())


def _is_bare_repository(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and not (folder / ".git").exists()
