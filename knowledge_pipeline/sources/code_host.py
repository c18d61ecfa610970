"""Pull requests, issues and discussions of GitHub and GitLab: listed, then read in batches.

A subclass lists and reads them, and writes the turns of one. The GraphQL nodes of both use the same
names, by aliases: `number`, `title`, `body`, `url`, `author` (`login`, `name`), `createdAt`,
`updatedAt`, `mergedAt`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, Literal, TypeVar

from knowledge_pipeline.config.sources.filters import DEFAULT_PARTS, Part
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceUnavailable
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.sources.base import ApiSource
from knowledge_pipeline.sources.conversation import Turn, format_conversation
from knowledge_pipeline.sources.diffs import FileDiff, iter_diff_turns
from knowledge_pipeline.sources.markdown_cleaning import clean_markdown
from knowledge_pipeline.sources.patterns import ChangedPaths
from knowledge_pipeline.times import parse_since, parse_time

State = Literal["open", "closed", "merged", "all"]
Node = dict[str, Any]
BatchT = TypeVar("BatchT")

FORMAT_VERSION = "1"
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


class ConversationSource(ApiSource, Generic[BatchT]):
    """Pull requests or issues of one repository. `BatchT` is the response to a query about several."""

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

    def __init__(self, filters: ConversationFilters) -> None:
        """Raises ConfigError where `since` is not a date, or `state` is not one of theirs."""
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
    def fetch_batch(self, items: Sequence[Item]) -> BatchT:
        """The response for several items; QueryTooLarge where a smaller batch may succeed."""

    @abstractmethod
    def parse_batch(
        self, items: Sequence[Item], batch: BatchT
    ) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Each item of the batch with its document."""

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
        del text
        return iter(())

    def is_wanted(self, node: Node, oldest: datetime) -> bool:
        """Whether it is recent enough: by its merge where only merged ones are wanted, else by its update."""
        merged = node["mergedAt"] if self._state == "merged" else None
        return parse_time(merged or node["updatedAt"]) >= oldest

    def list_changed_paths(self, node: Node) -> Sequence[str]:
        """All files that a complete node changes; an issue changes none."""
        del node
        return ()

    def list_file_diffs(self, uri: str, node: Node) -> Iterable[FileDiff]:
        """The diffs of the first `MAX_FILES` files, which are read now; an issue has none."""
        del uri, node
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
        text, segments = format_conversation(title, [*wanted, *self._iter_diff_turns(uri, node)])
        known = {name: value for name, value in self.build_metadata(node).items() if value is not None}
        return Document(
            uri=uri,
            text=text,
            path=uri,
            title=title,
            language="markdown",
            url=node["url"],
            author=author_name(node),
            last_modified=parse_time(node["listedAt"]),
            metadata={**known, "segments": segments},
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
        named = (uri.partition("/") for uri in uris)
        numbers = [
            int(number) for kind, _, number in named if kind == self.kind and _NUMBER.fullmatch(number)
        ]
        for start in range(0, len(numbers), _NAMED_BATCH_SIZE):
            yield from self.list_by_number(numbers[start : start + _NAMED_BATCH_SIZE])

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read in the order given, `batch_size` in a call, fewer where the service fails at so many."""
        for start in range(0, len(items), self.batch_size):
            yield from self._read_batch(items[start : start + self.batch_size])

    def _read_batch(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Halve what is too much."""
        try:
            answer = self.fetch_batch(items)
        except QueryTooLarge:
            if middle := len(items) // 2:
                yield from self._read_batch(items[:middle])
                yield from self._read_batch(items[middle:])
            else:
                yield items[0], self.fetch_one(items[0])
            return
        yield from self.parse_batch(items, answer)

    def _iter_diff_turns(self, uri: str, node: Node) -> Iterator[Turn]:
        """The hunks of the files that include and exclude take, if they are wanted."""
        if "diff" not in self._filters.parts:
            return
        paths, at = self._filters.changed_paths, node.get("mergedAt") or node["createdAt"]
        files = self.list_file_diffs(uri, node)
        taken = [file for file in files if paths is None or paths.accepts([file.path])]
        yield from iter_diff_turns(taken, author_name(node), parse_time(at))

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
