"""Merge requests and issues of GitLab: what both have in common, and what they say alike.

Listings begin with the oldest update. A cursor holds a time and an id: deletions shift nothing, and an
update during the listing moves to the end, where it is read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal
from urllib.parse import quote, unquote

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.conversations import (
    ConversationFilters,
    ConversationSource,
    Node,
    Turn,
    author_name,
    build_base_metadata,
    build_mentions,
    is_incomplete,
)
from knowledge_pipeline.connectors.github.markdown_cleaning import clean_markdown
from knowledge_pipeline.connectors.gitlab.client import GitlabClient
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.times import parse_time

PERSON_FIELDS = "{ name login: username }"

_CONFIDENTIAL_REASON = "confidential"
_COMMON_FIELDS = (
    "number: iid title body: description url: webUrl state createdAt milestone { title } "
    f"author {PERSON_FIELDS} labels {{ nodes {{ name: title }} }}"
)
_UPLOAD = re.compile(r"(?<=\]\()(?=/uploads/[0-9a-f]{32}/)")
_UPLOADED = re.compile(r"([0-9a-f]{32})/([^\s()<>\[\]\"'`|\\?#/]{1,300})")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_INLINE_CODE = re.compile(r"(?<!`)`[^`]{1,500}`(?!`)")
_REFERENCE = (
    r"(?:[\w./-]{0,250}#\d+|https?://[^\s()]{1,300}/-/(?:issues|work_items)/\d+"
    r"|(?-i:[A-Z][A-Z0-9_]{1,30}-\d+))"
)
_CLOSING = re.compile(
    r"\b(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|implement(?:s|ed|ing)?):?[ \t]{1,5}"
    rf"(?P<closed>(?:(?:issues?[ \t]{{1,5}})?{_REFERENCE}(?:\s{{0,3}},?\s{{0,3}}(?:and\s{{1,3}})?))+)",
    re.IGNORECASE,
)


class GitlabConversations(ConversationSource[GitlabClient]):
    """Merge requests or issues of one project; a subclass defines their fields and their turns."""

    field: ClassVar[Literal["issues", "mergeRequests"]]
    """Of GraphQL's `Project`: "mergeRequests", "issues"."""
    enum_types: ClassVar[tuple[str, str]]
    """GraphQL's types for the state and the order."""
    listing_fields: ClassVar[str]
    """Fields in a listing, besides the common ones."""
    detail_fields: ClassVar[str]
    """Fields of one that is read, besides the common ones."""

    def __init__(self, connection: GitlabConnection, filters: ConversationFilters) -> None:
        super().__init__(GitlabClient(connection, self.field), filters)
        self.connection = connection

    def find_attachments(self, text: str) -> Iterator[Attachment]:
        """The files that were uploaded to its texts; their secrets, which never change, identify them."""
        uploads = f"{self.connection.location}/uploads/"
        for part in text.split(uploads)[1:]:
            if match := _UPLOADED.match(part):
                secret, name = match[1], unquote(match[2])
                url = f"{uploads}{secret}/{quote(name)}"
                address = self._client.build_upload_address(secret, name)
                yield Attachment(secret, name, address, secret, url=url)

    def clean_text(self, markdown: str) -> str:
        """Clean Markdown, with links to uploads."""
        return clean_gitlab_markdown(markdown, self.connection)

    def build_common_metadata(self, node: Node) -> dict[str, Any]:
        """Metadata that both have."""
        state = "open" if node["state"] in ("opened", "locked") else node["state"]  # locked: being merged
        return build_base_metadata(node, self.connection.project, state, node["labels"]["nodes"])

    def discover(self) -> Iterator[Item]:
        """All that the filters want, a hundred a call, the oldest update first."""
        oldest = self._oldest_update()
        yield from self.list_items(self._find_newest_begin(oldest) if self._filters.max_results else oldest)

    def _filter_wanted(self, nodes: Iterable[Node]) -> list[Node]:
        oldest, labels = self._oldest_update(), set(self._filters.labels)
        return [
            node
            for node in nodes
            if (not labels or any(label["name"] in labels for label in node["labels"]["nodes"]))
            and self.is_wanted(node, oldest)
        ]

    def list_items(self, oldest: datetime) -> Iterator[Item]:
        """The oldest update first; confidential ones are listed to be skipped: they leave at once."""
        nodes: dict[str, Node] = {}
        total = 0
        for page in self._iter_pages("UPDATED_ASC", oldest):
            total = page.get("count", total)
            for node in page["nodes"]:
                nodes.pop(node["number"], None)
                nodes[node["number"]] = node
        if is_incomplete(len(nodes), total):
            raise self._client.listing_incomplete(f"listed {len(nodes)} of {total} {self.field}")
        chosen = self._filter_wanted(list(nodes.values()))
        public = [node for node in chosen if not node.get("confidential")]
        most = self._filters.max_results
        surplus = {node["number"] for node in public[:-most]} if most else set[str]()
        yield from (self.to_item(node) for node in chosen if node["number"] not in surplus)

    def list_by_number(self, numbers: Sequence[int]) -> Iterator[Item]:
        """By their numbers within the project, in one query."""
        states, _ = self.enum_types
        definitions = f"$iids: [String!], $state: {states}, $first: Int"
        selection = (
            f"wanted: {self.field}(iids: $iids, state: $state, first: $first) "
            f"{{ nodes {{ {self._build_listing_fields()} }} }}"
        )
        variables = {"iids": list(map(str, numbers)), "state": self.state_values[self._state]}
        project = self._client.execute(definitions, selection, {**variables, "first": len(numbers)})
        if project["wanted"] is None:
            raise self._client.listing_incomplete(f"does not list the {self.field}")
        yield from map(self.to_item, self._filter_wanted(project["wanted"]["nodes"]))

    def to_item(self, node: Node) -> Item:
        """A document of a listing."""
        revision = self.mark_revision(node["updatedAt"], node["userNotesCount"])
        skip = _CONFIDENTIAL_REASON if node.get("confidential") else None
        return Item(f"{self.kind}/{node['number']}", revision, locator=node["updatedAt"], skip=skip)

    def _build_listing_fields(self) -> str:
        fields = "number: iid updatedAt userNotesCount labels { nodes { name: title } }"
        return f"{fields} {self.listing_fields}"

    def _find_newest_begin(self, oldest: datetime) -> datetime:
        """Since when the newest `max_results` were updated, found from the newest on."""
        most, wanted = self._filters.max_results or 0, list[Node]()
        for page in self._iter_pages("UPDATED_DESC", oldest):
            wanted += [node for node in self._filter_wanted(page["nodes"]) if not node.get("confidential")]
            if len(wanted) >= most:
                return max(oldest, parse_time(wanted[most - 1]["updatedAt"]))
        return oldest

    def _iter_pages(self, sort: str, oldest: datetime) -> Iterator[Node]:
        """Every page until the one that has no next; the first has the `count` of all."""
        states, sorts = self.enum_types
        definitions = f"$state: {states}, $sort: {sorts}, $since: Time, $first: Boolean!"
        selection = (
            f"listed: {self.field}(first: 100, after: $after, state: $state, sort: $sort, "
            "updatedAfter: $since) { count @include(if: $first) pageInfo { hasNextPage endCursor } "
            f"nodes {{ {self._build_listing_fields()} }} }}"
        )
        variables = {"state": self.state_values[self._state], "sort": sort, "since": oldest.isoformat()}
        return self._client.iter_pages(definitions, selection, variables)

    def fetch_batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """By their numbers."""
        selection = self._build_selection(f"{_COMMON_FIELDS} {self.detail_fields} {_build_notes_field()}")
        iids = [item.uri.partition("/")[2] for item in items]
        divisible = len(items) > 1
        project = self._client.execute("$iids: [String!]", selection, {"iids": iids}, can_split=divisible)
        nodes = {f"{self.kind}/{node['number']}": node for node in project["wanted"]["nodes"]}
        return ((item, self._to_document(item, nodes.get(item.uri))) for item in items)

    def fetch_one(self, item: Item) -> DocumentSkipped:
        """Where GitLab answers other queries, the document is at fault."""
        self._client.execute("", "id", {})
        return DocumentSkipped("GitLab fails to answer for it, even alone")

    def _build_selection(self, selection: str) -> str:
        return f"wanted: {self.field}(iids: $iids) {{ nodes {{ {selection} }} }}"

    def _to_document(self, item: Item, node: Node | None) -> Document | DocumentSkipped:
        if node is None:
            return DocumentSkipped(DELETED_REASON)
        if node.get("confidential"):
            return DocumentSkipped(_CONFIDENTIAL_REASON)
        try:
            node["notes"] = list(self._iter_notes(node))
        except DocumentSkipped as gone:
            return gone
        node["listedAt"] = item.locator
        return self.build_document(item.uri, node)

    def _iter_notes(self, node: Node) -> Iterator[Node]:
        """All that people wrote for everybody who sees it: no events, no internal notes."""
        page, guard = node["notes"], self._client.build_page_guard()
        while True:
            yield from (note for note in page["nodes"] if not note["system"] and not note["internal"])
            if not page["pageInfo"]["hasNextPage"]:
                return
            after = page["pageInfo"]["endCursor"]
            guard.advance(map(repr, page["nodes"]), after or "")
            selection = self._build_selection(_build_notes_field(", after: $after"))
            variables = {"iids": [node["number"]], "after": after}
            project = self._client.execute("$iids: [String!], $after: String", selection, variables)
            if not project["wanted"]["nodes"]:
                raise DocumentSkipped(DELETED_REASON)
            page = project["wanted"]["nodes"][0]["notes"]


