"""The typed values that flow through the pipeline: item, document, chunk, mention, front matter.

Frozen, without I/O. Offsets count characters, half-open; lines count from 1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Metadata = Mapping[str, Any]  # JSON values only

VARIANT_MARK = "%@"  # between path and blob: no escape in a uri begins so
_VARIANT = re.compile(f"{VARIANT_MARK}[0-9a-f]{{40,64}}$")
BRANCHES_KEY, ABSENT_KEY = "in_branches", "not_in_branches"
"""Keys of a document's metadata: the further branches that a variant stands in; those that a file of the main
branch does not stand in."""
VARIANT_TAG, ABSENT_TAG = "in-branch", "not-in-branch"
"""Tags of variants, also with `:` and a further branch that has it; of rows with one that has them not."""


def is_branch_tag(tag: object) -> bool:
    """Whether a tag says in which branches a row stands: a document has none of its own."""
    return str(tag).partition(":")[0] in (VARIANT_TAG, ABSENT_TAG)


SPACE_BEFORE_KEY = "space_before"
"""Key of `Chunk.space_before` in the metadata that the index stores."""

FAILED_STAGE, VERIFIED_STAGE = "failed", "verified"
"""What a row of the log of refreshes has as its stage where none was done, or a source was compared."""

RECORD_KINDS: Mapping[str, str] = {
    **{kind: kind for kind in ("adr", "discussion", "plan", "session", "spec")},
    **{"decision": "adr", "specification": "spec"},
}
"""What a project's record is called, in the singular -> its kind."""


def parse_record_kind(name: str) -> str | None:
    """The kind that a name means, of one record or of several; None: of no known kind."""
    folded = name.strip().lower()
    return RECORD_KINDS.get(folded) or RECORD_KINDS.get(folded.removesuffix("s"))


Tokenize = Callable[[str], Sequence[int]]
"""Character offset of the start of every token of a text, ascending."""


@dataclass(frozen=True, slots=True)
class Item:
    """One document as its source lists it, before it is read.

    `revision` is opaque: equal means unchanged, and it must differ whenever the
    document that `fetch` returns would differ, its metadata included.
    """

    uri: str  # unique within the source; valid UTF-8
    revision: str
    locator: str = ""  # how the source finds it: a blob id, a file path
    skip: str | None = None  # a reason not to read it at all: "larger than 1000000 bytes"
    keeps: tuple[str, ...] = ()  # documents whose uri or path begins so could not be listed, and stay


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file attached to a document, as the document's service names it; it is not read yet."""

    id: str  # unique at its document
    name: str  # of the file: its extension says which format it has
    address: str  # where its bytes are
    revision: str = ""  # opaque: another one, and the file is read again
    size_bytes: int | None = None  # where the service says it
    url: str | None = None  # where a person opens it
    author: str | None = None
    created: datetime | None = None  # with time zone
    skip: str | None = None  # a reason not to read it: "kept by another service"


@dataclass(frozen=True, slots=True)
class Document:
    """One document as it was read: its canonical text and its metadata."""

    uri: str
    text: str
    path: str = ""  # POSIX path within the source, or a path-like place
    title: str = ""
    language: str | None = None  # one of `text.LANGUAGES`: "python"
    url: str | None = None  # where a person opens it; None: derived from source and path
    author: str | None = None
    last_modified: datetime | None = None  # with time zone
    metadata: Metadata = field(default_factory=dict[str, Any])
    attachments: tuple[Attachment, ...] = ()  # documents of their own, where their source reads them


@dataclass(frozen=True, slots=True)
class Chunk:
    """A retrievable span of one document.

    `document.text[start_char:end_char] == text` always holds. `header` is context
    (path, heading trail, class and signature) that is embedded and indexed before
    the text, and never shown as content.
    """

    uri: str
    anchor: str  # structural path: "class Store/def get", "Storage/Architecture"
    start_char: int
    end_char: int
    start_line: int
    end_line: int  # line of the last character, inclusive
    text: str
    header: str
    tokens: int  # of `text` alone
    metadata: Metadata = field(default_factory=dict[str, Any])
    space_before: str = ""  # the white space before it, with which neighbours can be joined again


def build_embedded_text(header: str, text: str) -> str:
    """The text that is embedded and indexed for full text: the header, an empty line, the text."""
    return f"{header}\n\n{text}" if header else text


