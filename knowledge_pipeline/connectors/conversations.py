"""Conversations as text, and what GitHub and GitLab have in common of them.

A conversation is a ticket, a pull request, an issue, a thread: its text, its turns, its diffs. Subclasses of
`ConversationSource` and `ReleaseSource` list and read those of one service.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar, Generic, Literal

from knowledge_pipeline.config.sources import DEFAULT_PARTS, Part
from knowledge_pipeline.connectors.base import ListedSource, build_revision
from knowledge_pipeline.connectors.github.markdown_cleaning import clean_markdown
from knowledge_pipeline.connectors.patterns import ChangedPaths
from knowledge_pipeline.connectors.permissions import CodeHostClient, list_pages
from knowledge_pipeline.connectors.service import ClientT, ServiceSource, split_batches
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.times import parse_since, parse_time


@dataclass(frozen=True, slots=True)
class Turn:
    """One contribution. `kind` is a word or two for people: "description", "comment", "review"."""

    kind: str
    text: str  # clean text, Markdown at most
    author: str | None = None
    at: datetime | None = None  # with time zone
    location: str | None = None  # what it is about: "src/auth.py line 12"
    url: str | None = None  # where a person sees it


def format_conversation(title: str, turns: Iterable[Turn]) -> tuple[str, list[dict[str, Any]]]:
    """The text of a conversation, and its segments: `start_char`, `kind`; where known `author`, `at`, `url`.

    The title is the first line and belongs to the first segment. Turns without text are left out. Each turn
    but the first begins with a line that names its author and day. The chunker keeps segments whole.
    """
    parts = [title.strip() or "(no title)"]
    segments: list[dict[str, Any]] = []
    length = len(parts[0])
    for turn in turns:
        text = turn.text.strip()
        if not text:
            continue
        first = not segments and turn.kind == "description"
        part = text if first else f"{_format_turn_header(turn)}\n{text}"
        start = 0 if not segments else length + 2
        if not segments and not first:  # a title without a description is a segment of its own
            segments.append({"start_char": 0, "kind": "title"})
            start = length + 2
        optional = {"author": turn.author, "at": turn.at.isoformat() if turn.at else None, "url": turn.url}
        segment = {name: value for name, value in optional.items() if value}
        segments.append({"start_char": start, "kind": turn.kind, **segment})
        parts.append(part)
        length += 2 + len(part)
    return "\n\n".join(parts), segments or [{"start_char": 0, "kind": "title"}]


def _format_turn_header(turn: Turn) -> str:
    """ "Comment by Ada Lovelace on src/auth.py line 12, 2026-03-01:"."""
    by = f" by {turn.author}" if turn.author else ""
    on = f" on {turn.location}" if turn.location else ""
    day = f", {turn.at.date().isoformat()}" if turn.at else ""
    return f"{turn.kind[:1].upper()}{turn.kind[1:]}{by}{on}{day}:"


MAX_DIFF_CHARS = 100_000  # of one pull request
MAX_HUNK_LINES = 200  # a new file is one hunk
_LINE_CHARS = 200
_PATH_CHARS, _FUNCTION_CHARS = 180, 80  # the chunker knows a turn by its first line, of some 300 at most

_HEADING = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?")


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What is changed in one file. `patch` has no hunk where the file is binary or too large."""

    path: str
    patch: str
    url: str  # where a person sees it


def list_changed_files(client: CodeHostClient, path: str, uri: str) -> list[dict[str, Any]]:
    """The first `MAX_FILES` changed files with their diffs, as the service's REST API has them."""
    files = list_pages(client, path, max_count=MAX_FILES)
    if files is None:
        raise SourceRefused(
            f"{client.service} does not show the diff of {uri}: give the identity the right to read "
            "pull requests and code, or take diff out of parts (nothing is deleted meanwhile)"
        )
    return files


def iter_diff_turns(
    files: Iterable[FileDiff], author: str | None = None, at: datetime | None = None
) -> Iterator[Turn]:
    """A turn for each hunk, up to `MAX_DIFF_CHARS`; a last one says how many are left out."""
    length = left_out = 0
    for file in files:
        for hunk in _split_hunks(file.patch):
            text = fence_diff(hunk[: MAX_HUNK_LINES + 1], "\n".join(hunk))
            if (more := len(hunk) - 1 - MAX_HUNK_LINES) > 0:
                text += f"\n{more} more lines are left out."
            length += len(text)
            if length > MAX_DIFF_CHARS:
                left_out += 1
            else:
                yield Turn("diff", text, author, at, _format_location(file.path, hunk[0]), file.url)
    if left_out:
        reason = f"{left_out} more hunks are left out: all have over {MAX_DIFF_CHARS:,} characters."
        yield Turn("diff", reason, author, at)