def clean_gitlab_markdown(markdown: str, connection: GitlabConnection) -> str:
    """GitLab Flavored Markdown as clean Markdown; what was uploaded is linked to where it lies."""
    return clean_markdown(_UPLOAD.sub(lambda _: connection.location, markdown))


def iter_comment_turns(notes: Sequence[Node], connection: GitlabConnection) -> Iterator[Turn]:
    """The comments; each thread together, the threads by their first comment."""
    threads: dict[str, list[Node]] = {}
    for note in notes:
        threads.setdefault((note["discussion"] or note)["id"], []).append(note)
    for thread in threads.values():
        location = _format_location(thread)
        for note in thread:
            kind = "review comment" if location else "comment"
            text, at = clean_gitlab_markdown(note["body"], connection), parse_time(note["createdAt"])
            yield Turn(kind, text, author_name(note), at, location, note["url"])


def _format_location(thread: Sequence[Node]) -> str | None:
    """What the remarks of a thread are about: "src/auth.py line 12 (resolved)"; None: not the code."""
    position = thread[0]["position"]
    if not position:
        return None
    line = position["newLine"] or position["oldLine"]
    resolvable = [note["resolved"] for note in thread if note["resolvable"]]
    done = " (resolved)" if resolvable and all(resolvable) else ""
    return f"{position['filePath']}{f' line {line}' if line else ''}{done}"


