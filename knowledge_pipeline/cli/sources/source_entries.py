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

Entry = dict[str, Any]

_ADDRESS = re.compile(r"^(?:[a-z][a-z0-9+.-]*://|[^/@:\s]+@[^/:\s]+:|[^/@:\s]+\.[^/:\s]+:)", re.IGNORECASE)
_ID_CHARS = 64
_EMPTY = "\nsources: []\n"


@dataclass(frozen=True, slots=True)
class Repository:
    """A folder of this machine, or a git repository read at a branch's tip."""

    given: str
    branch: str | None = None
    token_variable: str | None = None  # the environment variable that holds the token

    @property
    def is_local(self) -> bool:
        """Whether the files are read as they lie in a folder."""
        return self.branch is None and self._folder.is_dir() and not _is_bare(self._folder)

    @property
    def folder(self) -> Path:
        """The folder of a local one."""
        return self._folder.resolve()

    @property
    def _folder(self) -> Path:
        return Path(self.given).expanduser()

    @property
    def url(self) -> str:
        """What git fetches from: an address, or the absolute path of a repository."""
        return self.given if _ADDRESS.match(self.given) else str(self.folder)

    @property
    def slug(self) -> str:
        """Its name as the first part of an id: "flask"."""
        name = self.folder.name if not _ADDRESS.match(self.given) else re.split(r"[/:]", self._plain)[-1]
        return re.sub(r"[^a-z0-9_-]+", "-", name.removesuffix(".git").lower()).strip("-_") or "repo"

    @property
    def _plain(self) -> str:
        return self.given.rstrip("/").removesuffix("/.git")

    def require(self) -> None:
        """Raises ConfigError where it is neither a folder nor an address."""
        if not self._folder.is_dir() and not _ADDRESS.match(self.given):
            raise ConfigError(
                f"{self.given!r} is neither a folder nor the address of a git repository: correct it"
            )

    def connection(self) -> Entry:
        """Its git connection, as written in the file."""
        entry: Entry = {"type": "git", "url": self.url}
        if self.branch:
            entry["branch"] = self.branch
        if self.token_variable:
            entry["token"] = f"${{{self.token_variable}}}"
        return entry


def declare(session: Session, repository: Repository) -> tuple[list[str], list[str]]:
    """Make sure that the file declares the repository's sources; ids that are new, and all ids.

    Raises:
        ConfigError: it holds nothing to index, or the file is wrong.
        SourceRefused, SourceUnavailable: the repository did not let itself be listed.
    """
    repository.require()
    path = config_to_write(session)
    known = _known(session, path)
    taken = {source.id for source in known.sources}
    added: list[Entry] = []
    ids: list[str] = []
    for entry in _entries(repository, path):
        wanted = validated(entry, path)
        same = next((source for source in known.sources if _same(source, wanted)), None)
        if same is None and (repository.is_local or _lists_anything(wanted, known)):
            entry["id"] = free_id(entry["id"], taken)
            taken.add(entry["id"])
            added.append(entry)
        if same or entry in added:
            ids.append(same.id if same else entry["id"])
    if not ids:
        raise ConfigError(f"nothing to index was found in {repository.given}: name another folder")
    write(session, path, added)
    return [entry["id"] for entry in added], ids


def config_to_write(session: Session) -> Path:
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


def write(session: Session, path: Path, entries: list[Entry]) -> None:
    """Add entries to the file, which is made where there is none."""
    from knowledge_pipeline.config.edit import add_source

    if not entries:
        return
    if not path.exists():
        _write_empty(path)
        session.screen.note(f"Wrote {path}")
    for entry in entries:
        add_source(path, entry)
    session.config = path
    session.forget_settings()


def free_id(wanted: str, taken: set[str]) -> str:
    """The id, cut to what is allowed, with a number behind it where it is taken."""
    name, count = wanted[:_ID_CHARS], 1
    while name in taken:
        count += 1
        name = f"{wanted[: _ID_CHARS - 4]}-{count}"
    return name


def _write_empty(path: Path) -> None:
    from knowledge_pipeline.config.template import initial

    head = initial(path.parent, repository="https://example.com").partition("\nsources:")[0]
    try:
        path.write_text(head + _EMPTY, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None


def _known(session: Session, path: Path) -> Settings:
    from knowledge_pipeline.config.file import load
    from knowledge_pipeline.config.settings import Settings

    return load(path) if path.exists() else Settings(store=path.parent / ".knowledge")


def _entries(repository: Repository, path: Path) -> Iterator[Entry]:
    """One for each type that the repository may hold, with an id made of its name."""
    from knowledge_pipeline.config.template import initial
    from knowledge_pipeline.config.yaml_lines import parse

    if repository.is_local:
        text = initial(repository.folder, beside=path.parent)
    else:
        text = initial(path.parent, repository=repository.url)
    for entry in parse(text, name=path.name).at(("sources",)) or ():
        connection = entry["connection"] if repository.is_local else repository.connection()
        room = _ID_CHARS - len(entry["id"]) - 1
        yield {**entry, "id": f"{repository.slug[:room]}-{entry['id']}", "connection": connection}


def validated(entry: Mapping[str, Any], path: Path, *, unset_allowed: bool = False) -> SourceConfig:
    """The entry as settings; its token is read from the environment.

    Raises:
        ConfigError: a value is wrong, or (unless allowed) an environment variable is not set.
    """
    from knowledge_pipeline.config.file import check
    from knowledge_pipeline.config.yaml_edit import with_entry

    settings, problems = check(
        with_entry("version: 1\nsources: []\n", entry), path, unset_allowed=unset_allowed
    )
    if settings is None or problems:
        raise ConfigError("; ".join(str(problem).partition("].")[2] or str(problem) for problem in problems))
    return settings.sources[0]


def _same(known: SourceConfig, wanted: SourceConfig) -> bool:
    return known.type == wanted.type and _where(known.connection) == _where(wanted.connection)


def _where(connection: Connection) -> tuple[str, ...]:
    from knowledge_pipeline.config.connections import PlacedConnection
    from knowledge_pipeline.config.settings import LocalConnection
    from knowledge_pipeline.sources.git.remote import host_and_path

    if isinstance(connection, LocalConnection):
        return ("local", str(connection.path.resolve()))
    if isinstance(connection, PlacedConnection):
        return (connection.type, connection.place)
    host, path = host_and_path(connection.url)
    return ("git", host, path, connection.branch or "")


def _lists_anything(source: SourceConfig, known: Settings) -> bool:
    from knowledge_pipeline.sources.registry import open_source
    from knowledge_pipeline.store.lake import Lake

    with open_source(source, cache=Lake(known.store).cache) as opened:
        return any(True for _ in opened.discover())


def _is_bare(folder: Path) -> bool:
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and not (folder / ".git").exists()