def fence_diff(lines: Iterable[str], hunk: str) -> str:
    """Lines of a hunk in a fence that no line of the hunk ends; what is too long of a line is left out."""
    fence = "```" if "```" not in hunk else "`" * 8
    return "\n".join([f"{fence}diff", *(line[:_LINE_CHARS] for line in lines), fence])


def _split_hunks(patch: str) -> Iterator[list[str]]:
    """The lines of each hunk, its heading first; what stands before the first belongs to none."""
    hunk: list[str] = []
    for line in patch.replace("\r", "").rstrip("\n").split("\n"):
        if _HEADING.match(line):
            if hunk:
                yield hunk
            hunk = [line]
        elif hunk:
            hunk.append(line)
    if hunk:
        yield hunk


def _format_location(path: str, heading: str) -> str:
    """ "src/auth.py lines 10-24 in def pay(order)": lines of the new file, of the old one if none is left."""
    match = _HEADING.match(heading)
    assert match is not None, heading
    old, old_count, new, new_count = match.groups()
    start, count = (int(old), int(old_count or 1)) if new_count == "0" else (int(new), int(new_count or 1))
    lines = f"lines {start}-{start + count - 1}" if count > 1 else f"line {start}"
    function = heading[match.end() :].strip()[:_FUNCTION_CHARS].rstrip(" :{")
    short = path if len(path) <= _PATH_CHARS else f"…{path[-_PATH_CHARS:]}"
    return " ".join(f"{short} {lines}{f' in {function}' if function else ''}".split())


State = Literal["open", "closed", "merged", "all"]
Node = dict[str, Any]

FORMAT_VERSION = "2"
"""Changes whenever the same responses may make another document."""

MAX_FILES = 200  # named in the text and in the metadata

OVERLAP = timedelta(minutes=10)
"""How long before the newest known update the next listing begins: an update may be listed late.

Changes made during a listing need no margin: a document's `last_modified` is the time that it was
listed with, so that the next listing begins before them.
"""

_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_NAMED_BATCH_SIZE = 50
_MAX_HIDDEN, _MAX_HIDDEN_SHARE = 5, 0.01  # counted, but not shown: spam, and what banned people wrote

_PARTS: Mapping[str, Part] = {
    "description": "description",
    "comment": "comments",
    "review": "reviews",
    "review comment": "reviews",
}
"""The part that turns of a kind belong to; the list of changed files is in every document."""

OTHER_FILES_REASON = "changes no file that include and exclude take"


class QueryTooLarge(SourceUnavailable):
    """The service failed at a query or took too long for it; a smaller one may be answered."""


@dataclass(frozen=True, slots=True)
class ConversationFilters:
    """Which pull requests or issues are wanted.

    `state`, None: merged pull requests, issues of any state; "closed" holds merged ones too.
    `since`, None: pull requests of the last 180 days, issues of the last 365; a date or a span before
    now. Pull requests of state "merged" are wanted by when they were merged, all else by its last update.
    `labels`: at least one of them. `max_results`: those that were updated last.
    `changed_paths`: pull requests that change a file which the patterns take; None: all.
    `parts`: what is written of each pull request.
    """

    state: State | None = None
    since: str | None = None
    labels: tuple[str, ...] = ()
    max_results: int | None = None
    changed_paths: ChangedPaths | None = None
    parts: tuple[Part, ...] = DEFAULT_PARTS


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The files that a pull request changes; all are counted, some may not be listed."""

    files: Sequence[Node]  # `path`, `additions`, `deletions`; `changeType` where known
    count: int
    additions: int  # lines
    deletions: int

    @property
    def text(self) -> str:
        """How many there are, then a line for each of the first `MAX_FILES`; "" if there are none."""
        if not self.count:
            return ""
        lines = [f"{self.count} changed, +{self.additions} -{self.deletions}"]
        for file in self.files[:MAX_FILES]:
            how = file.get("changeType", "modified").lower()
            how = "" if how in ("modified", "changed") else f", {how}"
            lines.append(f"- {file['path']} (+{file['additions']} -{file['deletions']}{how})")
        more = self.count - min(len(self.files), MAX_FILES)
        return "\n".join([*lines, f"- and {more} more"] if more > 0 else lines)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata."""
        return {
            "additions": self.additions,
            "deletions": self.deletions,
            "changed_files": self.count,
            "files": [file["path"] for file in self.files[:MAX_FILES]],
        }