def find_closed_issues(description: str | None, connection: GitlabConnection) -> list[dict[str, str]]:
    """The issues that a description closes, by the words that GitLab's default closing pattern has.

    Source: https://docs.gitlab.com/user/project/issues/managing_issues/#default-closing-pattern
    """
    closed = " ".join(match["closed"] for match in _CLOSING.finditer(_strip_code(description or "")))
    references = re.findall(_REFERENCE, closed)
    return build_mentions("closes", (_qualify_reference(reference, connection) for reference in references))


def _strip_code(text: str) -> str:
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        match = _FENCE.match(line)
        if fence:
            fence = "" if line.strip().startswith(fence) else fence
        elif match:
            fence = match[1]
        else:
            lines.append(_INLINE_CODE.sub(" ", line))
    return "\n".join(lines)


def _qualify_reference(reference: str, connection: GitlabConnection) -> str:
    """An issue as it is written everywhere: "group/name#12"; one of another service stays as it is."""
    site = f"{connection.url.rstrip('/')}/"
    if reference.startswith(site) and not reference.startswith(f"{site}groups/"):
        project, _, rest = reference.removeprefix(site).partition("/-/")
        return f"{project}#{rest.rpartition('/')[2]}"
    project, hash_sign, number = reference.partition("#")
    if not hash_sign:
        return reference
    if "/" not in project:  # of the same group, or the same project
        group, _, name = connection.project.rpartition("/")
        project = f"{group}/{project or name}"
    return f"{project}#{number}"


def _build_notes_field(after: str = "") -> str:
    """The comments of one, a hundred at a time, without the events that GitLab notes by itself."""
    return (
        f"notes(filter: ONLY_COMMENTS, first: 100{after}) {{ pageInfo {{ hasNextPage endCursor }} nodes {{ "
        f"id body createdAt url system internal resolvable resolved author {PERSON_FIELDS} "
        "discussion { id } position { filePath newLine oldLine } } }"
    )
