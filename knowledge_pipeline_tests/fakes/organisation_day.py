"""A day of a fake organisation: what changes in each hour, as a table, and what is said of it to webhooks.

Two thirds of the changes are announced by signed webhooks. Those marked `lost` are not: the next poll has to
notice them, as it does those that a service has no event for, such as a channel that is new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from knowledge_pipeline_tests.fakes.confluence import events as confluence
from knowledge_pipeline_tests.fakes.github import events as github
from knowledge_pipeline_tests.fakes.jira import events as jira
from knowledge_pipeline_tests.fakes.organisation import Organisation, OrganisationItem
from knowledge_pipeline_tests.fakes.organisation_services import HOLDERS, PEOPLE, ItemKind, MemberKind
from knowledge_pipeline_tests.fakes.slack import events as slack
from knowledge_pipeline_tests.fakes.webhook_sender import SIGN, Delivery

DAY = (
    "create ticket; edit page; edit message; lost edit file",
    "create page; delete ticket; edit pull; lost create message",
    "edit file; attach ticket; revoke repository; lost delete page",
    "create issue; edit ticket; delete message; lost add repository",
    "create message; attach page; revoke space; lost edit ticket",
    "create file; edit issue; delete pull; lost attach message",
    "edit message; delete file; grant repository; lost add space",
    "create pull; attach message; lost delete issue; lost revoke project",
    "edit page; delete page; replace ticket; lost rename repository",
    "edit file; revoke channel; edit ticket; lost create page",
    "create ticket; detach page; lost edit pull; lost delete message",
    "edit ticket; edit page; edit file; lost edit message",
    "grant space; create issue; edit message; lost remove channel",
    "edit pull; replace page; delete ticket; lost delete file",
    "create file; revoke space; lost edit issue; lost add channel",
    "attach ticket; delete message; grant channel; lost detach ticket",
    "edit page; create message; detach message; lost remove repository",
    "edit ticket; revoke repository; delete file; lost create issue",
    "create page; edit file; lost replace page; lost grant project",
    "create pull; delete page; edit message; lost remove space",
    "delete pull; edit issue; detach ticket; lost archive repository",
    "create ticket; edit page; replace message; lost add project",
    "edit file; revoke channel; edit ticket; lost remove project",
    "create file; edit message; delete issue; lost delete ticket",
)
"""By hour. A file of a ticket, page or message is attached, replaced and detached."""

Measure = Literal["edit", "deletion", "lost permission", "new permission", "member"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a search must find, or must not, once a change is noticed."""

    change: str  # as the table has it
    measure: Measure
    find: str  # a word that must be found; "": none
    lose: str  # a word that must not be found
    holds: Callable[[], bool]  # False: a later change has made it void
    pick_reader: Callable[[], str]  # the login of who searches
    where: str  # the item, or the member

    def __str__(self) -> str:
        """For a sentence of what was not noticed."""
        return f"{self.change} in {self.where} (find {self.find!r}, lose {self.lose!r})"


@dataclass(frozen=True, slots=True)
class DayChange:
    """A change that was made: what to send, and what to expect."""

    deliveries: tuple[Delivery, ...]  # none: the event is lost
    expected: Expectation | None