class ConversationSource(ServiceSource[ClientT]):
    """Pull requests, issues or discussions of one repository: listed, then read in batches.

    The nodes of both services use the same names, by aliases: `number`, `title`, `body`, `url`, `author`
    (`login`, `name`), `createdAt`, `updatedAt`, `mergedAt`.
    """

    full_listing_interval = timedelta(days=1)

    kind: ClassVar[str]
    """The first part of a document's uri: "pull", "merge_request", "issue", "discussion"."""
    number_prefix: ClassVar[str] = "#"
    """Stands before its number."""
    batch_size: ClassVar[int]
    """How many are read in one call."""
    state_values: ClassVar[Mapping[State, Any]]
    """The service's names for the states that a filter may have."""
    default_state: ClassVar[State]
    default_since: ClassVar[str]

    def __init__(self, client: ClientT, filters: ConversationFilters) -> None:
        """Raises ConfigError where `since` is not a date, or `state` is not one of theirs."""
        super().__init__(client)
        self._filters = filters
        self._state: State = filters.state or self.default_state
        if self._state not in self.state_values:
            raise ConfigError(
                f"state is {self._state!r}, which no {self.kind} has: "
                f"write one of {', '.join(self.state_values)}"
            )
        self._oldest_update()

    @abstractmethod
    def list_items(self, oldest: datetime) -> Iterator[Item]:
        """The wanted ones that were updated at `oldest` or later, the oldest update first."""

    @abstractmethod
    def list_by_number(self, numbers: Sequence[int]) -> Iterator[Item]:
        """Those of some that are there and that the filters want, but for `max_results`."""

    @abstractmethod
    def fetch_batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read several by one query, sent at once: QueryTooLarge where a smaller one may succeed."""

    @abstractmethod
    def fetch_one(self, item: Item) -> Document | DocumentSkipped:
        """The document of an item that is too large even alone."""

    @abstractmethod
    def iter_reply_turns(self, node: Node) -> Iterator[Turn]:
        """The turns after the description, in order, of a node whose lists are complete."""

    @abstractmethod
    def build_metadata(self, node: Node) -> dict[str, Any]:
        """The metadata; None for unknown values."""

    def clean_text(self, markdown: str) -> str:
        """Clean Markdown of a text."""
        return clean_markdown(markdown)

    def find_attachments(self, text: str) -> Iterator[Attachment]:
        """The uploads that a document's text links to."""
        return iter(())

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Whether it is recent enough: by its merge where only merged ones are wanted, else by its update."""
        merged = node["mergedAt"] if self._state == "merged" else None
        return parse_time(merged or node["updatedAt"]) >= oldest

    def list_changed_paths(self, node: Node) -> Sequence[str]:
        """All files that a complete node changes; an issue changes none."""
        return ()

    def list_file_diffs(self, uri: str, node: Node) -> Iterable[FileDiff]:
        """The diffs of the first `MAX_FILES` files, which are read now; an issue has none."""
        return ()

    def mark_revision(self, updated: str, comment_count: int) -> str:
        """Changes whenever the document may differ: the count tells of deleted comments."""
        paths, parts = self._filters.changed_paths, set(self._filters.parts)
        changed = [paths.digest] if paths else []
        changed += [",".join(sorted(parts))] if parts != set(DEFAULT_PARTS) else []
        return ":".join([updated, str(comment_count), FORMAT_VERSION, *changed])

    def build_document(self, uri: str, node: Node) -> Document | DocumentSkipped:
        """The document of a complete node, if it is wanted; `listedAt` is its update time as listed."""
        paths = self._filters.changed_paths
        if paths is not None and not paths.accepts(self.list_changed_paths(node)):
            return DocumentSkipped(OTHER_FILES_REASON)
        title = f"{node['title'].strip()} ({self.number_prefix}{node['number']})"
        body, created = self.clean_text(node["body"] or ""), parse_time(node["createdAt"])
        description = Turn("description", body, author_name(node), created, url=node["url"])
        turns = [description, *self.iter_reply_turns(node)]
        wanted = [turn for turn in turns if _PARTS.get(turn.kind) in (None, *self._filters.parts)]
        if "diff" in self._filters.parts:
            files = self.list_file_diffs(uri, node)
            files = [file for file in files if paths is None or paths.accepts([file.path])]
            at = parse_time(node.get("mergedAt") or node["createdAt"])
            wanted += iter_diff_turns(files, author_name(node), at)
        text, segments = format_conversation(title, wanted)
        metadata = {name: value for name, value in self.build_metadata(node).items() if value is not None}
        return Document(
            uri=uri,
            text=text,
            path=uri,
            title=title,
            language="markdown",
            url=node["url"],
            author=author_name(node),
            last_modified=parse_time(node["listedAt"]),
            metadata={**metadata, "segments": segments},
            attachments=tuple(self.find_attachments(text)),
        )

    def discover(self) -> Iterator[Item]:
        """All that the filters want, a hundred a call, the oldest update first."""
        yield from self.list_items(self._oldest_update())

    def discover_updated(self, since: datetime) -> Iterator[Item]:
        """What was updated since, and `OVERLAP` before; the oldest update first."""
        yield from self.list_items(max(self._oldest_update(), since - OVERLAP))

    def discover_named(self, uris: Sequence[str]) -> Iterator[Item]:
        """Those of the documents that are there and wanted, by their numbers, fifty a call."""
        parts = (uri.partition("/") for uri in uris)
        numbers = [
            int(number) for kind, _, number in parts if kind == self.kind and _NUMBER.fullmatch(number)
        ]
        for several in split_batches(numbers, _NAMED_BATCH_SIZE):
            yield from self.list_by_number(several)

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read in the order given, `batch_size` in a call, fewer where the service fails at so many."""
        for several in split_batches(items, self.batch_size):
            yield from self._read_batch(several)

    def _read_batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        try:
            documents = self.fetch_batch(items)
        except QueryTooLarge:
            if middle := len(items) // 2:
                yield from self._read_batch(items[:middle])
                yield from self._read_batch(items[middle:])
            else:
                yield items[0], self.fetch_one(items[0])
        else:
            yield from documents

    def _oldest_update(self) -> datetime:
        return parse_since(self._filters.since or self.default_since)