def hash_strings(*values: str) -> str:
    """Content hash of strings and of the boundaries between them: 32 hexadecimal digits."""
    hashed = hashlib.sha256()
    for value in values:
        encoded = value.encode()
        hashed.update(len(encoded).to_bytes(8, "big"))
        hashed.update(encoded)
    return hashed.hexdigest()[:32]


def hash_each(firsts: Iterable[str], *others: str) -> list[str]:
    """`hash_strings` of each of some strings, followed by the same others."""
    tail = b"".join(len(end).to_bytes(8, "big") + end for end in map(str.encode, others))
    encoded = map(str.encode, firsts)
    return [
        hashlib.sha256(len(first).to_bytes(8, "big") + first + tail).hexdigest()[:32] for first in encoded
    ]


@dataclass(frozen=True, slots=True)
class Mention:
    """One document says something of another."""

    kind: str  # one of `relations.KINDS`
    target: str  # as it is written
    name: str  # what is meant: see `relations`

    def as_json(self) -> dict[str, str]:
        """A plain dictionary."""
        return {"kind": self.kind, "target": self.target, "name": self.name}


def is_variant_uri(uri: str) -> bool:
    """Whether it is of a file that only further branches of a repository have with its content."""
    return _VARIANT.search(uri) is not None


def strip_variant(uri: str) -> str:
    """The uri of the same file in the main branch."""
    return _VARIANT.sub("", uri)


PULL_PREFIXES = {"github": "pull/", "gitlab": "merge-requests/"}
"""How the names of heads of pull requests begin, by service; other services do as GitHub does.

GitHub, Gitea and Forgejo keep such a head as `refs/pull/12/head`, GitLab as `refs/merge-requests/12/head`.
It is called as people type it after `git fetch origin`, without `/head`: `pull/12`, `merge-requests/12`.
"""

_PULL_NAME = re.compile(r"(?:pull|merge-requests)/[0-9]+")
_PULL_REF = re.compile(r"refs/((?:pull|merge-requests)/[0-9]+)/head")
_WRONG_PATTERN = re.compile(
    r"refs/.*|(?:pull|merge-requests)/.+/(?:head|merge)|(?:pulls|merge-request|merge_requests?)/[0-9*?\[\]-]+"
)


def is_pull_name(name: str) -> bool:
    """Whether it names the head of a pull request."""
    return _PULL_NAME.fullmatch(name) is not None


def sort_pulls(names: Iterable[str]) -> list[str]:
    """Names of heads of pull requests by number."""
    return sorted(names, key=lambda name: (int(name.rpartition("/")[2]), name))


def parse_pull_ref(ref: str) -> str | None:
    """The name of the head that a ref of git holds; None: it holds none."""
    match = _PULL_REF.fullmatch(ref)
    return match[1] if match else None


def select_pull_patterns(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns that may name heads of pull requests: `pull/*` does, `*` does not."""
    return tuple(pattern for pattern in patterns if pattern.startswith(tuple(PULL_PREFIXES.values())))


def is_wrong_pattern(pattern: str, service: str) -> bool:
    """Whether a pattern names a ref, or a pull request as its service does not."""
    others = tuple(prefix for other, prefix in PULL_PREFIXES.items() if other != service)
    is_of_other = service in PULL_PREFIXES and pattern.startswith(others)
    return is_of_other or _WRONG_PATTERN.fullmatch(pattern) is not None


MAX_CHARS = 20_000
_OPENING = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*(?:\r\n?|\n)")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What stands between two delimiters, unparsed: it may be text between two rulers."""

    delimiter: str  # "---" or "+++"
    inner: str
    end: int | None  # where the rest of the text begins; None: no closing delimiter within `MAX_CHARS`


def locate_front_matter(text: str) -> FrontMatter | None:
    """The YAML between `---`, or TOML between `+++`, at the top of a text; None where it begins otherwise."""
    opening = _OPENING.match(text)
    if opening is None:
        return None
    closing = re.compile(rf"^(?:{re.escape(opening[1])}|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)
    match = closing.search(text, opening.end(), opening.end() + MAX_CHARS)
    if match is None:
        return FrontMatter(opening[1], text[opening.end() : opening.end() + MAX_CHARS], None)
    return FrontMatter(opening[1], text[opening.end() : match.start()], match.end())