class OrganisationDay:
    """Makes the changes of the table in an organisation whose webhooks are signed with one secret."""

    def __init__(self, acme: Organisation, secret: str) -> None:
        self.acme, self._secret = acme, secret
        self.known: set[tuple[MemberKind, str]] = set()  # members that a poll has discovered

    def make(self, row: str) -> DayChange:
        """Make the change of one row of the table."""
        words = row.split()
        action, kind = words[-2:]
        is_member = kind in HOLDERS.values()
        expected, deliveries = self._change_member(row, action, kind) if is_member else self._change_item(
            row, action, kind
        )  # fmt: skip
        return DayChange(() if words[0] == "lost" else tuple(deliveries), expected)

    def _change_item(self, row: str, action: str, kind: Any) -> tuple[Expectation, list[Delivery]]:
        acme = self.acme
        if action == "create":
            item = acme.create(kind, acme.random.choice(self._list_members(HOLDERS[kind])))
            return self._expect(row, item, find=acme.words[item]), [self._announce(item, action)]
        item = self._pick(kind, with_file=action in ("replace", "detach"))
        lose = find = ""
        if action in ("replace", "detach"):
            lose = acme.detach_file(item)
        if action in ("replace", "attach"):
            find = acme.attach_file(item)
        elif action == "edit":
            lose, find = acme.words[item], acme.edit(item)
        elif action == "delete":
            lose = acme.words[item]
            acme.delete(item)
        return self._expect(row, item, find=find, lose=lose), [self._announce(item, action)]

    def _change_member(self, row: str, action: str, kind: Any) -> tuple[Expectation | None, list[Delivery]]:
        acme = self.acme
        if action == "add":
            member = acme.add_member(kind, archived=False)
            return self._expect_member(row, kind, member, found=True), []
        member = self._pick_member(kind, action)
        if action in ("revoke", "grant"):
            return self._change_readers(row, action, kind, member)
        expected = self._expect_member(row, kind, member, found=action == "rename")
        self.known.discard((kind, member))
        if action == "rename":
            acme.rename_repository(member, f"{member.partition('/')[2]}-renamed")
        elif action == "archive":
            acme.archive_repository(member)
        else:
            acme.remove_member(kind, member)
        return expected, []

    def _change_readers(
        self, row: str, action: str, kind: MemberKind, member: str
    ) -> tuple[Expectation, list[Delivery]]:
        acme, readers = self.acme, self.acme.readers[kind, member]
        if action == "revoke":
            login = acme.random.choice(readers)
            acme.revoke(kind, member, login)
        else:
            login = acme.random.choice([each for each in PEOPLE if each not in readers])
            acme.grant(kind, member, login)
        word, is_new = min(acme.list_words(kind, member)), action == "grant"

        def holds() -> bool:
            is_there = member in acme.members[kind] and word in acme.list_words(kind, member)
            return is_there and (login in acme.list_readers(kind, member)) == is_new

        measure: Measure = "new permission" if is_new else "lost permission"
        find, lose = (word, "") if is_new else ("", word)
        return Expectation(row, measure, find, lose, holds, lambda: login, member), self._announce_readers(
            kind, member, login, action
        )

    def _expect(self, row: str, item: OrganisationItem, *, find: str = "", lose: str = "") -> Expectation:
        acme, kind = self.acme, HOLDERS[item.kind]
        readers = sorted(acme.list_readers(kind, item.member))

        def pick_reader() -> str:
            now = acme.list_readers(kind, item.member) if item.member in acme.members[kind] else readers
            return min(now)

        def holds() -> bool:
            """What becomes of items of a member that is gone is the next poll's to see."""
            there = acme.words.get(item), *acme.files.get(item, {}).values()
            return item.member in acme.members[kind] and (not find or find in there)

        measure: Measure = "edit" if find else "deletion"
        return Expectation(row, measure, find, lose, holds, pick_reader, f"{item.member} {item.uri}")

    def _expect_member(self, row: str, kind: MemberKind, member: str, *, found: bool) -> Expectation:
        acme, readers = self.acme, sorted(self.acme.list_readers(kind, member))
        word = min(acme.list_words(kind, member))

        def holds() -> bool:
            return not found or word in acme.words.values()

        find, lose = (word, "") if found else ("", word)
        return Expectation(row, "member", find, lose, holds, lambda: readers[0], member)

    def _announce(self, item: OrganisationItem, action: str) -> Delivery:
        """What the service of an item says of a change."""
        hub, wiki, sites = self.acme.github, self.acme.confluence, self.acme.jira
        match item.kind:
            case "file":
                about = github.repository(hub.address, item.member)
                about["repository"]["default_branch"] = "main"
                return self._sign(
                    "github", "push", {"ref": "refs/heads/main", "after": hub.read_head(item.member), **about}
                )
            case "pull" | "issue":
                event = "pull_request" if item.kind == "pull" else "issues"
                says = {"create": "opened", "delete": "deleted"}.get(action, "edited")
                told = github.conversation_event(hub.address, item.member, item.uri, event, says)
                return self._sign("github", event, told)
            case "ticket":
                event = {"create": "issue_created", "delete": "issue_deleted"}.get(action, "issue_updated")
                told = jira.ticket_event(sites.url, f"{item.member}-1", item.uri)
                return self._sign("jira", f"jira:{event}", told)
            case "page":
                if action in ("attach", "replace", "detach"):
                    told = confluence.attachment_event(wiki.url, item.uri, item.member)
                    return self._sign("confluence", "attachment_created", told)
                event = {"create": "page_created", "delete": "page_trashed"}.get(action, "page_updated")
                return self._sign("confluence", event, confluence.page_event(wiki.url, item.uri, item.member))
            case "message":
                _, channel, ts = item.uri.split("/")
                told = {"create": slack.posted, "delete": slack.deleted}.get(action, slack.changed)
                return self._sign("slack", "", told(channel, ts))

    def _announce_readers(self, kind: MemberKind, member: str, login: str, action: str) -> list[Delivery]:
        """Jira has no event for it."""
        if kind == "repository":
            says = {"action": "added" if action == "grant" else "removed"}
            about = github.repository(self.acme.github.address, member)
            return [self._sign("github", "member", {**says, **about})]
        if kind == "space":
            told = confluence.space_event(self.acme.confluence.url, member)
            return [self._sign("confluence", "space_permissions_updated", told)]
        if kind == "channel":
            event = "member_joined_channel" if action == "grant" else "member_left_channel"
            return [self._sign("slack", "", slack.of_channel(event, member, user=f"U0{login.upper()}"))]
        return []

    def _sign(self, service: str, event: str, payload: dict[str, Any]) -> Delivery:
        return SIGN[service](self._secret, event, payload)

    def _list_members(self, kind: MemberKind) -> list[str]:
        return [each for each in self.acme.members[kind] if (kind, each) in self.known]

    def _pick(self, kind: ItemKind, *, with_file: bool) -> OrganisationItem:
        """An item that is not the last one of its kind in its member: a source never becomes empty."""
        known: Collection[str] = set(self._list_members(HOLDERS[kind]))
        items = [each for each in self.acme.words if each.kind == kind and each.member in known]
        counts = [each.member for each in items]
        fit = [each for each in items if counts.count(each.member) > 1]
        return self.acme.random.choice([each for each in fit if not with_file or each in self.acme.files])

    def _pick_member(self, kind: MemberKind, action: str) -> str:
        return self.acme.random.choice(list(self._iter_fitting_members(kind, action)))

    def _iter_fitting_members(self, kind: MemberKind, action: str) -> Iterator[str]:
        """Those with a reader left after a revocation, or somebody to admit; of channels the private ones."""
        for member in self._list_members(kind):
            count = len(self.acme.readers[kind, member])
            is_public = kind == "channel" and not self.acme.slack.rooms[member].is_private
            if action not in ("revoke", "grant") or (
                not is_public and (count > 1 if action == "revoke" else count < len(PEOPLE))
            ):
                yield member
