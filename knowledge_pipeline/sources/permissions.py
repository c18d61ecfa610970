"""What a source says of who may read its documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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
