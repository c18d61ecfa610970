"""Who may read the documents of a source, and what GitHub and GitLab have in common of it.

A repository is one audience, whatever the number of its documents. Its name stays where its readers cannot
be read: nobody belongs to it then, and no row has to change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from knowledge_pipeline.connectors.service import PageGuard, ServiceClient
from knowledge_pipeline.text import is_list, is_object

GROUP_PREFIX = "group:"
"""Begins the account of a group: "group:wiki-editors"."""

EVERYONE = "*"
"""The account of everybody, also of who is not signed in at the source."""


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody, or a group, who may read."""

    account: str  # an id or name; "group:NAME"; `EVERYONE`
    email: str | None = None  # where the source shows it

    @classmethod
    def group(cls, name: str) -> Member:
        """A group by its name."""
        return cls(GROUP_PREFIX + name)

    @property
    def is_group(self) -> bool:
        """Whether it is one, rather than a person."""
        return self.account.startswith(GROUP_PREFIX)


Readers = frozenset[Member]


@dataclass(slots=True)
class Permissions:
    """Who may read the documents of a source.

    Whoever reads a document belongs to its audience: for each of the audience's requirements they are a
    member, or of one of its groups.
    """

    audiences: Mapping[str, Sequence[Readers]] = field(default_factory=dict[str, Sequence[Readers]])
    audience_by_uri: Mapping[str, str] = field(default_factory=dict[str, str])
    """Documents that are not in it, or whose audience is not in `audiences`, are read by nobody."""
    problems: Counter[str] = field(default_factory=Counter[str])
    """What could not be read and why, as a sentence, with the number of its cases."""

    def count_closed(self, uris: Iterable[str]) -> int:
        """How many of some documents have readers that are not known."""
        return sum(self.audience_by_uri.get(uri) not in self.audiences for uri in uris)


class Unreadable(Exception):
    """A service does not show some permission; the message says which, and what to do."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status  # of HTTP; 0: it answered, but does not tell


ScopeT = TypeVar("ScopeT", bound=Hashable)
Audience = tuple[str, Sequence[Readers]]  # its name, and its requirements


def collect_permissions(
    scope_by_uri: Mapping[str, ScopeT], find_audience: Callable[[ScopeT], Audience], problems: Counter[str]
) -> Permissions:
    """The audiences of documents, by what decides who may read each; of each such scope read once.

    What `find_audience` raises `Unreadable` for has no readers that are known, and is a problem.
    """
    audiences: dict[str, Sequence[Readers]] = {}
    audience_by_uri: dict[str, str] = {}
    results: dict[ScopeT, Audience | Unreadable] = {}
    for uri, scope in scope_by_uri.items():
        if scope not in results:
            try:
                results[scope] = find_audience(scope)
            except Unreadable as reason:
                results[scope] = reason
        result = results[scope]
        if isinstance(result, Unreadable):
            problems[str(result)] += 1
        else:
            name, requirements = result
            audiences[name], audience_by_uri[uri] = requirements, name
    return Permissions(audiences, audience_by_uri, problems)


REPOSITORY_AUDIENCE = "repository"
"""Of the files and commits of a repository, and of its code graph."""

EVERYBODY: Readers = frozenset({Member(EVERYONE)})

INTERNAL = Member.group("visibility:internal")
"""Whoever has an account at the service: a reader of an internal repository; no team can be called so."""

_PAGE_SIZE = 100  # the most, of either
_MAX_PAGES = 1_000


class CodeHostClient(ServiceClient):
    """The APIs of a service that hosts code."""

    @abstractmethod
    def get_page(self, path: str, parameters: Mapping[str, Any] | None = None) -> tuple[Any, bool]:
        """The JSON at a path of the REST API, or 403 or 404; and whether another page follows."""

    def get_or_status(self, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The JSON at a path of the REST API; a status of 403 or 404 is returned instead."""
        return self.get_page(path, parameters)[0]


def list_pages(
    client: CodeHostClient, path: str, parameters: Mapping[str, Any] | None = None, *, max_count: int = 0
) -> list[dict[str, Any]] | None:
    """All of a list, or its first `max_count`, page by page; None: it is not shown."""
    entries: list[dict[str, Any]] = []
    what = path.partition("/")[2].rpartition("/")[2] or path
    guard = PageGuard(partial(client.unavailable, f"does not end the list of {what}"))
    for page in range(1, _MAX_PAGES):
        query = {**(parameters or {}), "per_page": _PAGE_SIZE, "page": page}
        answer, is_followed = client.get_page(path, query)
        if isinstance(answer, int):
            return None
        if not is_list(answer):
            break
        entries += filter(is_object, answer)
        # a server may give fewer than were asked for
        if (len(answer) < _PAGE_SIZE and not is_followed) or len(entries) >= max_count > 0:
            return entries[: max_count or None]
        guard.advance(map(repr, answer))
    raise guard.error()


def build_permissions(
    audience: str, readers: Readers | None, uris: Sequence[str], problems: Counter[str], unreadable: str
) -> Permissions:
    """One audience for all documents; where its `readers` are None, they are closed, and a problem."""
    if readers is None:
        problems[unreadable] += len(uris)
    audiences = {} if readers is None else {audience: [readers]}
    return Permissions(audiences, dict.fromkeys(uris, audience), problems)
