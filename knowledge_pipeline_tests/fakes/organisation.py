"""An organisation: fakes of GitHub, Jira, Confluence and Slack with as much in them as its sizes say.

    with Organisation(tmp_path, seed=7, sizes={"repository": 3, "space": 2}) as acme:
        settings = Settings.model_validate({"organisations": acme.declare()})
        page = acme.create("page", acme.members["space"][0])
        acme.edit(page)
        acme.revoke("space", page.member, acme.readers["space", page.member][0])

The same seed and sizes make the same members, texts and readers. Every text holds a word that no other
text ever holds: `words` has those of what is there, `gone` those of what was edited or deleted.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from knowledge_pipeline_tests.fakes.organisation_services import (
    HOLDERS,
    PEOPLE,
    ItemKind,
    MemberKind,
    OrganisationServices,
)

WHOLE: Mapping[MemberKind, int] = {"repository": 200, "project": 40, "space": 60, "channel": 100}
ITEMS: Mapping[ItemKind, int] = {"file": 4, "pull": 1, "issue": 1, "ticket": 5, "page": 5, "message": 5}
"""How many a member has at first."""

_SUBJECTS = (
    *("Billing", "Login", "Search", "Invoice", "Export", "Backup", "Gateway", "Scheduler", "Mail", "Cache"),
    *("Report", "Import", "Payment", "Session", "Index", "Queue"),
)
_MATTERS = ("timeout", "retry policy", "migration", "owner", "dashboard", "release plan", "outage", "quota")
_SYLLABLES = [f"{consonant}{vowel}" for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
_READERS_EACH = 3
_ARCHIVED_EACH = 20  # one of so many members is archived
_ATTACHED_EACH = 5  # one of so many tickets, pages and messages has a file


@dataclass(frozen=True, slots=True)
class OrganisationItem:
    """One document at its origin: a file, pull request, issue, ticket, page or thread."""

    kind: ItemKind
    member: str
    uri: str  # as its source names it


class Organisation(OrganisationServices):
    """A context manager; every change comes a minute after the one before."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int = 1,
        sizes: Mapping[MemberKind, int] = WHOLE,
        items: Mapping[ItemKind, int] = ITEMS,
        start: datetime | None = None,  # None: 20 days ago
        cloud: bool = True,
    ) -> None:
        super().__init__(folder, cloud=cloud)
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self.set_time(start or midnight - timedelta(days=20))
        self.random = random.Random(seed)
        self.members: dict[MemberKind, list[str]] = {kind: [] for kind in WHOLE}
        self.readers: dict[tuple[MemberKind, str], list[str]] = {}  # logins
        self.words: dict[OrganisationItem, str] = {}
        self.files: dict[OrganisationItem, dict[str, str]] = {}  # words of what is attached, by id
        self.gone: set[str] = set()
        self._count = 0
        for kind, count in sizes.items():
            for _ in range(count):
                self.add_member(kind, items)

    def add_member(
        self, kind: MemberKind, items: Mapping[ItemKind, int] = ITEMS, *, archived: bool | None = None
    ) -> str:
        """A new repository, project, space or channel with items; its name as its service lists it.

        `archived`: None for one of twenty.
        """
        number, writer = self._tick(), self.member_writers[kind]
        if archived is None:
            archived = len(self.members[kind]) % _ARCHIVED_EACH == _ARCHIVED_EACH - 1
        member = writer.open(number, self.random.choice(_SUBJECTS), archived)
        self.members[kind].append(member)
        self.readers[kind, member] = self.random.sample(list(PEOPLE), _READERS_EACH)
        writer.admit(member, self.readers[kind, member])
        for each, count in items.items():
            if HOLDERS[each] == kind:
                self.create_many(each, member, count)
        return member

    def remove_member(self, kind: MemberKind, member: str) -> None:
        """Delete it with all that it holds."""
        for item in self._items_of(kind, member):
            self.delete(item)
        self.member_writers[kind].remove(member)
        self.members[kind].remove(member)
        del self.readers[kind, member]

    def rename_repository(self, member: str, name: str) -> str:
        """The new full name; its items go with it."""
        renamed = self.github.rename(member, name)
        for item in self._items_of("repository", member):
            self.words[OrganisationItem(item.kind, renamed, item.uri)] = self.words.pop(item)
        self.members["repository"][self.members["repository"].index(member)] = renamed
        self.readers["repository", renamed] = self.readers.pop(("repository", member))
        return renamed

    def create(self, kind: ItemKind, member: str) -> OrganisationItem:
        """A new item."""
        return self.create_many(kind, member, 1)[0]

    def create_many(self, kind: ItemKind, member: str, count: int) -> list[OrganisationItem]:
        """New items; the first of them, and others, with a file at them."""
        written = [self._write(member) for _ in range(count)]
        uris = self.item_writers[kind].create(member, [(title, text) for title, text, _ in written])
        items = [OrganisationItem(kind, member, uri) for uri in uris]
        self.words |= {item: word for item, (_, _, word) in zip(items, written, strict=True)}
        if HOLDERS[kind] != "repository":
            for item in items[::_ATTACHED_EACH]:
                self.attach_file(item)
        return items

    def attach_file(self, item: OrganisationItem) -> str:
        """Attach a text file to a ticket, a page or a thread's root; the word in it."""
        title, text, word = self._write(item.member)
        id_ = self.file_writers[item.kind].attach(item.uri, f"{title}.txt", text.encode())
        self.files.setdefault(item, {})[id_] = word
        return word

    def detach_file(self, item: OrganisationItem) -> str:
        """Delete the file that was attached first; the word in it."""
        self._tick()
        id_ = next(iter(self.files[item]))
        self.file_writers[item.kind].detach(item.uri, id_)
        word = self.files[item].pop(id_)
        if not self.files[item]:
            del self.files[item]
        self.gone.add(word)
        return word

    def edit(self, item: OrganisationItem) -> str:
        """Give it another text; its new word."""
        _, text, word = self._write(item.member)
        self.item_writers[item.kind].edit(item.member, item.uri, text)
        self.gone.add(self.words[item])
        self.words[item] = word
        return word

    def delete(self, item: OrganisationItem) -> None:
        """Delete it where it is."""
        self._tick()
        self.item_writers[item.kind].delete(item.member, item.uri)
        self.gone |= {self.words.pop(item), *self.files.pop(item, {}).values()}

    def revoke(self, kind: MemberKind, member: str, login: str) -> None:
        """One person less may read a member."""
        self._tick()
        self.readers[kind, member].remove(login)
        self.member_writers[kind].admit(member, self.readers[kind, member])

    def grant(self, kind: MemberKind, member: str, login: str) -> None:
        """One person more may read a member."""
        self._tick()
        self.readers[kind, member].append(login)
        self.member_writers[kind].admit(member, self.readers[kind, member])

    def archive_repository(self, member: str) -> None:
        """It can be read as before; organisations leave it out."""
        self._tick()
        self.github.archive(member)

    def list_words(self, kind: MemberKind, member: str) -> set[str]:
        """The words of all items of a member, and of their files."""
        items = self._items_of(kind, member)
        return {self.words[item] for item in items} | {
            word for item in items for word in self.files.get(item, {}).values()
        }

    def list_readers(self, kind: MemberKind, member: str) -> set[str]:
        """The logins of who may read a member: of a public channel, everybody."""
        is_public = kind == "channel" and not self.slack.rooms[member].is_private
        return set(PEOPLE if is_public else self.readers[kind, member])

    def pick(self, kind: ItemKind) -> OrganisationItem:
        """An item of a kind, by the seed."""
        return self.random.choice([item for item in self.words if item.kind == kind])

    def _items_of(self, kind: MemberKind, member: str) -> list[OrganisationItem]:
        return [item for item in self.words if item.member == member and HOLDERS[item.kind] == kind]

    def _write(self, member: str) -> tuple[str, str, str]:
        """Title, text, and the word in the text that nothing else has."""
        count, choose = self._tick(), self.random.choice
        word, subject, matter = _spell(count), choose(_SUBJECTS), choose(_MATTERS)
        text = f"The {matter} of {subject.lower()} in {member} is {word}: ask {choose(list(PEOPLE))}."
        return f"{subject} {matter} {count}", text, word

    def _tick(self) -> int:
        """A minute later everywhere; the number of the change."""
        self._count += 1
        self.set_time(self.now + timedelta(minutes=1))
        return self._count


def _spell(number: int) -> str:
    """A word of a number, which no tokenizer takes apart."""
    size = len(_SYLLABLES)
    return "qu" + "".join(_SYLLABLES[number // size**place % size] for place in (2, 1, 0))