def author_name(node: Node) -> str | None:
    """The author's name, else the login; None: the account is deleted or hidden."""
    author = node["author"]
    return ((author.get("name") or "").strip() or author["login"]) if author else None


def is_incomplete(found_count: int, total: int) -> bool:
    """Whether a listing lacks more of what it counts than a service hides."""
    return total - found_count > max(_MAX_HIDDEN, total * _MAX_HIDDEN_SHARE)


def build_base_metadata(node: Node, project: str, state: str, labels: Iterable[Node]) -> dict[str, Any]:
    """Metadata that all have; `status` is what the index filters by."""
    return {
        "number": int(node["number"]),
        "project": project,
        "state": state,
        "status": state,
        "labels": sorted(label["name"] for label in labels),
        "milestone": node["milestone"]["title"] if node.get("milestone") else None,
        "created_at": node["createdAt"],
        "closed_at": node.get("closedAt"),
    }


def build_mentions(kind: str, targets: Iterable[str]) -> list[dict[str, str]]:
    """The issues that it "closes" or "duplicates", each once, as metadata."""
    return [{"kind": kind, "target": target} for target in sorted(set(targets))]


MAX_ASSETS = 100  # named in the text and in the metadata


class ReleaseSource(ListedSource, Generic[ClientT]):
    """One document per release: "release/v1.2".

    The nodes of both services use the same names: `tag`, `name`, `notes`, `publishedAt`, `updatedAt`,
    `author`, `commit`, `status`, `assets` (their first `names`, and whether there are `more`).
    """

    def __init__(self, client: ClientT, filters: ConversationFilters, project: str) -> None:
        """Raises ConfigError where `since` is not a date."""
        self._client, self._filters, self._project = client, filters, project
        self._oldest = parse_since(filters.since) if filters.since else None

    @abstractmethod
    def iter_releases(self) -> Iterator[Node]:
        """Every published release, the newest first; complete, or an exception."""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def clean_text(self, markdown: str) -> str:
        """Clean Markdown of the notes."""
        return clean_markdown(markdown)

    @abstractmethod
    def build_url(self, tag: str) -> str:
        """Where people see it."""

    def iter_entries(self) -> Iterator[tuple[Item, Node]]:
        """Those that the filters want."""
        wanted = filter(self._is_wanted, self.iter_releases())
        for node in islice(wanted, self._filters.max_results):
            yield Item(f"release/{node['tag']}", build_revision(FORMAT_VERSION, node)), node

    def build_document(self, item: Item, node: Node) -> Document:
        """Its name as the heading, its notes, its assets."""
        tag, name = node["tag"], (node["name"] or "").strip()
        title = f"{name} ({tag})" if name and tag not in name else name or tag
        assets: list[str] = [f"- {name}" for name in node["assets"]["names"]]
        assets += ["- and more"] if assets and node["assets"]["more"] else []
        parts = [f"# {title}", self.clean_text(node["notes"] or "").strip()]
        parts += ["\n".join(["## Assets", "", *assets])] if assets else []
        return Document(
            uri=item.uri,
            text="\n\n".join(filter(None, parts)),
            path=item.uri,
            title=title,
            language="markdown",
            url=self.build_url(tag),
            author=author_name(node),
            last_modified=parse_time(node["updatedAt"]),
            metadata={
                "tag": tag,
                "project": self._project,
                "status": node["status"],
                "created_at": node["publishedAt"],
                "assets": node["assets"]["names"],
                **({"commit": node["commit"]} if node["commit"] else {}),
                "mentions": build_mentions("references", filter(None, [node["commit"]])),
            },
        )

    def _is_wanted(self, node: Node) -> bool:
        is_final = node["status"] == "released" or self._filters.state == "all"
        return is_final and (self._oldest is None or parse_time(node["publishedAt"]) >= self._oldest)
